"""KenLM's binary files, and word-by-word queries as its module answers them."""
