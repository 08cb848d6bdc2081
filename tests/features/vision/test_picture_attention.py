"""Attention drawn on a picture."""

from __future__ import annotations

import numpy as np

from chainrule.features.vision.attention_page import lit


def test_a_place_of_attention_is_bright() -> None:
    weights = np.zeros((2, 4), np.float32)
    weights[1, 3] = 0.7
    shown = lit(np.full((20, 40, 3), 200, np.uint8), weights)
    assert shown[15:, 35:].min() > 180
    assert shown[:8, :20].max() < 50  # a fifth is left
    flat = lit(np.full((20, 40, 3), 200, np.uint8), np.full((2, 4), 0.125, np.float32))
    assert flat.min() == 200
