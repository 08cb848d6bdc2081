"""Networks that write a target given a source: encoders of sources, decoders, and both as one model."""
