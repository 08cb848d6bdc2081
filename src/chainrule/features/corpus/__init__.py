"""Choosing from corpora: filter, detect, rank."""
