"""The n-gram engine: counts, then discounts, then a packed trie, then queries. Never imports the neural side."""
