"""An architecture of others in terms of our networks: tables of its settings and tensors, read in both directions.

A row of a table is all that is known of one field of config.json, or of one tensor. `Architecture` holds the tables;
each has a file of its own in `architectures`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.seq2seq import ConditionalConfig

    Json = dict[str, Any]

REQUIRED = object()  # of a field without which there is no model


class Setting(NamedTuple):
    """A field of config.json and a setting of ours.

    default: what the field is where config.json leaves it out. values: what its values are in ours, where they are
    spelled otherwise; of several that are the same in ours, the first one is written.
    """

    theirs: str
    ours: str
    default: Any = REQUIRED
    values: Mapping[Any, Any] | None = None


class Rule(NamedTuple):
    """Several fields that belong together. read: config.json -> settings; it raises ValueError where it cannot be
    followed. write: the other way.
    """

    fields: tuple[str, ...]
    read: Callable[[Json], Json]
    write: Callable[[Any], Json]


class Change(NamedTuple):
    """Between the tensors of theirs that a row names and the one of ours. The settings are those of our network."""

    to_ours: Callable[[list[ndarray], Any], ndarray]
    to_theirs: Callable[[ndarray, Any], list[ndarray]]


SAME = Change(lambda tensors, config: tensors[0], lambda tensor, config: [tensor])


class Tensor(NamedTuple):
    """An array of ours, by its name, and what it is made of. {layer} stands for each layer's number.

    by_token: whether it has a row for each token, which others number otherwise. when: whether networks of these
    settings have it so; None: all that have such an array.
    """

    ours: str
    theirs: str | tuple[str, ...]
    change: Change = SAME
    by_token: bool = False
    when: Callable[[Any], bool] | None = None

    def names(self, layer: int) -> tuple[str, ...]:
        """Theirs, of one layer."""
        theirs = (self.theirs,) if isinstance(self.theirs, str) else self.theirs
        return tuple(name.format(layer=layer) for name in theirs)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What is known of one model_type.

    family: of ours. config: of its networks. class_name: what transformers calls it. implied: settings of ours that it
    has without saying so. fixed: fields of config.json that can be followed only with this value; where they are left
    out, they have it. ignored: fields that change no number. ignored_tensors: patterns of tensors that are no weights.
    prefix: what files may leave out at the beginning of tensors' names, and are written without where writes_prefix is
    false. old_endings: of tensors' names in old files, and what these became. aliases: where
    else a tensor may stand that layers share, since files keep it once, under any of its names. computed: tensors that
    files may have though they follow from the settings: what they must hold.
    """

    model_type: str
    class_name: str
    family: str
    config: type[NetworkConfig | ConditionalConfig]
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

    @property
    def sees_both_sides(self) -> bool:
        """Whether it reads a text with a token of its own on either side."""
        return self.family not in ("transformer", "conditional")
