"""What several verbs share: options, reading texts, opening models, output."""
