"""Sounds: files of them as samples, log-mel frames, and transcripts. No torch."""
