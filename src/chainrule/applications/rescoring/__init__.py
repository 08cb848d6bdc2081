"""Choosing among hypotheses by weighted sums of their own scores and those of language models; tuning the weights."""
