"""Models made of models, against the waist: interpolation, linear and log-linear, and a cache of recent words."""
