"""Measures of texts against references: BLEU, chrF, ROUGE, CIDEr, and error rates of words and characters."""

USES = ()
