"""The speller: probabilities of the spellings of unknown words."""
