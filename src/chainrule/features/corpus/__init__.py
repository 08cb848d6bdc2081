"""Choosing from corpora: filter, detect, rank."""

USES = ("metrics",)
