"""Models over HTTP: a server that programs written for OpenAI's interface use unchanged."""

USES = ("corpus", "correct", "open", "seq2seq", "vision")
