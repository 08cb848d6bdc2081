"""Models made of models: linear and log-linear interpolation, and a cache of recent words. Knows no model family."""
