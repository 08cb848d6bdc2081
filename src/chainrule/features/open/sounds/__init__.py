"""Checkpoints of networks that hear, and the files of their processors."""
