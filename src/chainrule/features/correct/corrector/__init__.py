"""Correction: what a person may have meant, by a channel of errors and any language model."""
