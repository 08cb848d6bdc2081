"""Verbs that look into models: embed, nearest, draw, explore."""
