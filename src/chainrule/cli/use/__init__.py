"""Verbs that use a model: generate, complete, chat, rescore, correct, translate and others."""
