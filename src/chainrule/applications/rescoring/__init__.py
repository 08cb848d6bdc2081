"""Choosing among hypotheses: weighted sums of their own scores and of what language models say, and their weights."""
