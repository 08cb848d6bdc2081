"""Networks that also predict what came after similar states before: a neural cache, and nearest neighbours (kNN-LM)."""

USES = ("context",)
