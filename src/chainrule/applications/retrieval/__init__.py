"""Ranking documents by the probability of a query under a language model of each."""
