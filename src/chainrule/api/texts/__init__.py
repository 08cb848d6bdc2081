"""Verbs on texts: correct, rescore, filter, detect and others, each in a module of its name."""
