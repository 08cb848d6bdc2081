"""KenLM's programs and module, with our models."""

USES = ()
