"""The tokenizer in a GGUF file as a tokenizer.json.

tokenizer.ggml.model says of which kind it is, pieces with scores or byte-level BPE, and tokenizer.ggml.pre how texts
are cut into words before that, by a name for each rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError
from chainrule.open_models.sentencepiece import definition_of_bytes, definition_of_scored

if TYPE_CHECKING:
    from pathlib import Path

    Json = dict[str, Any]

_TOKENIZER = "tokenizer.ggml."
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # kinds of tokens

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
_FALCON = {
    "type": "Sequence",
    "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"}, _GPT2, _split("[0-9][0-9][0-9]")],
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
)
# Pre-tokenizers, which split text into words, by the name in tokenizer.ggml.pre.
_PRE_TOKENIZERS: dict[str, Json] = {name: rule for names, rule in _RULES for name in names}
# Names of tokenizers in which a word that is a piece is one token, whatever the merges.
_WHOLE_WORDS = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"}


def definition_of_gguf(path: Path, metadata: Json) -> bytes:
    """The tokenizer as a tokenizer.json. Raises ModelFormatError."""
    own = {name.removeprefix(_TOKENIZER): value for name, value in metadata.items() if name.startswith(_TOKENIZER)}
    kind, rule = own.get("model"), own.get("pre")
    if kind not in ("llama", "gpt2"):
        raise ModelFormatError(f"{path}: {_TOKENIZER}model is {kind!r}; expected llama or gpt2")
    pieces = _strings(path, own, "tokens")
    types = own.get("token_type", [_NORMAL] * len(pieces))
    scores: Any = own.get("scores", []) if kind == "llama" else pieces
    if not isinstance(types, list) or not isinstance(scores, list) or not len(types) == len(scores) == len(pieces):
        raise ModelFormatError(
            f"{path}: {_TOKENIZER}tokens has {len(pieces):,} values; expected as many in token_type and scores"
        )
    unknown = own.get("unknown_token_id", 0 if kind == "llama" else None)
    if unknown is not None and not (type(unknown) is int and 0 <= unknown < len(pieces)):
        raise ModelFormatError(f"{path}: {_TOKENIZER}unknown_token_id is {unknown!r}; there is no such token")
    special = [i for i, type_of in enumerate(types) if type_of in (_UNKNOWN, _CONTROL)]
    added = [i for i, type_of in enumerate(types) if type_of == _USER_DEFINED]
    if kind == "llama":
        adds_space = bool(own.get("add_space_prefix", True))
        return definition_of_scored(
            pieces, scores, unknown=unknown or 0, special=special, added=added, adds_space=adds_space
        )
    if not isinstance(rule, str) or rule not in _PRE_TOKENIZERS:
        raise ModelFormatError(f"{path}: {_TOKENIZER}pre is {rule!r}; expected one of {', '.join(_PRE_TOKENIZERS)}")
    return definition_of_bytes(
        pieces,
        _strings(path, own, "merges"),
        _PRE_TOKENIZERS[rule],
        unknown=unknown,
        special=special,
        added=added,
        keeps_words=rule in _WHOLE_WORDS,
    )


def _strings(path: Path, own: Json, name: str) -> list[str]:
    """A list of strings in the metadata. Raises ModelFormatError."""
    values = own.get(name)
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise ModelFormatError(f"{path}: {_TOKENIZER}{name} is missing, or not an array of strings")
    return values
