"""Open models: checkpoints of other programs as models of ours, and our models in their formats."""

USES = ("classify", "seq2seq", "speech", "vision")
