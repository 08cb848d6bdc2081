"""Labelled texts, words and pairs of texts: how files of them are read."""
