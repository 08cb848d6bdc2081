"""Verbs on texts: correct, rescore, filter, rank, detect, prompt and others, each in a module of its name."""
