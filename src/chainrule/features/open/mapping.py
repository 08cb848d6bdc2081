"""Settings and tensors of others' checkpoints as ours, and settings written back, by the tables of an architecture.

What a config.json asks for and is not supported is refused by name; nothing is passed over but what a table says
changes no number.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.bfloat16 import has_nan, widen
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.open.architecture import REQUIRED, SAME, SHARING, Rule, Setting
from chainrule.features.open.network.config import opened
from chainrule.features.open.quantised import changed
from chainrule.features.open.tokens.vocabulary import rows_by_ours
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy import ndarray

    from chainrule.features.open.architecture import Architecture, Tensor
    from chainrule.features.open.quantised import StoredMatrix
    from chainrule.models.files.origin import TokenIdMap
    from chainrule.neural.config import NetworkConfig
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]

# Fields of any model that change no number that a network gives.
_IGNORED = {
    *("architectures", "model_type", "vocab_size", "torch_dtype", "dtype", "transformers_version", "_name_or_path"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "sep_token_id", "use_cache"),
    *("cls_token_id", "mask_token_id"),
    *("initializer_range", "task_specific_params", "id2label", "label2id", "problem_type", "finetuning_task"),
    *("output_attentions", "output_hidden_states", "return_dict", "use_return_dict", "torchscript", "use_bfloat16"),
    *("tf_legacy_loss", "tokenizer_class", "prefix", "gradient_checkpointing", "attn_implementation"),
    *("_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "unsloth_fixed"),
    *("_model_name_or_path", "unk_token_id"),  # written by transformers' reader of GGUF
    *("chunk_size_feed_forward", "unsloth_version", "is_llama_config", "transformers.js_config", "mlx"),
    *("output_past", "num_labels", "xla_device"),  # of transformers 2 and 3
    # What older files say of how texts are generated:
    *("max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty"),
    *("temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size"),
    *("encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores", "suppress_tokens"),
    *("return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values"),
    *("exponential_decay_length_penalty", "begin_suppress_tokens"),
}
_FIXED: dict[str, Any] = {
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
}
_FIXED |= {"pruned_heads": {}, "is_decoder": False, "tie_encoder_decoder": False}
# Settings of ours that change nothing in a network that has been trained, or that the vocabulary decides on.
_NO_MATTER = {
    *(
        "memory",
        "begins_with",
        "first_read",
        "ends",
        "banned",
        "initialisation",
        "zero_projections",
        "cutoffs",
        "noise_samples",
    ),
    *("noise_power", "dropout", "attention_dropout", "embedding_dropout", "masks", "masked_share", "random_share"),
    *("kept_share", "closed_by", "text_pooling", "unit_length", "most_tokens"),
    *("projection_widths", "projection_biases", "projection_activation"),
    *("before_source", "after_source", "before_target"),
}

_ROWS_AT_ONCE = 4096  # of matrices that are compared


def read_settings(
    architecture: Architecture, config: Json, folder: str
) -> tuple[NetworkConfig | Seq2SeqConfig, list[str]]:
    """Return the settings of our network, and the fields that were ignored. folder: that of config.json, for messages.

    Raises ModelFormatError where a field is missing, or asks for what is not supported.
    """
    location = f"{folder}: {CONFIG}"
    settings: Json = {**architecture.implied}
    known: set[str] = set()
    for row in architecture.settings:
        names = (row.theirs,) if isinstance(row, Setting) else row.fields
        known |= set(names)
        try:
            settings |= _setting(row, config) if isinstance(row, Setting) else row.read(config)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            message = f"{error} is missing" if isinstance(error, KeyError) else error
            present = [name for name in names if name in config]
            line = line_of(folder, CONFIG, present[0]) if present else ""
            raise ModelFormatError(f"{location}: {' and '.join(present)}: {message}{line}") from error
    fixed = {**_FIXED, **architecture.fixed}
    for name, value in fixed.items():
        if name not in known and config.get(name, value) not in (value, None):
            raise ModelFormatError(
                f"{location}: {name} is {config[name]!r}, which is not supported; expected {value!r} of a "
                f"{architecture.model_type}{line_of(folder, CONFIG, name)}"
            )
    ignored = {*_IGNORED, *architecture.ignored}
    for name, value in config.items():
        if name not in known and name not in fixed and name not in ignored and value is not None:
            raise ModelFormatError(
                f"{location}: {name} is {value!r:.80}, and its effect in a {architecture.model_type} is not known "
                f"here; if it changes no number, take it out of the file{line_of(folder, CONFIG, name)}"
            )
    try:
        network = architecture.config(**settings)
    except (SettingError, TypeError) as error:
        raise ModelFormatError(f"{location}: {_in_their_terms(architecture, str(error))}") from error
    return network, sorted(name for name in config if name in architecture.ignored)


def write_settings(architecture: Architecture, config: NetworkConfig | Seq2SeqConfig) -> Json:
    """Return the fields of config.json that say what the network is."""
    from chainrule.features.open.network.effects import filled_in

    config = filled_in(config)
    written: Json = {"architectures": [architecture.class_name], "model_type": architecture.model_type}
    for row in architecture.settings:
        if isinstance(row, Rule):
            written |= row.write(config)
            continue
        value = getattr(config, row.ours)
        if row.values is not None:
            value = next((theirs for theirs, ours in row.values.items() if ours == value), None)
        written[row.theirs] = value
    return {**written, **architecture.fixed}


def differences(
    architecture: Architecture, config: NetworkConfig | Seq2SeqConfig, written: Json | None = None
) -> list[str]:
    """Return our settings that an architecture of others cannot express: those that reading back would change.

    written: the fields of config.json that are read back; None for those that are written.
    """
    from chainrule.features.open.network.effects import filled_in

    config = config if isinstance(config, Seq2SeqConfig) else opened(config)
    if type(config) is not architecture.config:
        return [f"{architecture.family} as the family"]
    filled = filled_in(config)
    try:
        written = write_settings(architecture, config) if written is None else written
        back = filled_in(read_settings(architecture, written, "")[0])
    except ModelFormatError as error:
        return [str(error).removeprefix(f": {CONFIG}: ")]
    pairs = [(each.name, getattr(filled, each.name), getattr(back, each.name)) for each in fields(config)]
    return [f"{name}={own!r}" for name, own, other in pairs if name not in _NO_MATTER and own != other]


def _setting(row: Setting, config: Mapping[str, Any]) -> Json:
    """Return our setting from the field of config.json that a row names. Raises ValueError."""
    value = config.get(row.theirs, row.default)
    if value is REQUIRED:
        raise ValueError(f"{row.theirs} is missing")
    if value is None and row.default is not REQUIRED:
        value = row.default
    if row.values is None:
        return {row.ours: value}
    if not isinstance(value, str | int) or value not in row.values:
        raise ValueError(f"{value!r} is not supported; known are {', '.join(map(str, row.values))}")
    return {row.ours: row.values[value]}


def _in_their_terms(architecture: Architecture, message: str) -> str:
    """Return a message that begins with one of our settings, with the field of config.json in its place."""
    ours, is_, rest = message.partition(" is ")
    theirs = {row.ours: row.theirs for row in architecture.settings if isinstance(row, Setting)}
    return f"{theirs.get(ours, ours)}{is_}{rest}".replace(" is None; ", " is null; ", 1)


class Tensors:
    """The tensors of a checkpoint that are weights, by their full names."""

    def __init__(self, architecture: Architecture, checkpoint: Checkpoint) -> None:
        """Find the full names of tensors. Raises ModelFormatError where one stands twice, with and without a prefix."""
        self.location, self.config, self._checkpoint = checkpoint.location, checkpoint.config, checkpoint
        self._aliases = dict(architecture.aliases)
        self._whole: set[str] = set()  # names of tensors that were found to hold numbers
        self.names: dict[str, str] = {}  # as they are in the file
        layers = str(self.config.get("num_hidden_layers"))
        ignored = [pattern.replace("LAYERS", layers) for pattern in architecture.ignored_tensors]
        prefix, own = architecture.prefix, {name for row in architecture.tensors for name in row.names(0)}
        own |= {other for others in architecture.aliases.values() for other in others}
        for name in checkpoint.tensors:
            full = name
            for old, new in architecture.old_endings.items():
                full = full.removesuffix(old) + new if full.endswith(old) else full
            if prefix and full not in own and not full.startswith(prefix):
                full = prefix + full
            if any(re.fullmatch(pattern, full) for pattern in ignored):
                continue
            if full in self.names:
                raise ModelFormatError(f"{checkpoint.files[name]}: has the tensor {full!r} with and without {prefix!r}")
            self.names[full] = name

    def check_layers(self, layers: int) -> None:
        """Raise ModelFormatError where a network has more layers than there are tensors, before it is built."""
        if layers > len(self.names):
            raise ModelFormatError(
                f"{self.location}: {CONFIG}: asks for {layers:,} layers, but has {len(self.names)} tensors"
            )

    def has(self, name: str) -> bool:
        """Return whether a tensor exists, under its name or an alias."""
        return any(each in self.names for each in (name, *self._aliases.get(name, ())))

    def alias(self, name: str, other: str) -> None:
        """Take a tensor for another one, which the file lacks."""
        self._aliases[name] = (other,)

    def in_file(self, name: str) -> str:
        """Return the full name, or the alias, of a tensor that exists. Raises ModelFormatError."""
        names = [each for each in (name, *self._aliases.get(name, ())) if each in self.names]
        if not names:
            raise ModelFormatError(f"{self.location}: lacks the tensor {name!r}")
        return names[0]

    def stored(self, name: str) -> StoredMatrix | None:
        """Return a matrix as the file has it, if quantised in a form that products know. Raises ModelFormatError."""
        matrix: StoredMatrix | None = self._checkpoint.stored(self.names[self.in_file(name)])
        return matrix

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor. Raises ModelFormatError."""
        matrix = self.stored(name)
        return self.sound(name).shape if matrix is None else matrix.shape

    def sound(self, name: str) -> ndarray:
        """Return a tensor that exists and holds numbers. Raises ModelFormatError."""
        name = self.in_file(name)
        tensor = self._checkpoint.tensors[self.names[name]]
        location = self._checkpoint.files.get(self.names[name], self.location)
        if tensor.dtype.kind not in "fV" or tensor.dtype.itemsize > 4:
            raise ModelFormatError(
                f"{location}: the tensor {name!r} is {tensor.dtype}; expected float32, float16 or bfloat16"
            )
        if name not in self._whole and has_nan(tensor):
            raise ModelFormatError(f"{location}: the tensor {name!r} holds NaN; the file is damaged")
        self._whole.add(name)
        return tensor

    def are_same(self, *names: str) -> bool:
        """Return whether all hold the same numbers, in whatever type. Raises ModelFormatError."""
        first, *others = (self.sound(name) for name in dict.fromkeys(map(self.in_file, names)))
        pieces = range(0, len(first), _ROWS_AT_ONCE)
        return all(
            first.shape == other.shape
            and all(
                np.array_equal(widen(first[i : i + _ROWS_AT_ONCE]), widen(other[i : i + _ROWS_AT_ONCE])) for i in pieces
            )
            for other in others
        )


def rows_of(architecture: Architecture, tensors: Tensors) -> int:
    """Return the number of tokens that have a vector. Raises ModelFormatError."""
    [name] = next(row for row in architecture.tensors if row.by_token).names(0)
    said, shape = tensors.config.get("vocab_size"), tensors.shape(name)
    if len(shape) != 2 or said not in (None, shape[0]):
        raise ModelFormatError(
            f"{tensors.location}: the tensor {name!r} is {list(shape)}, but vocab_size in {CONFIG} is {said!r}"
        )
    return shape[0]


def untied(
    architecture: Architecture, config: NetworkConfig | Seq2SeqConfig, tensors: Tensors
) -> tuple[NetworkConfig | Seq2SeqConfig, Json, list[str]]:
    """Return the settings with matrices untied that the file has with other numbers; the fields of config.json that
    this changes; and warnings.

    Files are so whose output was trained by itself, with config.json as it was. Raises ModelFormatError.
    """
    own = replace(config, shared="none") if isinstance(config, Seq2SeqConfig) else replace(config, tied=False)
    names = _first_names(architecture, own)
    output, embedding = names.get("output.weight"), names.get("embedding.weight")
    if output is None or embedding is None:
        return config, {}, []
    differing: list[tuple[str, str]] = []

    def is_shared(first: str, second: str) -> bool:
        """Return whether both are in the file with the same numbers, or one of them alone."""
        if not (tensors.has(first) and tensors.has(second)) or tensors.are_same(first, second):
            return True
        differing.append((tensors.in_file(first), tensors.in_file(second)))
        return False

    after: NetworkConfig | Seq2SeqConfig
    if isinstance(config, Seq2SeqConfig):
        source, shared = names["source_embedding.weight"], _first_names(architecture, config)["output.weight"]
        if config.shared == "all" and output not in tensors.names:
            tensors.alias(output, shared)
        inputs = config.shared in ("all", "inputs") and is_shared(source, embedding)
        outputs = config.shared in ("all", "target") and is_shared(output, embedding)
        after = replace(config, shared=SHARING[inputs, outputs])
        if after.shared == "none" and shared not in map(tensors.in_file, (source, embedding, output)):
            tensors.names.pop(shared, None)  # no part uses it
    elif config.tied and not is_shared(output, embedding):
        after = own
    else:
        after = config
    if not differing:
        return after, {}, []
    before, now = (write_settings(architecture, each) for each in (config, after))
    changes = {name: value for name, value in now.items() if before.get(name) != value}
    return (
        after,
        changes,
        [
            f"{tensors.location}: {CONFIG} says that {first!r} and {second!r} are the same, but they hold other "
            "numbers; each is used"
            for first, second in differing
        ],
    )


def _first_names(architecture: Architecture, config: NetworkConfig | Seq2SeqConfig) -> dict[str, str]:
    """Return their first tensor of each array of ours, in the first layer."""
    return {row.ours: row.names(0)[0] for row in architecture.tensors if row.when is None or row.when(config)}


def arrays_of(
    architecture: Architecture,
    config: NetworkConfig | Seq2SeqConfig,
    numberings: Mapping[str, TokenIdMap],
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Tensors,
    packable: AbstractSet[str] = frozenset(),
) -> Iterator[tuple[str, ndarray]]:
    """Yield each array of ours with its name. numberings: the numberings of the tokens of `source`, if there is one,
    and of `target`. packable: the names of matrices that stay quantised as they are stored.

    Raises ModelFormatError where a tensor is missing, invalid, or left over.
    """
    used: set[str] = set()
    config_experts = getattr(config, "experts", 0)
    for row in architecture.tensors:
        if row.when is not None and not row.when(config):
            continue
        numbering = numberings["source" if row.ours.startswith("source_") else "target"]
        for layer, expert in row.places(layers_of(row, config), config_experts):
            name, own = row.ours.format(layer=layer, expert=expert), _as_in_file(row, layer, tensors)
            sources = own.names(layer, expert)
            if row.in_layer is not None and not row.in_layer(config, layer):
                used |= set(sources)
                continue
            if name not in shapes:
                continue
            used |= set(map(tensors.in_file, sources))
            if name in packable and not own.of_experts:
                change = partial(_made, own.change.to_ours, config)
                packed = _as_stored(sources, change, numbering if row.by_token else None, shapes[name], tensors)
                if packed is not None:
                    yield name, packed
                    continue
            parts = [tensors.sound(source) for source in sources]
            if own.of_experts:
                parts = [part[expert] if len(part) == config_experts else part for part in parts]
            try:
                array = own.change.to_ours(parts, config)
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
    for name, values in architecture.computed.items():
        used.add(name)
        _check_computed(name, values, config, tensors)
    for name in sorted(tensors.names.keys() - used):
        same = sorted(_same_as(name, architecture) & used)
        if not same:
            raise ModelFormatError(
                f"{tensors.location}: has the tensor {name!r}, which a {architecture.model_type} with the settings "
                f"of its {CONFIG} does not have"
            )
        if not tensors.are_same(name, same[0]):
            raise ModelFormatError(
                f"{tensors.location}: the tensors {name!r} and {same[0]!r} are one in a {architecture.model_type}, but "
                "hold other numbers; take the one that is not used out of the file"
            )


def _as_in_file(row: Tensor, layer: int, tensors: Tensors) -> Tensor:
    """Return the row; where the file has one tensor of all experts in its place, with that."""
    if row.together is None or not tensors.has(row.together.format(layer=layer)):
        return row
    return row._replace(theirs=row.together, change=SAME, of_experts=True)


def _same_as(name: str, architecture: Architecture) -> set[str]:
    """Return the names of the tensors that a further one repeats: tied matrices, and those with several names."""
    tied = {row.names(0)[0] for row in architecture.tensors if row.by_token and row.ours.endswith("weight")}
    groups = [tied, *({key, *names} for key, names in architecture.aliases.items())]
    return {other for group in groups if name in group for other in group - {name}}


def _made(to_ours: Callable[[list[ndarray], Any], ndarray], config: object, parts: list[ndarray]) -> ndarray:
    return to_ours(parts, config)


def _as_stored(
    sources: Sequence[str],
    change: Callable[[list[ndarray]], ndarray],
    numbering: TokenIdMap | None,
    shape: tuple[int, ...],
    tensors: Tensors,
) -> ndarray | None:
    """Return a matrix of ours with the blocks of the file; None where its rows cannot stay unchanged.

    Raises ModelFormatError.
    """
    matrices = [matrix for source in sources if (matrix := tensors.stored(source)) is not None]
    matrix = changed(change, matrices) if len(matrices) == len(sources) else None
    if matrix is not None and numbering is not None:
        matrix = matrix.with_rows(numbering.theirs())
    if matrix is None or matrix.shape != shape:
        return None
    try:
        return matrix.pack()
    except ValueError as error:
        raise ModelFormatError(
            f"{tensors.location}: a scale of the tensor {sources[0]!r} {error}; the file is damaged"
        ) from error


def layers_of(row: Tensor, config: NetworkConfig | Seq2SeqConfig) -> int:
    """Return how many arrays, one for each layer, a row stands for."""
    if "{layer}" not in row.ours:
        return 1
    if isinstance(config, Seq2SeqConfig):
        return config.encoder_layers if row.ours.startswith("reader.") else config.decoder_layers
    layers: int = getattr(config, "distinct_blocks", 0)
    return layers


def _check_computed(
    name: str, values: Callable[[Any], ndarray], config: NetworkConfig | Seq2SeqConfig, tensors: Tensors
) -> None:
    """Raise ModelFormatError where a tensor does not hold what follows from the settings, up to float16's rounding."""
    if name not in tensors.names:
        return
    tensor, expected = tensors.sound(name), values(config)
    if tensor.shape != expected.shape or not np.allclose(widen(tensor), expected, rtol=0, atol=2e-3):
        raise ModelFormatError(
            f"{tensors.location}: the tensor {name!r} does not hold the numbers that follow from {CONFIG}, and other "
            "ones are not done here"
        )
