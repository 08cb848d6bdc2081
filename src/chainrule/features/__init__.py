"""Features: each is a folder that is understood, changed and deleted by itself."""
