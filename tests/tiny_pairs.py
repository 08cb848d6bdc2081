"""Twenty pairs of sentences, and settings with which a model of them is trained in a moment."""

from __future__ import annotations

SOURCES = ["ein hund rennt", "eine katze schläft", "zwei hunde rennen", "ein mann liest", "eine frau läuft"] * 4
TARGETS = ["a dog runs", "a cat sleeps", "two dogs run", "a man reads", "a woman walks"] * 4
TINY = ["--width", 16, "--heads", 2, "--encoder-layers", 1, "--decoder-layers", 1, "--steps", 4, "--batch", 4]
QUICK = [*TINY, "--precision", "float32", "--compile", "no", "--tokenizer", "whitespace"]
