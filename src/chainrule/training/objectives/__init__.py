"""Objectives: what training minimises, one for each kind of network and data."""
