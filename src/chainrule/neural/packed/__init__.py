"""Matrices in four to eight bits: their layouts, and products with vectors in eight bits."""
