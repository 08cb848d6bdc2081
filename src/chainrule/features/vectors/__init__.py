"""Word vectors: trained, opened, measured, mapped."""

USES = ("metrics",)
