"""Encoders that fill in masked tokens, or give vectors: BERT and its relatives."""
