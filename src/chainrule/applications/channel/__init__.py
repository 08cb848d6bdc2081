"""A noisy channel: how texts get errors, and which texts may have been meant."""
