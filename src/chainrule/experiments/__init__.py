"""Experiments that the field teaches with: memory, cost, gradients, positions; each a function that gives Findings."""
