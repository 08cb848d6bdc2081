"""Verbs on files: data, count, convert, prune, mix."""
