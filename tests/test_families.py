from __future__ import annotations

from dataclasses import dataclass, is_dataclass

import numpy as np
import pytest
from oracles import random_documents, stream_of

from chainrule.base.progress import silent
from chainrule.errors import ModelFormatError
from chainrule.features.trees.config import TreeConfig
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of, kinds
from chainrule.mixture.uniform import UniformConfig
from chainrule.models.families.table import FAMILIES, family_of
from chainrule.neural.config import TransformerConfig
from chainrule.ngram.config import NGramConfig
from chainrule.protocol import END
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions
from chainrule.verbs.draw import network_diagram

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)

STREAM = stream_of(random_documents(1, 9, 20, 7))


ONE_STEP = StreamOptions(training=TrainingConfig(steps=1, batch=2))
SMALL = {name: (config(width=8, context=4), silent, ONE_STEP) for name, config in {**NETWORKS, **BIDIRECTIONAL}.items()}


SMALL["tree"] = (TreeConfig(width=8, brackets=(7, 8)), silent, ONE_STEP)
TREES = np.tile(np.array([7, 3, 4, 7, 5, 6, 8, 8, END], np.int32), 4)


@pytest.mark.parametrize("name", [name for name in FAMILIES if not kinds()[name].learns_from])
def test_a_family_puts_together_what_it_took_apart(name: str) -> None:
    family = FAMILIES[name]
    config = kinds()[name].configs[0].get()
    assert is_dataclass(config)
    model, _ = family.train(TREES if name == "tree" else STREAM, 9, *SMALL.get(name, (config(), silent)))
    again = family.from_state(*family.to_state(model), 9)
    assert type(again) is type(model)
    prefixes = [np.array(words, np.int32) for words in ([], [3], [3, 4, 0])]
    for mine, other in zip(again.score(prefixes), model.score(prefixes), strict=True):
        np.testing.assert_array_equal(mine, other)
    if family.job == "fill":
        return
    np.testing.assert_array_equal(
        again.next_log_probs(again.start(prefixes)), model.next_log_probs(model.start(prefixes))
    )


def test_a_configuration_determines_its_family() -> None:
    assert family_of(UniformConfig()) == "uniform"
    assert family_of(NGramConfig(order=2)) == "ngram"


@dataclass(frozen=True)
class Stranger(NGramConfig):
    """A subclass is another thing."""


@pytest.mark.parametrize("config", [Stranger(), 5, "ngram", None, NGramConfig])
def test_what_is_no_configuration_is_an_error_that_names_those_there_are(config: object) -> None:
    with pytest.raises(TypeError, match=r"expected one of UniformConfig, .*NGramConfig"):
        family_of(config)


def taken_apart_ngram(order: int = 3) -> tuple[dict, dict]:
    model, _ = FAMILIES["ngram"].train(STREAM, 9, NGramConfig(order=order), silent)
    return FAMILIES["ngram"].to_state(model)


@pytest.mark.parametrize(
    "sizes", [None, [], 9, "9", {"1": 9}, [9, -1], [9, 1.0], [9, True], [9, None], [9] * 25], ids=str
)
def test_bad_level_sizes_are_an_error_that_shows_them(sizes: object) -> None:
    _, arrays = taken_apart_ngram()
    with pytest.raises(ModelFormatError, match="the n-gram settings hold ngrams = "):
        FAMILIES["ngram"].from_state({"ngrams": sizes}, arrays, 9)


def test_level_sizes_that_are_missing_are_an_error() -> None:
    with pytest.raises(ModelFormatError, match="ngrams = None"):
        FAMILIES["ngram"].from_state({}, taken_apart_ngram()[1], 9)


def test_a_vocabulary_of_another_size_is_an_error_that_names_both() -> None:
    with pytest.raises(ModelFormatError, match="has 9 unigrams and the vocabulary 10 tokens"):
        FAMILIES["ngram"].from_state(*taken_apart_ngram(), 10)


def test_level_sizes_that_the_arrays_do_not_have_are_an_error() -> None:
    settings, arrays = taken_apart_ngram()
    with pytest.raises(ModelFormatError, match=r"the n-gram table's array 'nodes' is int32"):
        FAMILIES["ngram"].from_state({"ngrams": [*settings["ngrams"][:-1], 10**15]}, arrays, 9)


def test_a_norm_that_diagrams_do_not_know_has_its_own_name() -> None:
    config = TransformerConfig(layers=1, width=8, heads=2, context=4)
    drawn = [network_diagram("a", config, {"embedding.weight": (50, 8)}).svg()]
    object.__setattr__(config, "norm", "newer")
    drawn.append(network_diagram("a", config, {"embedding.weight": (50, 8)}).svg())
    assert ["newer" in svg for svg in drawn] == [False, True]
    assert ["RMSNorm" in svg for svg in drawn] == [True, False]
