"""Measures of models and texts beyond perplexity: the harness, prompts, surprisal, frequencies."""
