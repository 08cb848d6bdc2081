"""The overview of heads, against loops over rows and tokens."""

from __future__ import annotations

import base64
import math

import numpy as np
import pytest

from chainrule.drawing.attention import AttentionMap
from chainrule.drawing.colours import HEAT, heat, ink_on, luminance
from chainrule.features.serve.explorer.heads import is_special, overview

TOKENS = ["<s>", "·the", "·dog", ",", "·the", "."]


def maps_of(weights: np.ndarray) -> AttentionMap:
    return AttentionMap(title="layer 1", rows=TOKENS, columns=TOKENS, weights=weights.astype(np.float32))


def random_weights() -> np.ndarray:
    weights = np.tril(np.random.default_rng(0).random((3, 6, 6)) ** 4)
    return weights / weights.sum(2, keepdims=True)


def test_entropy_and_shares_are_means_over_the_tokens_that_have_a_choice() -> None:
    weights = random_weights()
    [heads] = overview([maps_of(weights)])["overview"]
    for own, head in zip(weights, heads, strict=True):
        shares = dict.fromkeys(("previous", "itself", "same", "first", "separators"), 0.0)
        entropy = 0.0
        for i in range(1, 6):  # the first row has no choice
            for j in range(i + 1):
                entropy -= own[i, j] * math.log(own[i, j]) / 5
                shares["previous"] += own[i, j] / 5 * (j == i - 1)
                shares["itself"] += own[i, j] / 5 * (j == i)
                shares["same"] += own[i, j] / 5 * (j != i and TOKENS[i] == TOKENS[j])
                shares["first"] += own[i, j] / 5 * (j == 0)
                shares["separators"] += own[i, j] / 5 * (TOKENS[j] in (",", "."))
        assert head["entropy"] == pytest.approx(entropy, abs=1e-4)
        assert head["looks"] == {name: pytest.approx(share, abs=1e-4) for name, share in shares.items()}
        picture = np.frombuffer(base64.b64decode(head["picture"]), np.uint8).reshape(head["height"], head["width"])
        assert np.abs(picture / 255 - own).max() <= 0.5 / 255 + 1e-6


def test_heads_are_named_for_what_they_look_at_and_the_clearest_is_chosen() -> None:
    previous, first, one = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros((6, 6))
    for i in range(6):
        previous[i, max(0, i - 1)] = first[i, 0] = one[i, min(i, 1)] = 1
    even = np.tril(np.ones((6, 6))) / np.arange(1, 7)[:, None]
    spread = [0.999 * own + 0.001 * even for own in (previous, first, one)]  # a row that sees one column has no choice
    seen = overview([maps_of(np.stack([even, spread[1]])), maps_of(np.stack([spread[2], spread[0]]))])
    assert [[own["kind"] for own in layer] for layer in seen["overview"]] == [["broad", "first"], ["one", "previous"]]
    assert seen["overview"][1][0]["most"]["token"] == "·the"
    assert seen["chosen"][0] == 1  # neither the broad head nor the one that looks at <s>


def test_a_picture_of_a_long_text_keeps_thin_lines() -> None:
    tokens = [f"t{i}" for i in range(500)]
    weights = np.eye(500, k=-1)[None].astype(np.float32)
    weights[0, 0, 0] = 1
    own = overview([AttentionMap(title="", rows=tokens, columns=tokens, weights=weights)])["overview"][0][0]
    picture = np.frombuffer(base64.b64decode(own["picture"]), np.uint8).reshape(own["height"], own["width"])
    assert picture.shape == (32, 32)
    assert (np.diag(picture) == 255).all()


@pytest.mark.parametrize("token", ["<s>", "</s>", "[CLS]", "<|endoftext|>", "<bos>", "<unk>"])
def test_boundaries_are_special(token: str) -> None:
    assert is_special(token)
    assert not is_special(f"·{token}x")
    assert not is_special("<E2>")


def test_the_scale_moves_away_from_the_paper_and_what_is_written_on_it_is_readable() -> None:
    assert [heat(i / 6) for i in range(7)] == list(HEAT)
    for mode in (0, 1):
        shades = [heat(i / 60)[mode] for i in range(61)]
        lights = np.array([luminance(shade) for shade in shades])
        assert (np.diff(lights) < 0).all() if mode == 0 else (np.diff(lights) > 0).all()
        inks = np.array([luminance(ink_on(shade)) for shade in shades])
        assert ((np.maximum(lights, inks) + 0.05) / (np.minimum(lights, inks) + 0.05)).min() >= 4.5
