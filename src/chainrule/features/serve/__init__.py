"""Models over HTTP: a server that programs written for OpenAI's interface use unchanged."""

USES = ("corpus", "correct", "inspect", "neighbours", "open", "reading", "seq2seq", "side_by_side", "vision")
