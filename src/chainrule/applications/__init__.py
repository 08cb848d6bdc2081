"""Applications of language models, against the protocol alone: nothing here imports a concrete model."""
