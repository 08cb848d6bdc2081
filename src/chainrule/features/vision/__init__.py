"""Pictures: networks that read them, captions, and boxes."""
