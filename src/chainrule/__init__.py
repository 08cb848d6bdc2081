"""chainrule: every language model from the n-gram to the Transformer, behind one small interface."""

__version__ = "0.1.0"
