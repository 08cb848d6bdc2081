"""A model of ours as transformers opens it, by the same tables that others' models are opened by.

What came from others goes back as it came: tensors bit for bit, tokenizer.json byte for byte. What was trained here has
the ids of its own tokenizer.json, with <unk>, <s> and </s> after them, and begins with </s> as our networks do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16, widened
from chainrule.errors import SettingError
from chainrule.open_models.architectures import ARCHITECTURES
from chainrule.open_models.sentence_encoders import without_output
from chainrule.open_models.settings import differences, read_settings, write_settings
from chainrule.open_models.vocabulary import Numbering
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.storage import hugging_face
from chainrule.storage.config_json import CONFIG
from chainrule.text.subword import Subword
from chainrule.text.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.open_models.architecture import Architecture
    from chainrule.text.tokenizer import Tokenizer

    Json = dict[str, Any]

_SPELLINGS = ("rope_theta", "rope_scaling", "rope_parameters", "dtype", "torch_dtype")  # old and new names of the same
_MASK, _BEFORE = "[MASK]", "[CLS]"  # what a masked model of ours calls <s> and </s> there
_TYPES = {np.dtype("float32"): "float32", np.dtype("float16"): "float16", BFLOAT16: "bfloat16"}


class Exported(NamedTuple):
    """What is to lie in a folder. files: by name, but for the tensors."""

    files: dict[str, bytes]
    tensors: dict[str, ndarray]


class _Tokens(NamedTuple):
    """ours: our id of each of theirs. files: of the tokenizer. begin, end: their ids; None: of a masked model."""

    ours: Int64[ndarray, " theirs"]
    files: dict[str, bytes]
    begin: int | None
    end: int | None


def export_model(config: NetworkConfig, arrays: Mapping[str, ndarray], tokenizer: Tokenizer, record: Json) -> Exported:
    """config, arrays: of the network. record: that of the model.

    Raises SettingError where no architecture of others is such a network, or its tokenizer has no counterpart.
    """
    splitter = tokenizer.splitter
    if not isinstance(splitter, Subword) or tokenizer.normaliser.steps:
        raise SettingError(
            f"its text is cut by the {tokenizer.name} tokenizer"
            f"{' after a normalisation of ours' if tokenizer.normaliser.steps else ''}, which Hugging Face's library "
            "has no counterpart of; train with a bpe, unigram or wordpiece tokenizer, without normalise"
        )
    origin = record.get("hugging_face")
    architecture = _architecture_of(config, origin)
    is_masked = architecture.family == "masked"
    if is_masked and origin is None and config.memory == "stream":
        raise SettingError(f"a {architecture.model_type} reads each text by itself, so it cannot have memory='stream'")
    native = _native_masked_tokens if is_masked else _native_tokens
    tokens = native(tokenizer, splitter, config.context) if origin is None else _tokens_of(origin, splitter)
    tensors = _tensors(architecture, config, arrays, tokens.ours)
    dtype = _TYPES[arrays["embedding.weight"].dtype]
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


def _architecture_of(config: NetworkConfig, origin: Json | None) -> Architecture:
    """The architecture that a network is; the one that it came as, if that still suits. Raises SettingError."""
    known = ARCHITECTURES.values()
    candidates = [*known, *(without_output(each) for each in known if each.sees_both_sides)]
    if origin is not None:
        name = origin["config"].get("model_type")
        candidates.sort(key=lambda each: each.model_type != name)
    tried = [(each, differences(each, config)) for each in candidates if type(config) is each.config]
    for architecture, in_the_way in tried:
        if not in_the_way:
            return architecture
    if not tried:
        raise SettingError(
            f"no architecture of transformers that is known here is a {type(config).__name__.removesuffix('Config')} "
            f"network; known are {', '.join(ARCHITECTURES)}"
        )
    nearest, in_the_way = min(tried, key=lambda pair: len(pair[1]))
    raise SettingError(
        f"no architecture of transformers that is known here is such a network; nearest is {nearest.model_type}, which "
        f"cannot have {', '.join(in_the_way)}"
    )


def _is_as_it_came(architecture: Architecture, config: NetworkConfig, origin: Json) -> bool:
    """Whether the config.json that a model came with still says what it is."""
    if origin["config"].get("model_type") != architecture.model_type:
        return False
    came, _ = read_settings(architecture, origin["config"], "")
    return write_settings(architecture, came) == write_settings(architecture, config)


def _tensors(
    architecture: Architecture, config: NetworkConfig, arrays: Mapping[str, ndarray], ours: Int64[ndarray, " theirs"]
) -> dict[str, ndarray]:
    """By their names, each in the type that the vectors of tokens have, if that loses nothing."""
    kind = arrays["embedding.weight"].dtype
    found: dict[str, ndarray] = {}
    for row in architecture.tensors:
        for layer in range(getattr(config, "layers", 0) if "{layer}" in row.ours else 1):
            name = row.ours.format(layer=layer)
            if name not in arrays:
                continue
            array = arrays[name]
            if row.by_token:
                array = array[ours]
            parts = row.change.to_theirs(array, config)
            names = row.names(layer)
            if not architecture.writes_prefix:
                names = tuple(name.removeprefix(architecture.prefix) for name in names)
            found |= {their: _narrowed(part, kind) for their, part in zip(names, parts, strict=True)}
    return found


def _narrowed(array: ndarray, kind: np.dtype[Any]) -> ndarray:
    """In 16 bits, where it was widened from these."""
    if array.dtype == kind or array.dtype != np.float32:
        return array
    if kind == BFLOAT16:
        narrow = (np.ascontiguousarray(array).view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(BFLOAT16)
    else:
        with np.errstate(over="ignore"):
            narrow = array.astype(kind)
    return narrow if np.array_equal(widened(narrow), array) else array


def _tokens_of(origin: Json, splitter: Subword) -> _Tokens:
    """Of a model that came from others."""
    numbering = Numbering(**{**origin["tokens"], "other_ends": tuple(origin["tokens"]["other_ends"])})
    files = {hugging_face.TOKENIZER: splitter.definition}
    begin, end = numbering.end if numbering.begin is None else numbering.begin, numbering.end
    usual = {"bos": begin, "eos": end}
    if numbering.masked:
        usual, begin, end = {"mask": begin, "cls": end, "sep": numbering.closing}, None, None
    said = origin["tokenizer_config"] or _tokenizer_config(splitter, usual)
    files[hugging_face.TOKENIZER_CONFIG] = _json_bytes(said)
    if origin["chat_template"] is not None:
        files[hugging_face.CHAT_TEMPLATE] = origin["chat_template"].encode()
    return _Tokens(numbering.ours(), files, begin, end)


def _tokenizer_config(splitter: Subword, special: Mapping[str, int | None]) -> Json:
    """special: ids of tokens by their purposes."""
    contents = {number: content for content, number in splitter.numbers.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": None if number is None else contents.get(number) for name, number in special.items()},
        "clean_up_tokenization_spaces": False,
    }


def _native_tokens(tokenizer: Tokenizer, splitter: Subword, context: int) -> _Tokens:
    """Of a model that was trained here: the library's ids, and our markers after them where it has none."""
    named = _named_tokens(tokenizer, splitter, dict(zip(MARKER_TOKENS, (UNKNOWN, BEGIN, END), strict=True)))
    end = MARKER_TOKENS[END]
    files = _native_files(named, before=end, context=context, special={"bos": end, "eos": end})
    return _Tokens(named.ours, files, named.numbers[end], named.numbers[end])


def _native_masked_tokens(tokenizer: Tokenizer, splitter: Subword, context: int) -> _Tokens:
    """Of a masked model: <s>, which is the mask here, and </s>, which is read before a text, by their usual names."""
    named = _named_tokens(tokenizer, splitter, {MARKER_TOKENS[UNKNOWN]: UNKNOWN, _MASK: BEGIN, _BEFORE: END})
    files = _native_files(
        named, before=_BEFORE, context=context, special={"mask": _MASK, "cls": _BEFORE, "pad": _BEFORE}
    )
    return _Tokens(named.ours, files, None, None)


class _Named(NamedTuple):
    """Tokens by their names in a tokenizer.json. numbers: theirs. ours: our id of each of theirs."""

    described: Json
    numbers: dict[str, int]
    ours: Int64[ndarray, " theirs"]
    unknown: str


def _named_tokens(tokenizer: Tokenizer, splitter: Subword, markers: dict[str, int]) -> _Named:
    """markers: our ids of what is to be added, by its names there; <unk> only where it has no unknown token.

    Raises SettingError where a token would be one that the model does not know, or two.
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
            raise SettingError(f"its vocabulary has the token {marker!r}, which is a marker there; train without it")
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
            f"its {hugging_face.TOKENIZER} has the token {missing[0]!r}, which the model does not know; there it would "
            "get probability"
        )
    return _Named(described, numbers, ours, unknown)


def _native_files(named: _Named, *, before: str, context: int, special: Mapping[str, str]) -> dict[str, bytes]:
    """before: the token that is put before a text. special: tokens by their purposes."""
    processor = _followed_by(named.described.get("post_processor"), before, named.numbers[before])
    config: Json = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{purpose}_token": token for purpose, token in special.items()},
        "unk_token": named.unknown,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    described = {**named.described, "post_processor": processor}
    return {
        hugging_face.TOKENIZER: json.dumps(described, ensure_ascii=False).encode(),
        hugging_face.TOKENIZER_CONFIG: _json_bytes(config),
    }


def _special(content: str, number: int, *, takes_space: bool) -> Json:
    """takes_space: whether the space before it is its own, as that before a word is the word's."""
    flags = {**dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False), "lstrip": takes_space}
    return {"id": number, "content": content, **flags, "special": True}


def _followed_by(processor: Json | None, token: str, number: int) -> Json:
    """A post-processor that puts a token before each text, after what there was."""
    begin = {"SpecialToken": {"id": token, "type_id": 0}}
    text = [{"Sequence": {"id": part, "type_id": 0}} for part in "AB"]
    template: Json = {
        "type": "TemplateProcessing",
        "single": [begin, text[0]],
        "pair": [begin, *text],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }
    return template if processor is None else {"type": "Sequence", "processors": [processor, template]}


def _json_bytes(value: Json) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
