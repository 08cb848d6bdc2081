"""Models taken apart and put together again; and folders that hold something else."""

from __future__ import annotations

import json

import numpy as np
import pytest
from random_networks import DOCUMENT_NETWORKS, MODERN, STREAM_NETWORKS, VOCABULARY_SIZE, random_model, small

from chainrule.errors import ModelFormatError
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.saving import from_state, to_state

NETWORKS = {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}


def taken(config) -> tuple[dict, dict]:
    settings, arrays = to_state(random_model(config))
    return json.loads(json.dumps(settings)), arrays


@pytest.mark.spread(15)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_model_put_together_again_is_the_same(name: str) -> None:
    model = random_model(NETWORKS[name])
    settings, arrays = taken(NETWORKS[name])
    again = from_state(settings, arrays, VOCABULARY_SIZE, [type(NETWORKS[name])])
    text = [np.array([3, 4, 2, 7, 5, 9, 9, 1], np.int32)]
    np.testing.assert_array_equal(model.score(text)[0], again.score(text)[0])
    assert again.network.config == model.network.config
    assert all(np.array_equal(mine, arrays[name]) for name, mine in to_state(again)[1].items())
    assert {str(array.dtype) for array in arrays.values()} <= {"float32", "int64"}


def test_small_arrays_begin_where_torch_s_do_and_large_ones_are_not_copied() -> None:
    """Elsewhere, some processors add up in another order, so that a loaded network would give other bits."""
    config = RecurrentConfig(layers=1, width=320, context=8)
    settings, arrays = taken(config)
    moved = {name: elsewhere(array) for name, array in arrays.items()}
    network = from_state(settings, moved, VOCABULARY_SIZE, [RecurrentConfig]).network
    sizes = set()
    for name, parameter in network.named_parameters():
        is_small = parameter.nbytes <= 1 << 20
        assert (parameter.data_ptr() % 64 == 0) == is_small, name
        assert (parameter.data_ptr() == moved[name].ctypes.data) == (not is_small), name
        sizes.add(is_small)
    assert sizes == {True, False}


def elsewhere(array: np.ndarray) -> np.ndarray:
    """The same numbers, 4 bytes after where torch's arrays could begin."""
    room = np.empty(array.nbytes + 128, np.uint8)
    begin = -room.ctypes.data % 64 + 4
    moved = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def test_tied_weights_are_there_once_and_stay_tied() -> None:
    settings, arrays = taken(small(MODERN, tied=True))
    assert "output.weight" not in arrays
    again = from_state(settings, arrays, VOCABULARY_SIZE, [TransformerConfig]).network
    assert again.output.weight is again.embedding.weight


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda s, a: s.clear(), "the fields of the settings are missing; expected network"),
        (lambda s, a: s.update(network=[]), "expected an object"),
        (lambda s, a: s["network"].update(colour=1), "'colour', which this version does not know"),
        (lambda s, a: s["network"].pop("width"), "'width' is missing"),
        (lambda s, a: s["network"].update(width="16"), "width is '16'"),
        (lambda s, a: s["network"].update(heads=5), "cannot be divided"),
        (lambda s, a: s["network"].update(layers=999), "999 layers, but the file has 10 arrays"),
        (lambda s, a: s["network"].update(layers=3), "is missing; the network needs 14"),
        (lambda s, a: s["network"].update(width=65528, feed_forward_width=300_000), "expected float32"),
        (lambda s, a: s["network"].update(output="adaptive", cutoffs=[5, 99]), "do not suit the vocabulary"),
        (lambda s, a: a.pop("embedding.weight"), "'embedding.weight' is missing"),
        (lambda s, a: a.update(more=np.zeros(3, np.float32)), "an array 'more'"),
        (
            lambda s, a: a.update({"embedding.weight": a["embedding.weight"].T}),
            r"\[16, 29\]; expected float32 \[29, 16\]",
        ),
        (lambda s, a: a.update({"embedding.weight": a["embedding.weight"].astype(np.int64)}), "is int64"),
    ],
)
def test_arrays_of_the_wrong_shape_are_an_error(break_it, message: str) -> None:
    settings, arrays = taken(MODERN)
    break_it(settings, arrays)
    with pytest.raises(ModelFormatError, match=message):
        from_state(settings, arrays, VOCABULARY_SIZE, [TransformerConfig])


def test_settings_of_an_n_gram_memory_are_skipped_where_it_is_off() -> None:
    """Earlier versions wrote them for every network."""
    settings, arrays = taken(RecurrentConfig(width=8))
    settings["network"].update(ngram_memory=0, ngram_rows=16384, ngram_width=64)
    assert from_state(settings, arrays, VOCABULARY_SIZE, [RecurrentConfig]).network.config == RecurrentConfig(width=8)


def test_a_network_with_an_n_gram_memory_is_refused() -> None:
    settings, arrays = taken(RecurrentConfig(width=8))
    settings["network"].update(ngram_memory=4, ngram_rows=50)
    with pytest.raises(ModelFormatError, match=r"trained with an n-gram memory, .*no longer has; train it again .*mix"):
        from_state(settings, arrays, VOCABULARY_SIZE, [RecurrentConfig])


def test_another_vocabulary_size_is_an_error() -> None:
    settings, arrays = taken(RecurrentConfig(width=8))
    with pytest.raises(ModelFormatError, match=r"\[29, 8\]; expected float32 \[30, 8\]"):
        from_state(settings, arrays, 30, [RecurrentConfig])


@pytest.mark.parametrize("wrong", [-1, 29, 3])
def test_bad_ranks_are_an_error(wrong: int) -> None:
    settings, arrays = taken(small(MODERN, output="adaptive"))
    arrays["output.ranks"] = arrays["output.ranks"].copy()
    arrays["output.ranks"][5] = wrong
    with pytest.raises(ModelFormatError, match="does not hold each rank once"):
        from_state(settings, arrays, VOCABULARY_SIZE, [TransformerConfig])


def test_nan_weights_are_an_error_when_they_are_used() -> None:
    settings, arrays = taken(MODERN)
    arrays["embedding.weight"] = np.full_like(arrays["embedding.weight"], np.nan)
    model = from_state(settings, arrays, VOCABULARY_SIZE, [TransformerConfig])
    state = model.start([np.array([3], np.int32)])
    for call in (
        lambda: model.score([np.array([3], np.int32)]),
        lambda: model.next_log_probs(state),
        lambda: model.top(state, 3),
        lambda: model.draw(state, np.array([0.5])),
    ):
        with pytest.raises(ModelFormatError):
            call()
