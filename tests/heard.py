"""What a speech recogniser might have heard: scores of letters, of which pyctcdecode makes words."""

from __future__ import annotations

import numpy as np

LABELS = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]  # the first is CTC's blank


def heard(sentence: str, seed: int) -> np.ndarray:
    """Log-probabilities of LABELS at every moment of a sentence that is not heard clearly: (moments, labels)."""
    random = np.random.default_rng(seed)
    moments = []
    for letter in sentence:
        for label in (LABELS.index(letter), 0):
            logits = random.normal(0, 1, len(LABELS))
            logits[label] += 2.5
            moments.append(logits - np.log(np.exp(logits).sum()))
    return np.array(moments, np.float32)
