"""Training of language models: on text, counts, preferences, residuals."""
