"""Reads and writes ARPA, the text format in which n-gram tools exchange models."""
