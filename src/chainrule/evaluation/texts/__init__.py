"""Texts measured against references: BLEU, ROUGE, error rates, corrections."""
