"""Open models: what other programs trained and stored, as models of ours; and ours, as they store them."""
