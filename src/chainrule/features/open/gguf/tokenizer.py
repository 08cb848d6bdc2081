"""The tokenizer in a GGUF file as a tokenizer.json.

tokenizer.ggml.model says of which kind it is: pieces with scores (llama), or with merges (gemma4), byte-level BPE
(gpt2), pieces of words as BERT's (bert), or unigrams (t5). tokenizer.ggml.pre says how texts are cut into words before
byte-level BPE, by a name for each rule.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from chainrule.errors import ModelFormatError
from chainrule.features.open.tokens.sentencepiece import (
    SPACE,
    definition_of_bytes,
    definition_of_merged,
    definition_of_unigrams,
    merges_of_scores,
    tokenizer_definition,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Json = dict[str, Any]

_TOKENIZER = "tokenizer.ggml."
_MODELS = ("llama", "gemma4", "gpt2", "bert", "t5")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # kinds of tokens

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_GPT2: Json = {**_BYTE_LEVEL, "use_regex": True}

# Parts of the patterns: what an apostrophe joins; letters; digits; other characters; spaces.
_JOINED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_JOINED}|{_LETTERS}|\p{{N}}%s| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_MARKED = rf"{_JOINED}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BY_CASE = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s|\p{{N}}%s"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)


def _split(pattern: str, behaviour: str = "Isolated") -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behaviour, "invert": False}


def _in_sequence(*parts: Json, use_regex: bool) -> Json:
    return {"type": "Sequence", "pretokenizers": [*parts, {**_BYTE_LEVEL, "use_regex": use_regex}]}


def _split_by(pattern: str) -> Json:
    return _in_sequence(_split(pattern), use_regex=False)


_DIGITS = _in_sequence({"type": "Digits", "individual_digits": True}, use_regex=True)
_THREE_DIGITS = _split_by(_LLAMA3 % "{1,3}")
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_MARKS, _NUMBERS, _BY_THREE = r"[\p{P}\$\+<=>\^~\|]+", r"\p{N}+", "[0-9][0-9][0-9]"
_WITH_KANA = r"[一-龥぀-ゟ゠-ヿ]+"  # Chinese characters, and Japanese syllables
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    rf"{_SPACES}"
).replace(r"\r\n", "\r\n")  # which its tokenizer.json has as they are
_DEFAULT = _in_sequence(*map(_split, (_MARKS, _WORDS, _NUMBERS, _BY_THREE)), use_regex=False)
_FALCON = {
    "type": "Sequence",
    "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"}, _GPT2, _split(_BY_THREE)],
}
_RULES: tuple[tuple[tuple[str, ...], Json], ...] = (
    (("gpt-2", "phi-2", "mpt", "olmo", "exaone4", "modern-bert", "jais", "mellum", "a.x-4.0", "gigachat"), _GPT2),
    (("roberta-bpe", "trillion", "granite-docling"), _GPT2),
    (("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"), _DIGITS),
    (("llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2", "smaug-bpe", "dbrx", "chatglm-bpe", "glm4"), _THREE_DIGITS),
    (("pixtral", "falcon-h1", "midm-2.0"), _THREE_DIGITS),
    (("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2", "solar-open"), _split_by(_LLAMA3 % "")),
    (("qwen35",), _split_by(_MARKED)),
    (("tekken",), _split_by(_BY_CASE % ("", "", ""))),
    (("gpt-4o", "llama4", "kanana2"), _split_by(_BY_CASE % (f"{_JOINED}?", f"{_JOINED}?", "{1,3}"))),
    (("falcon",), _FALCON),
    (
        ("deepseek-v3", "hunyuan-dense"),
        _in_sequence(*map(_split, (r"\p{N}{1,3}", _WITH_KANA, _DEEPSEEK3)), use_regex=False),
    ),
    (("default",), _DEFAULT),
)
# Pre-tokenizers, which split text into words, by the name in tokenizer.ggml.pre.
PRE_TOKENIZERS: dict[str, Json] = {name: rule for names, rule in _RULES for name in names}
# Names of tokenizers in which a word that is a piece is one token, whatever the merges.
WHOLE_WORDS = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"}


def definition_of_gguf(path: Path, metadata: Json, reads: Literal["text", "framed", "source"] = "text") -> bytes:
    """Return the tokenizer as a tokenizer.json. reads: as in `Kind`, what stands around a text.

    Raises ModelFormatError.
    """
    definition = _definition_of(path, metadata)
    if reads == "text":
        return definition
    described = json.loads(definition)
    pieces = metadata[f"{_TOKENIZER}tokens"]
    around = [_marker(path, metadata, pieces, *side) for side in (_AROUND if reads == "framed" else _AROUND[1:])]
    *before, after = ({"SpecialToken": {"id": pieces[number], "type_id": 0}} for number in around)
    first, second = ({"Sequence": {"id": side, "type_id": number}} for number, side in enumerate("AB"))
    described["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [*before, first, after],
        "pair": [*before, first, after, second, after],
        "special_tokens": {
            pieces[number]: {"id": pieces[number], "ids": [number], "tokens": [pieces[number]]} for number in around
        },
    }
    return json.dumps(described, ensure_ascii=False).encode()


# Before a text and after it: fields of metadata, and the usual names.
_AROUND = (
    (("cls_token_id", "bos_token_id"), ("[CLS]", "<s>")),
    (("seperator_token_id", "eos_token_id"), ("[SEP]", "</s>")),
)


def _marker(path: Path, metadata: Json, pieces: Sequence[str], fields: tuple[str, ...], usual: tuple[str, ...]) -> int:
    """Return the id of the token that stands on one side of a text. Raises ModelFormatError."""
    said = next((metadata[_TOKENIZER + name] for name in fields if _TOKENIZER + name in metadata), None)
    number = next((pieces.index(name) for name in usual if name in pieces), None) if said is None else said
    if type(number) is not int or not 0 <= number < len(pieces):
        raise ModelFormatError(f"{path}: {_TOKENIZER}{fields[0]} is {number!r}; expected the id of a token")
    return number


def adds_begin(metadata: Json) -> bool:
    """Return whether the bos is put before a text; where the file does not say it, as llama.cpp decides."""
    said = metadata.get(f"{_TOKENIZER}add_bos_token")
    if said is not None:
        return said is True
    kind, rule = (metadata.get(f"{_TOKENIZER}{name}") for name in ("model", "pre"))
    return kind in ("llama", "gemma4") or rule in WHOLE_WORDS


def _definition_of(path: Path, metadata: Json) -> bytes:
    """Return the tokenizer without what it puts around a text. Raises ModelFormatError."""
    own = {name.removeprefix(_TOKENIZER): value for name, value in metadata.items() if name.startswith(_TOKENIZER)}
    kind, rule = own.get("model"), own.get("pre")
    if kind not in _MODELS:
        raise ModelFormatError(f"{path}: {_TOKENIZER}model is {kind!r}; expected one of {', '.join(_MODELS)}")
    pieces = _strings(path, own, "tokens")
    types = own.get("token_type", [NORMAL] * len(pieces))
    scores: Any = own.get("scores", []) if kind in ("llama", "t5") else pieces
    if not isinstance(types, list) or not isinstance(scores, list) or not len(types) == len(scores) == len(pieces):
        raise ModelFormatError(
            f"{path}: {_TOKENIZER}tokens has {len(pieces):,} values; expected as many in token_type and scores"
        )
    unknown = own.get("unknown_token_id", 0 if kind == "llama" else None)
    if unknown is None and kind in ("bert", "t5"):
        unknown = next((i for i, piece in enumerate(pieces) if piece in ("[UNK]", "<unk>")), 0)
    if unknown is not None and not (type(unknown) is int and 0 <= unknown < len(pieces)):
        raise ModelFormatError(f"{path}: {_TOKENIZER}unknown_token_id is {unknown!r}; there is no such token")
    special = [i for i, type_of in enumerate(types) if type_of in (UNKNOWN, CONTROL)]
    added = [i for i, type_of in enumerate(types) if type_of == USER_DEFINED]
    if kind in ("llama", "gemma4"):
        return definition_of_merged(
            pieces,
            merges_of_scores(pieces, scores) if kind == "llama" else _pairs(_strings(path, own, "merges")),
            unknown=unknown or 0,
            special=special,
            added=added,
            adds_space=bool(own.get("add_space_prefix", kind == "llama")),
            cuts_lines=kind == "gemma4",
        )
    if kind == "bert":
        return _of_word_pieces(pieces, unknown or 0, special)
    if kind == "t5":
        characters = own.get("precompiled_charsmap") or []
        if not isinstance(characters, list) or not all(isinstance(byte, int) for byte in characters):
            raise ModelFormatError(f"{path}: {_TOKENIZER}precompiled_charsmap is no array of bytes")
        return definition_of_unigrams(
            list(zip(pieces, map(float, scores), strict=True)),
            unknown=unknown or 0,
            unmatched=[i for i, type_of in enumerate(types) if type_of != NORMAL],
            special=[(i, pieces[i]) for i in special if i != unknown],
            added=[(i, pieces[i]) for i in added],
            characters=bytes(byte & 0xFF for byte in characters),
            adds_space=bool(own.get("add_space_prefix", True)),
            drops_spaces=bool(own.get("remove_extra_whitespaces", True)),
            names_bytes=BYTE in types,
        )
    if not isinstance(rule, str) or rule not in PRE_TOKENIZERS:
        raise ModelFormatError(f"{path}: {_TOKENIZER}pre is {rule!r}; expected one of {', '.join(PRE_TOKENIZERS)}")
    return definition_of_bytes(
        pieces,
        _pairs(_strings(path, own, "merges")),
        PRE_TOKENIZERS[rule],
        unknown=unknown,
        special=special,
        added=added,
        keeps_words=rule in WHOLE_WORDS,
    )


def _of_word_pieces(pieces: Sequence[str], unknown: int, special: Sequence[int]) -> bytes:
    """Return a tokenizer of BERT's kind: tokens that begin a word have ▁ before them here, and others nothing.

    Text is lower-cased where no token has a capital, which the file does not say.
    """
    kept = {*special, unknown}
    names = [
        piece if number in kept else piece[1:] if piece.startswith(SPACE) else f"##{piece}"
        for number, piece in enumerate(pieces)
    ]
    lowers = not any(piece != piece.lower() for number, piece in enumerate(names) if number not in kept)
    flags = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lowers}
    return tokenizer_definition(
        special=[(number, names[number]) for number in sorted(kept)],
        normalizer={"type": "BertNormalizer", **flags},
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={
            "type": "WordPiece",
            "unk_token": names[unknown],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {name: number for number, name in enumerate(names)},
        },
    )


def _pairs(merges: Sequence[str]) -> list[list[str]]:
    """Return both tokens of each merge, which a space separates."""
    return [merge.split(" ", 1) for merge in merges]


def _strings(path: Path, own: Json, name: str) -> list[str]:
    """Return a list of strings in the metadata. Raises ModelFormatError."""
    values = own.get(name)
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise ModelFormatError(f"{path}: {_TOKENIZER}{name} is missing, or not an array of strings")
    return values
