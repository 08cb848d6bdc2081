"""Whisper: an encoder and a decoder that write what is said in thirty seconds of sound, with the times."""
