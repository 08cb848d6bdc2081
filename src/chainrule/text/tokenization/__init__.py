"""Text to token ids and back: splitters, vocabularies, subwords."""
