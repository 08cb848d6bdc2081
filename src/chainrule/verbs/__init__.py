"""From models to other models: converted, pruned, merged, mixed."""
