"""The families of models: how each is configured, trained, saved and restored."""
