"""Plots, tables and the templates of pages. Nothing here knows models or measurements."""
