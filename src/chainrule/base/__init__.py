"""What all rooms use and no model knows of: compiled kernels, files, progress, memory, settings."""
