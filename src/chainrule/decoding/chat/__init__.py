"""Conversations: messages, chat templates, and replies."""
