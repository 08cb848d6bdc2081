"""What a course teaches: made data sets and experiments."""

USES = ("classify", "corpus", "inspect", "seq2seq", "speech", "vision")
