"""Pictures: JPEG and PNG files to arrays of bytes, at the size that a network reads. Knows no networks."""
