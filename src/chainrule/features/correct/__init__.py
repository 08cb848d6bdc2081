"""Correction of spelling and grammar by a noisy channel."""

USES = ("metrics", "rescore", "seq2seq")
