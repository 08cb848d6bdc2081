"""Detection: how likely each token of a text was, and whether a model wrote it."""
