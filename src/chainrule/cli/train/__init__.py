"""The verbs that train: one file for each group of families, and what they share."""
