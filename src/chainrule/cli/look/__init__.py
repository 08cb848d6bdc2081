"""Verbs that look into models: embed, nearest and other verbs on word vectors, draw, attend, inspect, explore."""
