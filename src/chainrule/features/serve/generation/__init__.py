"""Generates texts for requests: one batch for all of them, on the scheduler's thread."""
