"""Word vectors: trained, opened, measured, mapped; and co-occurrences, which GloVe learns from."""
