"""Applications of language models, by the protocol alone: nothing here imports a concrete model."""
