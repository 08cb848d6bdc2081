"""ARPA, the text format that n-gram tools exchange models in."""
