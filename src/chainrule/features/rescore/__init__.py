"""Rescoring n-best lists, in the formats of recognisers, translators and correctors."""

USES = ("metrics", "seq2seq")
