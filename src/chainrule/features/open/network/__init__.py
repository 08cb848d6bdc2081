"""The Transformers of others: settings that only opened checkpoints need, and the layers that these settings build."""
