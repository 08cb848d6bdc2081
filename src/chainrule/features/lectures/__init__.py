"""What a course teaches: made data sets and experiments."""

USES = ("classify", "corpus", "inspect", "metrics", "seq2seq", "speech", "vision")
