"""Pruning and merging of n-gram tables."""
