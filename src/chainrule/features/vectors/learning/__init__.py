"""Word vectors: skip-gram, CBOW and GloVe, with subwords; co-occurrences, analogies, and their measures."""
