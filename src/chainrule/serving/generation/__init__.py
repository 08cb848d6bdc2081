"""Generation for requests: one batch for all of them."""
