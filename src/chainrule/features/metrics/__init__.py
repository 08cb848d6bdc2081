"""Measures against references: of texts (BLEU, chrF, ROUGE, CIDEr, error rates), of labels, and of ratings."""

USES = ()
