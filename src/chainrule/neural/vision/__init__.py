"""Networks that read pictures."""
