"""What a course teaches: made data sets and experiments."""

USES = ("classify", "corpus", "seq2seq", "speech", "vision")
