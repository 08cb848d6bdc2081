"""Layers that several networks share: attention, positions, softmax, products, states."""
