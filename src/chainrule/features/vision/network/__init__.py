"""Networks that read pictures: convolutions, residual networks, patch Transformers, grid LSTMs, a detector."""
