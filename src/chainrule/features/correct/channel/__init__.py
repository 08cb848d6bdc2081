"""A noisy channel: how errors get into texts, and which texts may have been meant."""
