"""Word vectors: skip-gram, CBOW and GloVe, with subwords; co-occurrences, neighbours, analogies, and what measures them."""
