"""Exports models for transformers, by the same tables that import them.

A model that was imported goes back as it came: tensors bit for bit, tokenizer.json byte for byte. A model trained here
keeps the ids of its tokenizer.json, with <unk>, <s> and </s> added after them; its texts begin with </s>, as here.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16, widen
from chainrule.errors import SettingError
from chainrule.features.open.architectures import ARCHITECTURES, VARIANTS
from chainrule.features.open.mapping import differences, layers_of, read_settings, write_settings
from chainrule.features.open.network.config import opened
from chainrule.features.open.sentence_encoders import dense_parts, with_projection, without_output
from chainrule.models.files.origin import TokenIdMap
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.storage import hugging_face
from chainrule.storage.config_json import CONFIG
from chainrule.text.tokenization.subword import Subword
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.features.open.architecture import Architecture
    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.neural.config import NetworkConfig
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]

_SPELLINGS = (
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "dtype",
    "torch_dtype",
)  # of transformers 4 or 5
_TRAINED_HERE = ("gpt2", "llama", "nanochat", "bert")  # architectures that presets have
_MASK, _BEFORE = "[MASK]", "[CLS]"  # names there for <s> and </s> of a masked model
_TYPES = {np.dtype("float32"): "float32", np.dtype("float16"): "float16", BFLOAT16: "bfloat16"}


class Exported(NamedTuple):
    """The contents of a folder: tensors, and all other files by name."""

    files: dict[str, bytes]
    tensors: dict[str, ndarray]


class _Tokens(NamedTuple):
    """The tokens of a model for its folder.

    ours: our id of each of their tokens. files: the tokenizer's files. begin, end: their ids; None for a masked model.
    """

    ours: Int64[ndarray, " theirs"]
    files: dict[str, bytes]
    begin: int | None
    end: int | None


def export_model(config: NetworkConfig, arrays: Mapping[str, ndarray], tokenizer: Tokenizer, record: Json) -> Exported:
    """Return a model as a folder for transformers. config, arrays: the network's. record: the model's.

    Raises SettingError if no architecture of transformers is such a network, or its tokenizer has no counterpart.
    """
    splitter = tokenizer.splitter
    if not isinstance(splitter, Subword) or tokenizer.normaliser.steps:
        raise SettingError(
            f"its {tokenizer.name} tokenizer{' with our normalisation' if tokenizer.normaliser.steps else ''} has no "
            "counterpart in Hugging Face's library; train with a bpe, unigram or wordpiece tokenizer, without normalise"
        )
    origin, config = record.get("hugging_face"), opened(config)
    architecture = architecture_for(config, origin)
    if origin is not None and origin.get("sentence_files"):
        architecture = with_projection(architecture, dense_parts(origin["sentence_files"]))
    is_masked = architecture.family == "masked"
    if is_masked and origin is None and config.memory == "stream":
        raise SettingError(f"{architecture.model_type} reads each text by itself, so it cannot have memory='stream'")
    if origin is not None:
        tokens = _tokens_of(origin, splitter)
    elif is_masked:
        tokens = _native_masked_tokens(
            tokenizer, splitter, config.context, has_types=getattr(config, "segments", 0) > 1
        )
    else:
        tokens = _native_tokens(tokenizer, splitter, config.context)
    tensors = _tensors(architecture, config, arrays, tokens.ours)
    # That of all tensors: transformers rounds to it the norms in float32 that a GGUF file in 16 bits has.
    dtype = _TYPES[functools.reduce(_wider, (tensor.dtype for tensor in tensors.values()))]
    written: Json = {
        "pad_token_id": None,
        **write_settings(architecture, config),
        "vocab_size": len(tokens.ours),
        "bos_token_id": tokens.begin,
        "eos_token_id": tokens.end,
        "dtype": dtype,
        "torch_dtype": dtype,
    }
    generation: Json = {} if tokens.end is None else {"bos_token_id": tokens.begin, "eos_token_id": tokens.end}
    if origin is not None and _is_as_it_came(architecture, config, origin):
        spelled = {name: written[name] for name in _SPELLINGS if name in written}
        written = {**spelled, **origin["config"]}
        generation = origin["generation_config"] or generation
    files = {CONFIG: _json_bytes(written), **tokens.files}
    if origin is not None:
        files |= {name: text.encode() for name, text in origin.get("sentence_files", {}).items()}
    if generation:
        files[hugging_face.GENERATION_CONFIG] = _json_bytes(generation)
    return Exported(files, tensors)


def export_pair(config: Seq2SeqConfig, arrays: Mapping[str, ndarray], target: Tokenizer, record: Json) -> Exported:
    """Return a seq2seq model that was opened from a folder with a tokenizer.json, as such a folder; its config.json is
    that with which it came.

    target: the tokenizer of both sides. Raises SettingError for models trained here, and for Marian, whose tokenizers
    are files of SentencePiece.
    """
    origin = record.get("hugging_face")
    if origin is None or origin["config"].get("model_type") == "marian" or not isinstance(target.splitter, Subword):
        raise SettingError(
            "only a seq2seq model that was opened from a folder with a tokenizer.json can be written for transformers; "
            "leave out to='hugging-face' for a folder of ours"
        )
    architecture, tokens = ARCHITECTURES[origin["config"]["model_type"]], _tokens_of(origin, target.splitter)
    files = {CONFIG: _json_bytes(origin["config"]), **tokens.files}
    if origin["generation_config"]:
        files[hugging_face.GENERATION_CONFIG] = _json_bytes(origin["generation_config"])
    return Exported(files, _tensors(architecture, config, arrays, tokens.ours))


def architecture_for(config: NetworkConfig, origin: Json | None) -> Architecture:
    """Return the architecture to export a network as: if possible, the one that it was imported from.

    Raises SettingError.
    """
    known = ARCHITECTURES.values()
    candidates = [*known, *VARIANTS, *(without_output(one) for one in known if one.is_bidirectional)]
    if origin is not None:
        name = origin["config"].get("model_type")
        candidates.sort(key=lambda one: (one.model_type != name, not _has_fixed(one, origin["config"])))
    tried: list[tuple[Architecture, list[str]]] = []
    for architecture in (one for one in candidates if type(opened(config)) is one.config):
        tried.append((architecture, differences(architecture, config)))
        if not tried[-1][1]:
            return architecture
    if not tried:
        raise SettingError(
            f"a {type(config).__name__.removeprefix('Open').removesuffix('Config')} network matches no architecture of "
            f"transformers; expected one of {', '.join(ARCHITECTURES)}"
        )
    ours = [pair for pair in tried if pair[0].model_type in _TRAINED_HERE]
    nearest, obstacles = min(ours or tried, key=lambda pair: len(pair[1]))
    raise SettingError(
        f"the network matches no architecture of transformers; the nearest is {nearest.model_type}, which cannot have "
        f"{', '.join(obstacles)}"
    )


def _has_fixed(architecture: Architecture, config: Json) -> bool:
    """Return whether a config.json has the values, or leaves them out, that the architecture always has."""
    return all(config.get(name, value) == value for name, value in architecture.fixed.items())


def _is_as_it_came(architecture: Architecture, config: NetworkConfig, origin: Json) -> bool:
    """Return whether the config.json that the model was imported with still describes it."""
    if origin["config"].get("model_type") != architecture.model_type:
        return False
    came, _ = read_settings(architecture, origin["config"], "")
    return write_settings(architecture, came) == write_settings(architecture, config)


def _tensors(
    architecture: Architecture,
    config: NetworkConfig | Seq2SeqConfig,
    arrays: Mapping[str, ndarray],
    ours: Int64[ndarray, " theirs"],
) -> dict[str, ndarray]:
    """Return the tensors by their names, in the type of the token vectors if that loses nothing."""
    kind = next(arrays[row.ours].dtype for row in architecture.tensors if row.by_token and row.ours in arrays)
    tensors: dict[str, ndarray] = {}
    of_experts: dict[str, list[ndarray]] = {}
    grouped: dict[str, list[ndarray]] = {}
    for row in architecture.tensors:
        if row.when is not None and not row.when(config):
            continue
        for layer, expert in row.places(layers_of(row, config), getattr(config, "experts", 0)):
            name = row.ours.format(layer=layer, expert=expert)
            if name not in arrays or (row.in_layer is not None and not row.in_layer(config, layer)):
                continue
            array = arrays[name]
            if row.by_token:
                array = array[ours]
            parts = row.change.to_theirs(array, config)
            names = row.names(layer, expert)
            if not architecture.writes_prefix:
                names = tuple(name.removeprefix(architecture.prefix) for name in names)
            for their, part in zip(names, parts, strict=True):
                if row.of_experts or row.in_groups:
                    (of_experts if row.of_experts else grouped).setdefault(their, []).append(_narrowed(part, kind))
                else:
                    tensors[their] = _narrowed(part, kind)
    joined = {name: np.concatenate(parts, 1) for name, parts in grouped.items()}  # (groups, rows, ...)
    tensors |= {name: array.reshape(-1, *array.shape[2:]) for name, array in joined.items()}
    return tensors | {name: np.stack(rows) for name, rows in of_experts.items()}


def _wider(first: np.dtype[Any], second: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that holds numbers of both."""
    return first if first == second else np.dtype("float32")


def _narrowed(array: ndarray, kind: np.dtype[Any]) -> ndarray:
    """Return an array in its original 16 bits, if it was widened from these."""
    if array.dtype == kind or array.dtype != np.float32:
        return array
    if kind == BFLOAT16:
        narrow = (np.ascontiguousarray(array).view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(BFLOAT16)
    else:
        with np.errstate(over="ignore"):
            narrow = array.astype(kind)
    return narrow if np.array_equal(widen(narrow), array) else array


def _tokens_of(origin: Json, splitter: Subword) -> _Tokens:
    """Return the tokens of an imported model."""
    numbering = TokenIdMap(**{**origin["tokens"], "other_ends": tuple(origin["tokens"]["other_ends"])})
    files = {hugging_face.TOKENIZER: splitter.definition}
    begin, end = numbering.end if numbering.begin is None else numbering.begin, numbering.end
    usual = {"bos": begin, "eos": end}
    if numbering.masked:
        usual, begin, end = {"mask": begin, "cls": end, "sep": numbering.closing}, None, None
    config = origin["tokenizer_config"]
    if config.keys() <= {"add_bos_token"}:  # of a file that is no folder
        config = {**_tokenizer_config(splitter, usual), **config}
    files[hugging_face.TOKENIZER_CONFIG] = _json_bytes(config)
    if origin["chat_template"] is not None:
        files[hugging_face.CHAT_TEMPLATE] = origin["chat_template"].encode()
    return _Tokens(numbering.ours(), files, begin, end)


def _tokenizer_config(splitter: Subword, special: Mapping[str, int | None]) -> Json:
    """Return a tokenizer_config.json. special: ids of tokens by their purposes."""
    contents = {token: content for content, token in splitter.numbers.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": None if token is None else contents.get(token) for name, token in special.items()},
        "clean_up_tokenization_spaces": False,
    }


def _native_tokens(tokenizer: Tokenizer, splitter: Subword, context: int) -> _Tokens:
    """Return the tokens of a model trained here: the ids of the tokenizer.json, then our markers if it has none."""
    named = _named_tokens(tokenizer, splitter, dict(zip(MARKER_TOKENS, (UNKNOWN, BEGIN, END), strict=True)))
    end = MARKER_TOKENS[END]
    files = _native_files(named, before=end, context=context, special={"bos": end, "eos": end})
    return _Tokens(named.ours, files, named.numbers[end], named.numbers[end])


def _native_masked_tokens(tokenizer: Tokenizer, splitter: Subword, context: int, *, has_types: bool) -> _Tokens:
    """Return the tokens of a masked model: <s>, the mask here, and </s>, read before a text, by their usual names.

    has_types: whether the second text of a pair has a separate type.
    """
    named = _named_tokens(tokenizer, splitter, {MARKER_TOKENS[UNKNOWN]: UNKNOWN, _MASK: BEGIN, _BEFORE: END})
    special = {"mask": _MASK, "cls": _BEFORE, "sep": _BEFORE, "pad": _BEFORE}
    files = _native_files(named, before=_BEFORE, context=context, special=special, pair_types=(0, int(has_types)))
    return _Tokens(named.ours, files, None, None)


class _Named(NamedTuple):
    """Tokens by their names in a tokenizer.json. numbers: their ids. ours: our id of each of theirs."""

    described: Json
    numbers: dict[str, int]
    ours: Int64[ndarray, " theirs"]
    unknown: str


def _named_tokens(tokenizer: Tokenizer, splitter: Subword, markers: dict[str, int]) -> _Named:
    """Return tokens with our markers added.

    markers: our ids by the names there; <unk> is added only if it has no such token. Raises SettingError if a token
    would be unknown to the model, or have two meanings.
    """
    described = json.loads(splitter.definition)
    numbers = dict(splitter.numbers)
    known = {name: number for number, name in enumerate(tokenizer.vocabulary.tokens())}
    unknown = next((name for name, number in markers.items() if number == UNKNOWN), MARKER_TOKENS[UNKNOWN])
    if splitter.unknown is not None:  # it has one, under a name of its own
        del markers[unknown]
        unknown = next(name for name, number in numbers.items() if number == splitter.unknown)
    for marker, number in markers.items():
        if known.get(marker.encode(), number) != number:
            raise SettingError(f"its vocabulary has the token {marker!r}, which becomes a marker; train without it")
        if marker not in numbers:
            numbers[marker] = 1 + max(numbers.values(), default=-1)
            described["added_tokens"].append(_special(marker, numbers[marker], takes_space=marker == _MASK))
    ours = np.full(1 + max(numbers.values()), -1, np.int64)
    for number, name in enumerate(splitter.spelled()):
        ours[number] = known.get(name, -1)
    if splitter.unknown is not None:
        ours[splitter.unknown] = UNKNOWN
    for marker, number in markers.items():
        ours[numbers[marker]] = number
    if missing := sorted(name for name, number in numbers.items() if ours[number] < 0):
        raise SettingError(
            f"its {hugging_face.TOKENIZER} has the token {missing[0]!r}, which the model does not know; "
            "transformers would give it probability"
        )
    return _Named(described, numbers, ours, unknown)


def _native_files(
    named: _Named,
    *,
    before: str,
    context: int,
    special: Mapping[str, str],
    pair_types: tuple[int, int] | None = None,
) -> dict[str, bytes]:
    """Return the files of the tokenizer. before: the token put before each text. special: tokens by their purposes.

    pair_types: the types of the two texts of a pair, which is read as [CLS] a [SEP] b [SEP]; None where it is read as
    [CLS] a b.
    """
    processor = _followed_by(named.described.get("post_processor"), before, named.numbers[before], pair_types)
    config: Json = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{purpose}_token": token for purpose, token in special.items()},
        "unk_token": named.unknown,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    if pair_types is not None:
        config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    described = {**named.described, "post_processor": processor}
    return {
        hugging_face.TOKENIZER: json.dumps(described, ensure_ascii=False).encode(),
        hugging_face.TOKENIZER_CONFIG: _json_bytes(config),
    }


def _special(content: str, number: int, *, takes_space: bool) -> Json:
    """Return an added token. takes_space: whether it includes the space before it, as words do."""
    flags = {**dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False), "lstrip": takes_space}
    return {"id": number, "content": content, **flags, "special": True}


def _followed_by(processor: Json | None, token: str, number: int, pair_types: tuple[int, int] | None) -> Json:
    """Return a post-processor that does what the former one did, then puts a token before each text.

    pair_types: as for `_native_files`; the token is both [CLS] and [SEP].
    """
    first, second = pair_types or (0, 0)
    begin, middle, end = ({"SpecialToken": {"id": token, "type_id": kind}} for kind in (0, first, second))
    a, b = ({"Sequence": {"id": part, "type_id": kind}} for part, kind in (("A", first), ("B", second)))
    template: Json = {
        "type": "TemplateProcessing",
        "single": [begin, a],
        "pair": [begin, a, b] if pair_types is None else [begin, a, middle, b, end],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
    return template if processor is None else {"type": "Sequence", "processors": [processor, template]}


def _json_bytes(value: Json) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
