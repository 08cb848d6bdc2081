"""ARPA, the text format that n-gram tools exchange models in: its two directions, under one name."""

from chainrule.ngram.arpa_reading import read_arpa
from chainrule.ngram.arpa_writing import write_arpa

__all__ = ["read_arpa", "write_arpa"]
