"""Classifiers: labels of texts, words, pairs and other inputs; fine-tuned or trained from scratch."""

USES = ("metrics",)
