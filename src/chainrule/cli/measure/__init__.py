"""Verbs that measure models: evaluate, score, compare, experiment, harness."""
