"""GGUF files as Hugging Face checkpoints: a table of architectures, how files are read by it, and their tokenizers."""
