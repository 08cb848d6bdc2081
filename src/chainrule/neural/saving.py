"""Takes neural models apart for a model folder, into settings and named arrays, and builds models from them.

Names, shapes and types of arrays are checked against the settings before any is used. The names are those of attributes
of modules: renaming an attribute that holds weights would break every saved model. `engine_of` chooses the model of a
network by its settings: causal, bidirectional, or text encoder. `compact` puts matrices in eight bits or fewer.

No model folder is unpickled. Only `open_pickle` reads a pickle, as torch.save writes weights: torch reads tensors, and
refuses to call functions of other modules. It is for files whose maker is trusted, since a pickle can run code.
"""

from __future__ import annotations

import pickle
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from chainrule.base.bfloat16 import BFLOAT16, widen
from chainrule.base.options import config_among
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.adapters import merged_arrays
from chainrule.neural.bidirectional_model import BidirectionalModel
from chainrule.neural.build import build
from chainrule.neural.config import TextEncoderConfig, settings_of
from chainrule.neural.config.network import without_ngram_memory
from chainrule.neural.device import use_threads
from chainrule.neural.embedding import TextEncoder
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.matrix_products import ALIGNMENT, packed_shape
from chainrule.neural.packed.layouts import matrix_of
from chainrule.neural.quantization import is_quantised, packable, packed_arrays, unpacked_arrays
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network

    Engine = NeuralModel | BidirectionalModel | TextEncoder
    Json = dict[str, Any]
    Arrays = dict[str, ndarray]

_BEGINS, _SMALL = 64, 1 << 20  # torch's arrays begin at multiples of the one; bytes that are copied for that, at most


def engine_of(network: Network) -> Engine:
    """Return a network as the model that it can be: a LanguageModel, a bidirectional model or a text encoder."""
    if not network.config.is_bidirectional:
        return NeuralModel(network)
    return TextEncoder(network) if isinstance(network.config, TextEncoderConfig) else BidirectionalModel(network)


M = TypeVar("M", bound=nn.Module)

_FLOATS = (np.dtype("float32"), np.dtype("float16"), BFLOAT16)  # of matrices; the others become float32
_DRAWING = (torch.Tensor.normal_, torch.Tensor.uniform_)


def to_state(model: Engine) -> tuple[Json, Arrays]:
    """Return the settings of the network, and its weights by name: float32, or in 16 bits as they were stored."""
    return network_settings(model.network), arrays_of(model.network)


def network_settings(network: Network) -> Json:
    """Return the settings of a network, for a JSON file."""
    return {"network": settings_of(network.config)}


def arrays_of(network: nn.Module) -> Arrays:
    """Return the weights of a network, each once: weights that two layers share have the name of the first."""
    return {name: array_of(tensor.detach().cpu()) for name, tensor in named_tensors(network).items()}


def shapes_of(config: NetworkConfig, vocabulary_size: int) -> dict[str, tuple[int, ...]]:
    """Return the arrays that a network of these settings has, by name. Raises ModelFormatError."""
    return {
        name: tuple(tensor.shape)
        for name, tensor in named_tensors(network_of_shapes(lambda: build(config, vocabulary_size))).items()
    }


def array_of(tensor: torch.Tensor) -> ndarray:
    """Return a tensor of the processor as an array, without a copy: float32, or in 16 bits, unchanged; integers,
    unchanged.
    """
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(BFLOAT16)
    is_kept = tensor.dtype == torch.float16 or not tensor.is_floating_point()
    return (tensor if is_kept else tensor.float()).numpy()


def _tensor_of(array: ndarray) -> torch.Tensor:
    """Return an array as a tensor. Vectors in 16 bits are widened, since a network has these in 32. Small arrays are
    copied where they begin elsewhere than torch's own would: the order of sums depends on that on some processors.
    Larger ones are not copied, but for int8 that begins where its scales cannot be read.
    """
    array = np.asarray(widen(array) if array.ndim < 2 and array.dtype.kind in "fV" else array, order="C")
    is_bfloat16 = array.dtype == BFLOAT16
    tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if is_bfloat16 else torch.from_numpy(array)
    is_moved = tensor.data_ptr() % (_BEGINS if tensor.nbytes <= _SMALL else ALIGNMENT if array.dtype == np.int8 else 1)
    return tensor.clone() if is_moved else tensor


def from_state(settings: Json, arrays: Arrays, vocabulary_size: int, configs: Sequence[type[NetworkConfig]]) -> Engine:
    """Return the network of `network_from`, but as the model that it can be; see `engine_of`."""
    return engine_of(network_from(settings, arrays, vocabulary_size, configs))


def network_from(
    settings: Json, arrays: Arrays, vocabulary_size: int, configs: Sequence[type[NetworkConfig]]
) -> Network:
    """Return a network from what `to_state` returned; it uses the arrays without a copy.

    configs: the classes of settings of its family; see `config_among`. Raises ModelFormatError.
    """
    if settings.keys() != {"network"}:
        raise ModelFormatError(
            f"the fields of the settings are {', '.join(sorted(settings)) or 'missing'}; expected network"
        )
    config: NetworkConfig = config_among(configs, without_ngram_memory(settings["network"]))
    check_layers(settings["network"].get("layers", 0) * config.arrays_of_layer, arrays)
    return filled_network(lambda: build(config, vocabulary_size), arrays)


def check_layers(layers: int, arrays: Arrays) -> None:
    """Raise ModelFormatError if there are more layers than arrays, before such a network is built."""
    if layers > len(arrays):
        raise ModelFormatError(
            f"the settings have {layers} layers, but the file has {len(arrays)} arrays; expected more"
        )


def layers_of(config: object) -> int:
    """Return the number of layers of a configuration, or of blocks if it is one of pictures; 0 where it does not
    say.
    """
    layers, blocks = getattr(config, "layers", 0), getattr(config, "blocks", ())
    return max(layers, sum(blocks) if isinstance(blocks, tuple) else 0)


def filled_network(build: Callable[[], M], arrays: Arrays) -> M:
    """Return a network with the arrays as its weights. Raises ModelFormatError."""
    use_threads()
    network = network_of_shapes(build)
    expected = named_tensors(network)
    _check_arrays(expected, arrays, packable(network))
    places = _places_of_tensors(network)
    for name, tensor in expected.items():
        loaded = _tensor_of(arrays[name])
        if isinstance(tensor, nn.Parameter):
            loaded = nn.Parameter(loaded, requires_grad=loaded.is_floating_point())
        for tensors, own_name in places[id(tensor)]:
            tensors[own_name] = loaded
    _check_ranks(network)
    return network


def network_of_shapes(build: Callable[[], M]) -> M:
    """Return a network whose weights have shapes only, and no numbers. Raises ModelFormatError."""
    try:
        with torch.device("meta"), _Undrawn():
            return build()
    except SettingError as error:
        raise ModelFormatError(f"the settings do not suit the vocabulary: {error}") from error


class _Undrawn(TorchFunctionMode):
    """Skips the initialisation of weights on the device meta, which has shapes only.

    torch would import its compiler to draw numbers there, which takes longer than importing torch.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _DRAWING or getattr(function, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def named_tensors(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and persistent buffers by name."""
    kept = network.state_dict(keep_vars=True)
    names = dict(network.named_parameters())
    return names | {name: tensor for name, tensor in kept.items() if not isinstance(tensor, nn.Parameter)}


def _check_arrays(expected: dict[str, torch.Tensor], arrays: Arrays, may_be_packed: set[str]) -> None:
    """Raise ModelFormatError where names, types or shapes are not what a network expects."""
    if missing := sorted(expected.keys() - arrays.keys()):
        raise ModelFormatError(f"the array {missing[0]!r} is missing; the network needs {len(expected)}")
    if unknown := sorted(arrays.keys() - expected.keys()):
        raise ModelFormatError(
            f"there is an array {unknown[0]!r}, but a network of these settings has none of that name"
        )
    for name, tensor in expected.items():
        array = arrays[name]
        if name in may_be_packed:
            if array.dtype == np.int8 and array.shape == packed_shape(tensor):
                continue
            if array.dtype == np.uint8:
                _check_blocks(name, array, tensor)
                continue
        wanted = _FLOATS if tensor.is_floating_point() else (np.dtype("int64"),)
        if array.dtype not in wanted or array.shape != tuple(tensor.shape):
            raise ModelFormatError(
                f"the array {name!r} is {array.dtype} {list(array.shape)}; expected {wanted[0]} {list(tensor.shape)}"
            )


def _check_blocks(name: str, array: ndarray, tensor: torch.Tensor) -> None:
    """Raise ModelFormatError where an array is no matrix in blocks of the shape that is expected."""
    try:
        matrix = matrix_of(array)
    except ValueError as error:
        raise ModelFormatError(f"the array {name!r}, a matrix in blocks, {error}; the file is damaged") from error
    if (matrix.rows, matrix.columns) != tuple(tensor.shape):
        raise ModelFormatError(
            f"the array {name!r} is a matrix in blocks, {matrix.rows:,} by {matrix.columns:,}; expected "
            f"{' by '.join(f'{size:,}' for size in tensor.shape)}"
        )


def packable_of(config: NetworkConfig, vocabulary_size: int) -> set[str]:
    """Return the names of the weights that may be packed in a network of these settings. Raises ModelFormatError."""
    return packable(network_of_shapes(lambda: build(config, vocabulary_size)))


def _places_of_tensors(network: nn.Module) -> dict[int, list[tuple[dict[str, Any], str]]]:
    """Return all places of each tensor, by its id, so that layers that share a tensor continue to do so."""
    places: dict[int, list[tuple[dict[str, Any], str]]] = defaultdict(list)
    for module in network.modules():
        for own in (module._parameters, module._buffers):
            for name, tensor in own.items():
                places[id(tensor)].append((own, name))
    return places


def _check_ranks(network: nn.Module) -> None:
    """Raise ModelFormatError if the ranks of an adaptive softmax are not a permutation of the vocabulary."""
    for name, buffer in network.named_buffers():
        if name.endswith("ranks"):
            ranks = buffer.sort().values
            if not torch.equal(ranks, torch.arange(len(ranks))) or int(buffer[BEGIN]) != 0:
                raise ModelFormatError(
                    f"the array {name!r} does not hold each rank once, with <s> first; the file is damaged"
                )


def shapes_in(network: Network) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's arrays, of packed ones as they would be in float32."""
    return shapes_of(network.config, network.vocabulary_size)


def shared_network(engine: Engine) -> Network:
    """Return another network with the same weights, in the same memory."""
    settings, arrays = to_state(engine)
    return network_from(settings, arrays, engine.vocabulary_size, [type(engine.network.config)])


def merged(engine: Engine) -> Engine:
    """Return the same network with its adapter added to its weights, which become float32 where they had one."""
    settings, arrays = to_state(engine)
    arrays = merged_arrays(engine.network, arrays)
    return from_state(settings, arrays, engine.vocabulary_size, [type(engine.network.config)])


def compact(engine: Engine, progress: Progress, bits: int | None = None) -> Engine:
    """Return the same network, quantised. bits: as for `packed_arrays`.

    Raises SettingError where it has no matrices that can be quantised.
    """
    settings, arrays = to_state(engine)
    packed = packed_arrays(engine.network, arrays, progress, bits)
    return from_state(settings, packed, engine.vocabulary_size, [type(engine.network.config)])


def unpack(engine: Engine, progress: Progress) -> Engine:
    """Return the same network in float32, rounded as it was."""
    settings, arrays = to_state(engine)
    unpacked = unpacked_arrays(engine.network, arrays)
    return from_state(settings, unpacked, engine.vocabulary_size, [type(engine.network.config)])


def is_compact(engine: Engine) -> bool:
    """Return whether any matrix is quantised."""
    return is_quantised(engine.network)


_SAFE_SINCE = (2, 10)  # older ones could be made to run code even so: CVE-2025-32434, CVE-2026-24747


def open_pickle(path: Path) -> dict[str, ndarray]:
    """Return the tensors of a file by name. Raises ModelFormatError; SettingError where torch is too old to be safe."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_SINCE:
        raise SettingError(
            f"{path}: is a pickle, and torch {torch.__version__} can be made to run code by one (CVE-2026-24747); "
            f"install torch {'.'.join(map(str, _SAFE_SINCE))} or later"
        )
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelFormatError(
            f"{path}: is damaged, or holds more than tensors{_unsupported(error)}; nothing of it was opened"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        first = str(error).strip().partition("\n")[0][:200]
        raise ModelFormatError(f"{path}: is not a torch pickle, or is damaged: {first}") from error
    if not isinstance(weights, dict):
        raise ModelFormatError(f"{path}: holds a {type(weights).__name__}; expected tensors by their names")
    for name, tensor in weights.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise ModelFormatError(f"{path}: {name!r} is a {type(tensor).__name__}; expected tensors by their names")
    return {name: array_of(tensor.detach()) for name, tensor in weights.items()}


def _unsupported(error: Exception) -> str:
    """Say what a pickle holds besides tensors, from torch's message, without its advice to open the pickle anyway."""
    named = re.search(r"Unsupported global: GLOBAL (\w[\w.]*)", str(error))
    return f", such as {named[1]}" if named else ""
