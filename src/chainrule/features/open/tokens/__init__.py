"""Vocabularies of checkpoints and tokenizers of SentencePiece, as our tokenizers."""
