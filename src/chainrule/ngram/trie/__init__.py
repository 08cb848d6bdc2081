"""The packed trie: its records, how it is assembled, looked up and walked."""
