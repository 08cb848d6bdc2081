"""An architecture of others in terms of our networks: tables of its settings and tensors, read in both directions.

A row of a table is all that is known of one field of config.json, or of one tensor. `Architecture` holds the tables;
each is in `architectures`, with its relatives. Several fields of config.json that together are one of our settings have
a Rule; tensors are converted to arrays and back.
Legend: H heads, K heads of keys and values, d numbers in a head, D width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import negate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings
    from chainrule.features.seq2seq.network.config import Seq2SeqConfig, Shared
    from chainrule.neural.config import NetworkConfig

    Json = dict[str, Any]

REQUIRED = object()  # of a field without which there is no model


class Setting(NamedTuple):
    """A field of config.json and a setting of ours.

    default: the field's value where config.json leaves it out. values: our value for each of theirs, where they differ;
    if several of theirs are the same in ours, the first one is written.
    """

    theirs: str
    ours: str
    default: Any = REQUIRED
    values: Mapping[Any, Any] | None = None


class Rule(NamedTuple):
    """Several fields that belong together. read: a function from config.json to settings, which raises ValueError where
    it asks for what is not supported. write: the inverse.
    """

    fields: tuple[str, ...]
    read: Callable[[Json], Json]
    write: Callable[[Any], Json]


class Change(NamedTuple):
    """A conversion between the tensors of theirs that a row names and the array of ours.

    The settings are those of our network.
    """

    to_ours: Callable[[list[ndarray], Any], ndarray]
    to_theirs: Callable[[ndarray, Any], list[ndarray]]


SAME = Change(lambda tensors, config: tensors[0], lambda tensor, config: [tensor])


class Tensor(NamedTuple):
    """An array of ours, by its name, and what it is made of. {layer} stands for each layer's number, {expert}
    for each expert's, and in theirs {half} for half the layer's, where a layer of theirs is two of ours.

    by_token: whether it has a row for each token, since others number tokens differently. when: a function that says
    whether networks of these settings have it in this form; None where all do that have such an array.
    of_experts: whether each of theirs holds those of all experts, one after the other. together: the tensor that a file
    may have in place of these, with those of all experts. in_groups: whether theirs has several arrays of ours, group
    by group; the change then gives (groups, rows, ...) of each. in_layer: a function that says
    whether a layer, by its number, has it in this form; None where all have. Files may hold tensors of others, unused.
    """

    ours: str
    theirs: str | tuple[str, ...]
    change: Change = SAME
    by_token: bool = False
    when: Callable[[Any], bool] | None = None
    of_experts: bool = False
    together: str | None = None
    in_groups: bool = False
    in_layer: Callable[[Any, int], bool] | None = None

    def names(self, layer: int, expert: int = 0) -> tuple[str, ...]:
        """Return the names that others have for the tensors of one layer, and of one expert in it."""
        theirs = (self.theirs,) if isinstance(self.theirs, str) else self.theirs
        return tuple(name.format(layer=layer, expert=expert, half=layer // 2) for name in theirs)

    def places(self, layers: int, experts: int) -> Iterator[tuple[int, int]]:
        """Return layers, and experts in them, that have such an array."""
        return product(range(layers), range(experts if "{expert}" in self.ours else 1))


def weight_and_bias(ours: str, theirs: str | tuple[str, ...], change: Change = SAME) -> tuple[Tensor, Tensor]:
    """Return the arrays of a linear layer or a norm. ours, theirs: their names, less .weight and .bias."""

    def row(kind: str) -> Tensor:
        names = f"{theirs}.{kind}" if isinstance(theirs, str) else tuple(f"{name}.{kind}" for name in theirs)
        return Tensor(f"{ours}.{kind}", names, change)

    return row("weight"), row("bias")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What is known of one model_type.

    family: our family. config: our class of configurations. class_name: the name in transformers. implied: settings of
    ours that it always has, without a field for them. fixed: fields of config.json that are supported only with this
    value, which is also their default. ignored: fields that change no number. ignored_tensors: patterns of tensors that
    are no weights; LAYERS stands for the number of layers, which the first one beyond them has. prefix: a prefix of
    tensors' names that files may leave out; it is not written where writes_prefix is false. old_endings: endings of
    tensors' names in old files, with their new forms. aliases: other names of a tensor that layers share, since files
    keep it once, under any of its names. computed: tensors that files may have although they follow from the settings,
    with a function that gives their values.
    """

    model_type: str
    class_name: str
    family: str
    config: type[NetworkConfig | Seq2SeqConfig]
    implied: Mapping[str, Any]
    settings: tuple[Setting | Rule, ...]
    tensors: tuple[Tensor, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    ignored_tensors: tuple[str, ...] = ()
    prefix: str = ""
    writes_prefix: bool = True
    old_endings: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    computed: Mapping[str, Callable[[Any], ndarray]] = field(default_factory=dict)

    def fields(self) -> set[str]:
        """Return the fields of config.json that its settings follow from."""
        return {name for row in self.settings for name in ((row.theirs,) if isinstance(row, Setting) else row.fields)}

    @property
    def is_bidirectional(self) -> bool:
        """Whether it reads a text with a special token on either side."""
        return self.family not in ("transformer", "conditional", "whisper")


# Whether both inputs share their vectors of tokens, and whether the output has those of its side -> our `shared`.
SHARING: dict[tuple[bool, bool], Shared] = {
    (True, True): "all",
    (True, False): "inputs",
    (False, True): "target",
    (False, False): "none",
}


def shared_vectors(
    shared: str, source: str, target: str, output: str
) -> tuple[tuple[Tensor, ...], dict[str, tuple[str, ...]]]:
    """Return the rows for vectors of tokens that two sides and the output may share, and the aliases of the names.

    shared: the tensor of all, or of both inputs. source, target, output: those of one part each.
    """

    def row(ours: str, theirs: str, *kinds: Shared) -> Tensor:
        return Tensor(ours, theirs, by_token=True, when=lambda config: config.shared in kinds)

    rows = (
        row("output.weight", shared, "all"),
        row("output.weight", target, "target"),
        row("output.weight", output, "inputs", "none"),
        row("source_embedding.weight", shared, "inputs"),
        row("source_embedding.weight", source, "target", "none"),
        row("embedding.weight", target, "none"),
    )
    return rows, {shared: (source, target, output), source: (shared,), target: (shared, output)}


# What activations are called; gelu_new and its like are the form with tanh.
ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu": "gelu_exact",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "relu2": "relu_squared",
}
GATED = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu_pytorch_tanh": "geglu",
    "gelu_new": "geglu",
    "gelu_fast": "geglu",
    "gelu": "geglu_exact",
}


def _split_heads(array: ndarray, config: OpenSettings | Seq2SeqConfig) -> list[ndarray]:
    """Split (H + 2K) d rows into those of queries, keys and values."""
    width = config.width_of_heads
    borders = np.cumsum([0, config.heads * width, config.key_heads * width, config.key_heads * width])
    return [array[begin:end] for begin, end in pairwise(borders.tolist())]


# Linear layers of GPT-2, which TensorFlow's had as (inputs, outputs).
TRANSPOSED = Change(lambda tensors, config: tensors[0].T, lambda array, config: [array.T])
# Queries, keys and values one on the other.
QUERY_KEY_VALUE = Change(lambda tensors, config: np.concatenate(tensors), _split_heads)
# The gate of a feed-forward layer, and what it is multiplied by; or the keys and values of a source.
TWO_PARTS = Change(lambda tensors, config: np.concatenate(tensors), lambda array, config: np.split(array, 2))


# A vector, which is there as a matrix of one row.
ONE_ROW = Change(lambda tensors, config: tensors[0].reshape(-1), lambda array, config: [array[None]])


def _rotated_backwards(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    query, key, value = tensors
    return np.concatenate([*(_with_second_halves_negated(part, config) for part in (query, key)), value])


def _rotated_forwards(array: ndarray, config: OpenSettings) -> list[ndarray]:
    query, key, value = _split_heads(array, config)
    return [*(_with_second_halves_negated(part, config) for part in (query, key)), value]


def _with_second_halves_negated(rows: ndarray, config: OpenSettings) -> ndarray:
    """Negate the second half of each head: a rotation of (a, b) by -t is the rotation of (a, -b) by t, with b negated
    again.
    """
    half = config.width_of_heads // 2
    first, second = np.split(rows.reshape(-1, 2, half, *rows.shape[1:]), 2, axis=1)
    return np.concatenate([first, negate(second)], axis=1).reshape(rows.shape)


# As QUERY_KEY_VALUE, where positions rotate the other way.
ROTATED_BACKWARDS = Change(_rotated_backwards, _rotated_forwards)


def _halves_together(part: ndarray, config: OpenSettings) -> ndarray:
    """Return (n, r/2, 2) rows, neighbours of which are rotated together, as (n, 2, r/2); other rows of a head stay."""
    return _reordered(part, config, (-1, 2))


def _neighbours_together(part: ndarray, config: OpenSettings) -> ndarray:
    return _reordered(part, config, (2, -1))


def _reordered(part: ndarray, config: OpenSettings, shape: tuple[int, int]) -> ndarray:
    """Return the rows of a part, reordered in each head.

    shape: that of the rotated rows of a head, whose two dimensions are exchanged.
    """
    heads = part.reshape(-1, config.width_of_heads, *part.shape[1:])
    turned, rest = heads[:, : config.rotated_width], heads[:, config.rotated_width :]
    turned = turned.reshape(len(turned), *shape, *part.shape[1:]).swapaxes(1, 2).reshape(turned.shape)
    return np.concatenate([turned, rest], axis=1).reshape(part.shape)


def _from_neighbours(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    query, key, value = tensors
    return np.concatenate([_halves_together(query, config), _halves_together(key, config), value])


def _to_neighbours(array: ndarray, config: OpenSettings) -> list[ndarray]:
    query, key, value = _split_heads(array, config)
    return [_neighbours_together(query, config), _neighbours_together(key, config), value]


# As QUERY_KEY_VALUE, where neighbours of a head are rotated together, not its halves.
NEIGHBOURS_ROTATED = Change(_from_neighbours, _to_neighbours)


def _from_groups(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    [array] = tensors
    shape = array.shape[1:]
    grouped = array.reshape(config.key_heads, -1, config.width_of_heads, *shape)  # (K, H/K + 2, d)
    parts = grouped[:, :-2], grouped[:, -2], grouped[:, -1]
    return np.concatenate([part.reshape(-1, *shape) for part in parts])


def _to_groups(array: ndarray, config: OpenSettings) -> list[ndarray]:
    shape = array.shape[1:]
    parts = [part.reshape(config.key_heads, -1, config.width_of_heads, *shape) for part in _split_heads(array, config)]
    return [np.concatenate(parts, axis=1).reshape(-1, *shape)]


# One matrix of queries, keys and values, by heads of keys: (K, H/K + 2, d) rows -> (H, d), (K, d), (K, d).
GROUP_BY_GROUP = Change(_from_groups, _to_groups)


def _regrouped(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    [array] = tensors
    shape = array.shape[1:]
    return array.reshape(config.heads, 3, -1, *shape).swapaxes(0, 1).reshape(-1, *shape)


def _grouped_by_head(array: ndarray, config: OpenSettings) -> list[ndarray]:
    shape = array.shape[1:]
    return [array.reshape(3, config.heads, -1, *shape).swapaxes(0, 1).reshape(-1, *shape)]


# One matrix of queries, keys and values, head by head: (H, 3, d) rows -> (3, H, d).
HEAD_BY_HEAD = Change(_regrouped, _grouped_by_head)
