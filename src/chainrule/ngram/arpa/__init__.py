"""ARPA, the text format that n-gram tools exchange models in: its two directions, under one name."""

from chainrule.ngram.arpa.read import read_arpa
from chainrule.ngram.arpa.write import write_arpa

__all__ = ["read_arpa", "write_arpa"]
