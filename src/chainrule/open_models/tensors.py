"""The tensors of a checkpoint as the arrays of a network of ours, by the table of its architecture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.bfloat16 import has_nan, widened
from chainrule.errors import ModelFormatError
from chainrule.neural.config.seq2seq import ConditionalConfig
from chainrule.open_models.vocabulary import rows_by_ours
from chainrule.storage.config_json import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.open_models.architecture import Architecture, Tensor
    from chainrule.open_models.vocabulary import Numbering
    from chainrule.storage.hugging_face import Checkpoint


class Tensors:
    """The tensors of a checkpoint that are weights, by their full names."""

    def __init__(self, architecture: Architecture, checkpoint: Checkpoint) -> None:
        """Raises ModelFormatError where a name stands twice, with a prefix and without."""
        self.location, self.config, self._checkpoint = checkpoint.location, checkpoint.config, checkpoint
        self._aliases = architecture.aliases
        self.names: dict[str, str] = {}  # as they are in the file
        prefix, own = architecture.prefix, {name for row in architecture.tensors for name in row.names(0)}
        for name in checkpoint.tensors:
            full = name
            for old, new in architecture.old_endings.items():
                full = full.removesuffix(old) + new if full.endswith(old) else full
            if prefix and full not in own and not full.startswith(prefix):
                full = prefix + full
            if any(re.fullmatch(pattern, full) for pattern in architecture.ignored_tensors):
                continue
            if full in self.names:
                raise ModelFormatError(f"{checkpoint.files[name]}: has the tensor {full!r} with and without {prefix!r}")
            self.names[full] = name

    def check_layers(self, layers: int) -> None:
        """Raises ModelFormatError where a network has more layers than there are tensors, before it is built."""
        if layers > len(self.names):
            raise ModelFormatError(
                f"{self.location}: {CONFIG}: asks for {layers:,} layers, but has {len(self.names)} tensors"
            )

    def sound(self, name: str) -> ndarray:
        """A tensor that is there and holds numbers. Raises ModelFormatError."""
        names = [each for each in (name, *self._aliases.get(name, ())) if each in self.names]
        if not names:
            raise ModelFormatError(f"{self.location}: lacks the tensor {name!r}")
        name = names[0]
        tensor = self._checkpoint.tensors[self.names[name]]
        location = self._checkpoint.files.get(self.names[name], self.location)
        if tensor.dtype.kind not in "fV" or tensor.dtype.itemsize > 4:
            raise ModelFormatError(
                f"{location}: the tensor {name!r} is {tensor.dtype}; expected float32, float16 or bfloat16"
            )
        if has_nan(tensor):
            raise ModelFormatError(f"{location}: the tensor {name!r} holds NaN; the file is damaged")
        return tensor


def rows_of(architecture: Architecture, tensors: Tensors) -> int:
    """How many tokens have a vector. Raises ModelFormatError."""
    [name] = next(row for row in architecture.tensors if row.by_token).names(0)
    said, shape = tensors.config.get("vocab_size"), tensors.sound(name).shape
    if len(shape) != 2 or said not in (None, shape[0]):
        raise ModelFormatError(
            f"{tensors.location}: the tensor {name!r} is {list(shape)}, but vocab_size in {CONFIG} is {said!r}"
        )
    return shape[0]


def arrays_of(
    architecture: Architecture,
    config: NetworkConfig | ConditionalConfig,
    numberings: Mapping[str, Numbering],
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Tensors,
) -> Iterator[tuple[str, ndarray]]:
    """Each array of ours with its name. numberings: of the tokens of `source`, if there is one, and of `target`.

    Raises ModelFormatError where a tensor is missing, is none, or is left over.
    """
    used: set[str] = set()
    for row in architecture.tensors:
        if row.when is not None and not row.when(config):
            continue
        numbering = numberings["source" if row.ours.startswith("source_") else "target"]
        for layer in range(_layers(row, config)):
            name = row.ours.format(layer=layer)
            if name not in shapes:
                continue
            sources = row.names(layer)
            used |= set(sources)
            parts = [tensors.sound(source) for source in sources]
            try:
                array = row.change.to_ours(parts, config)
                array = rows_by_ours(array, numbering) if row.by_token else array
                fits = array.shape == shapes[name]
            except (ValueError, IndexError):
                fits = False
            if not fits:
                found = [f"{source!r} {list(part.shape)}" for source, part in zip(sources, parts, strict=True)]
                raise ModelFormatError(
                    f"{tensors.location}: {' and '.join(found)} do not have the shapes that {CONFIG} asks for: "
                    f"they should make {list(shapes[name])}"
                )
            yield name, array
    used |= {name for row in architecture.tensors if row.by_token for name in row.names(0)}  # tied
    used |= {name for names in architecture.aliases.values() for name in names}
    for name, values in architecture.computed.items():
        used.add(name)
        _check_computed(name, values, config, tensors)
    if left := sorted(tensors.names.keys() - used):
        raise ModelFormatError(
            f"{tensors.location}: has the tensor {left[0]!r}, which a {architecture.model_type} with the settings "
            f"of its {CONFIG} does not have"
        )


def _layers(row: Tensor, config: NetworkConfig | ConditionalConfig) -> int:
    """How many arrays a row stands for."""
    if "{layer}" not in row.ours:
        return 1
    if isinstance(config, ConditionalConfig):
        return config.encoder_layers if row.ours.startswith("reader.") else config.decoder_layers
    layers: int = getattr(config, "layers", 0)
    return layers


def _check_computed(
    name: str, values: Callable[[Any], ndarray], config: NetworkConfig | ConditionalConfig, tensors: Tensors
) -> None:
    """Raises ModelFormatError where a tensor does not hold what follows from the settings, up to float16's rounding."""
    if name not in tensors.names:
        return
    tensor, expected = tensors.sound(name), values(config)
    if tensor.shape != expected.shape or not np.allclose(widened(tensor), expected, rtol=0, atol=2e-3):
        raise ModelFormatError(
            f"{tensors.location}: the tensor {name!r} does not hold the numbers that follow from {CONFIG}, and other "
            "ones are not done here"
        )
