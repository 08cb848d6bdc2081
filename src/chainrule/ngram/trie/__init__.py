"""The trie of an n-gram table: its records, construction and queries."""
