"""Sequences given others: translation, summaries, dates."""

USES = ("metrics",)
