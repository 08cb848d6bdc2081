"""Correction of spelling and grammar by a noisy channel."""

USES = ("rescore", "seq2seq")
