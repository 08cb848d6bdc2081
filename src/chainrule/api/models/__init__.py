"""What users hold: models of every kind but conditional ones, with their tokenizers; saved and opened."""
