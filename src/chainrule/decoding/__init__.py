"""Generating text: sampling and beam search over the interface of `protocol.py`. Imports no concrete model."""
