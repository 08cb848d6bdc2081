"""Opens whatever is in a folder or a file, describes and verifies it."""
