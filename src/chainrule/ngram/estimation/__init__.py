"""From counts to probabilities: discounts, smoothing methods, and their tuning."""
