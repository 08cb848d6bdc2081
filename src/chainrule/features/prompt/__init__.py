"""Prompting: predictions of a language model that was never trained for the task."""

USES = ("metrics", "seq2seq")
