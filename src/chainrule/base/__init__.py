"""What every room uses and that knows nothing of models: compiled kernels, files, progress, memory, settings."""
