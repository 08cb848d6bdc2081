"""Bytes to token ids: corpora, tokenizers and vocabularies. Knows nothing of models."""
