"""Minimal pairs and SyntaxGym's suites: whether a model prefers what a grammar allows."""

USES = ("metrics",)
