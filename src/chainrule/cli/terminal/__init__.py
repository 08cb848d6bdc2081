"""Prompts at a terminal: a conversation, and a menu of completions."""
