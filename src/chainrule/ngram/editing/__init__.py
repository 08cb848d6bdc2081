"""Models made smaller or of one another: pruning and merging."""
