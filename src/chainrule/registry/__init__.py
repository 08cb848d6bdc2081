"""Our rows of the registry: the only place of the core that names modules of features."""
