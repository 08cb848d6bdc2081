"""The speller: what an unknown word's characters cost."""
