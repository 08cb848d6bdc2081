"""Verbs on speech."""
