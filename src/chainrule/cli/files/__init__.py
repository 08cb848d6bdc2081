"""Verbs on files: data, split, pixels, filter, count, convert, info, verify, prune, mix, lmplz."""
