"""From a stream of token ids to the counts of n-grams of all orders."""
