"""N-gram models, which implement the protocols of `protocol.py`."""
