"""Counts the n-grams of all orders in a stream of token ids."""
