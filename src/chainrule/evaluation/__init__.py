"""Evaluation of language models: uses only the interface of `protocol.py`, so that it measures every model alike."""
