"""Models on disk: opened, saved and described."""
