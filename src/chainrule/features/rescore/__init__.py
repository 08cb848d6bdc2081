"""Rescoring n-best lists, in the formats of recognisers, translators and correctors."""

USES = ("seq2seq",)
