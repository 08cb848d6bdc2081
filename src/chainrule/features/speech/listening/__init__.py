"""From samples to words: recordings in windows, and what a network that hears has to give."""
