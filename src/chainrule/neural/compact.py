"""Engines of networks with their matrices in eight bits, where there are any that may be, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.neural.quantising import is_quantised, packed_arrays, unpacked_arrays
from chainrule.neural.saving import put_together, take_apart

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.neural.model_of_network import Engine


def compact(engine: Engine, progress: Progress) -> Engine:
    """The same network, quantised. Raises SettingError where it has no matrices that may be."""
    settings, arrays = take_apart(engine)
    packed = packed_arrays(engine.network, arrays, progress)
    return put_together(settings, packed, engine.vocabulary_size, type(engine.network.config))


def unpack(engine: Engine, progress: Progress) -> Engine:
    """The same network in float32, rounded as it was."""
    settings, arrays = take_apart(engine)
    unpacked = unpacked_arrays(engine.network, arrays)
    return put_together(settings, unpacked, engine.vocabulary_size, type(engine.network.config))


def is_compact(engine: Engine) -> bool:
    """Whether any matrix is quantised."""
    return is_quantised(engine.network)
