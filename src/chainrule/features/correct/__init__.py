"""Correction of spelling and grammar by a noisy channel."""
