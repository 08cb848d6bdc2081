"""Networks that learn from a text as they read it: dynamic evaluation."""

USES = ("context",)
