"""Prompting: predictions of a language model that was never trained for the task."""

USES = ("seq2seq",)
