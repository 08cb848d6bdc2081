"""Networks that read a text in another way: here, those that see at most so many words, or tokens, before each."""

USES = ()
