"""What a course teaches: made data sets and experiments."""
