"""Networks whose vectors of tokens begin as those of a file: kept, trained, and refused where they do not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from training_runs import QUICK, VOCABULARY, numbers, trained

from chainrule.errors import SettingError
from chainrule.neural.config import FeedforwardConfig, MaskedConfig, NetworkConfig, TransformerConfig
from chainrule.text.vector_files import Vectors
from chainrule.training.config import InitialVectors

if TYPE_CHECKING:
    from pathlib import Path

FEEDFORWARD = FeedforwardConfig(width=12, embedding_width=5, window=2, context=6)
IDS = np.array([7, 2, 3])


def beginning(width: int = 5, *, fixed: bool) -> InitialVectors:
    rows = np.random.default_rng(3).normal(0, 4, (len(IDS), width)).astype(np.float32)
    return InitialVectors(Vectors("glove.txt", IDS, rows), fixed)


@pytest.mark.parametrize(
    "config", [FEEDFORWARD, replace(FEEDFORWARD, tied=True), TransformerConfig(layers=1, width=8, heads=2, context=6)]
)
def test_fixed_vectors_stay_and_others_are_trained(config: NetworkConfig) -> None:
    fixed, free = (beginning(config.input_width, fixed=each) for each in (True, False))
    network, _, told = trained(config, vectors=fixed)
    weight = network.embedding.weight.detach()
    np.testing.assert_array_equal(weight[IDS], fixed.vectors.rows)
    others = np.setdiff1d(np.arange(VOCABULARY), IDS)
    assert 1 < float(weight[others].std()) < 8  # drawn with the spread of those that were found
    assert told[0].note == "glove.txt has 3 of 11 tokens (27%); no vector is trained"
    moved, _, told = trained(config, vectors=free)
    moves = (moved.embedding.weight.detach()[IDS] - torch.from_numpy(free.vectors.rows)).abs()
    assert 0 < float(moves.max()) < 2
    assert told[0].note == "glove.txt has 3 of 11 tokens (27%)"


@pytest.mark.parametrize("fixed", [True, False])
def test_such_a_run_goes_on_as_if_nothing_had_happened(fixed: bool, tmp_path: Path) -> None:
    given = {"vectors": beginning(fixed=fixed), "origin": {"vectors": "glove.txt"}}
    whole, _, _ = trained(FEEDFORWARD, **given)

    def stop(report) -> None:
        if report.step >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(FEEDFORWARD, folder=tmp_path, **{**given, "told": stop})
    again, _, _ = trained(FEEDFORWARD, folder=tmp_path, resume=True, **given)
    assert numbers(again) == numbers(whole)


def test_a_run_goes_on_only_with_the_same_vectors(tmp_path: Path) -> None:
    trained(FEEDFORWARD, replace(QUICK, steps=3), folder=tmp_path, origin={"vectors": None})
    with pytest.raises(SettingError, match=r"vectors was not set and is glove\.txt, fixed"):
        trained(
            FEEDFORWARD,
            replace(QUICK, steps=3),
            folder=tmp_path,
            resume=True,
            vectors=beginning(fixed=True),
            origin={"vectors": beginning(fixed=True).name},
        )


def test_a_network_that_multiplies_its_vectors_still_begins_with_those_of_the_file() -> None:
    fixed = beginning(9, fixed=True)
    config = TransformerConfig(layers=1, width=9, heads=1, context=6, positions="none", scaled_embedding=True)
    network, _, _ = trained(replace(config, embedding_norm=False), vectors=fixed)
    read = network.embedding(torch.arange(VOCABULARY)).detach()
    np.testing.assert_allclose(read[IDS], fixed.vectors.rows, rtol=1e-6)
    assert 1 < float(read[np.setdiff1d(np.arange(VOCABULARY), IDS)].std()) < 8


def test_a_masked_network_begins_with_them_too() -> None:
    fixed = beginning(8, fixed=True)
    network, _, told = trained(MaskedConfig(layers=1, width=8, heads=2, context=6), vectors=fixed)
    np.testing.assert_array_equal(network.embedding.weight.detach()[IDS], fixed.vectors.rows)
    assert told[0].note == "glove.txt has 3 of 11 tokens (27%); no vector is trained"


def test_vectors_that_do_not_fit_are_errors() -> None:
    with pytest.raises(SettingError, match=r"glove.txt: its vectors have 7 numbers.* 5; set embedding_width=7"):
        trained(FEEDFORWARD, vectors=beginning(7, fixed=False))
    with pytest.raises(SettingError, match="set width=7"):
        trained(TransformerConfig(width=8, layers=1, context=4), vectors=beginning(7, fixed=False))
    empty = InitialVectors(Vectors("glove.txt", np.empty(0, np.int64), np.empty((0, 5), np.float32)), fixed=False)
    with pytest.raises(SettingError, match=r"glove\.txt: it has no word of the vocabulary"):
        trained(FEEDFORWARD, vectors=empty)
