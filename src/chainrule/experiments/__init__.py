"""Classroom experiments on memory, cost, gradients and positions; each is a function that returns Findings."""
