"""Reads KenLM's binary files; answers word-by-word queries like its Python module."""
