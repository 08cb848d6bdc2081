"""Conversations and completions in a terminal, with a model here or on a server with OpenAI's interface."""

USES = ()
