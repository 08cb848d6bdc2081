"""A base and its adapters, served together: a model each, and weights that are there once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import chainrule
from chainrule.features.serve.models import _load_ready

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("first", ["lm", "one"])
def test_adapters_share_the_weights_of_their_base(first: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on a mat\n" * 40)
    training = chainrule.TrainingConfig(steps=2, batch=2)
    config = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=16)
    chainrule.train(tmp_path / "text.txt", config, training=training).save(tmp_path / "lm")
    for seed, name in enumerate(("one", "two")):
        own = chainrule.TrainingConfig(steps=2, batch=2, learning_rate=0.05, seed=seed)
        chainrule.adapt(tmp_path / "lm", tmp_path / "text.txt", lora=2, training=own).save(tmp_path / name)
    names = [first, *({"lm", "one", "two"} - {first})]
    models = [_load_ready(tmp_path / name, None)[0] for name in names]
    assert len({model.engine.network.embedding.weight.data_ptr() for model in models}) == 1  # type: ignore[union-attr]
    scores = [float(model.score(["the cat sat"])[0]) for model in models]  # type: ignore[union-attr]
    assert len(set(scores)) == 3
    alone = [float(chainrule.load(tmp_path / name).score(["the cat sat"])[0]) for name in names]
    assert scores == alone
