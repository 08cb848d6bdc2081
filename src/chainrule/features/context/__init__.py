"""A network that sees less of a text than it could: at most so many words, or tokens, before each."""

USES = ()
