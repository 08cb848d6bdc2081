"""Word vectors: skip-gram, CBOW and GloVe, with subwords; co-occurrences, analogies, and what measures them."""
