"""What the experiments on reversed letters share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from chainrule.features.lectures.experiments.small_models import accuracy, backwards, draw_sources


class Reversing:
    """Writes its sources backwards, all but the last letter, which is always a."""

    def write(self, sources, beam, *, max_tokens, progress):
        return [[SimpleNamespace(text=" ".join([*source.split()[:0:-1], "a"]))] for source in sources]


def test_letters_are_right_at_their_positions() -> None:
    assert backwards("a b c") == "c b a"
    assert accuracy(Reversing(), ["b c", "a c"]) == 0.75  # type: ignore[arg-type]
    assert all(len(source.split()) == 3 for source in draw_sources(np.random.default_rng(1), [3, 3]))
