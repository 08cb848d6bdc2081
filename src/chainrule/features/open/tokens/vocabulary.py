"""Which tokens of a checkpoint of others are our markers, and its vocabulary as one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.models.files.origin import TokenIdMap
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import ndarray

    from chainrule.storage.hugging_face import Checkpoint
    from chainrule.text.tokenization.subword import Subword

    Json = dict[str, Any]


_MASKED_MARKERS = {"mask": ("[MASK]", "<mask>"), "cls": ("[CLS]", "<s>"), "sep": ("[SEP]", "</s>")}


def rows_by_ours(array: ndarray, numbering: TokenIdMap) -> ndarray:
    """Return a tensor with a row for each of their tokens, as one with a row for each of ours."""
    theirs = numbering.theirs()
    rows = array[theirs]
    rows[theirs < 0] = np.zeros((), array.dtype)
    return rows


def vocabulary_of(splitter: Subword, numbering: TokenIdMap, numbers: Mapping[str, int] | None = None) -> Vocabulary:
    """Return our vocabulary of all their rows.

    A token with the spelling of another one, or with none, gets its number for a name. numbers: their ids of pieces;
    None for those of the splitter.
    """
    spelled = splitter.spelled(numbers)
    names: dict[bytes, None] = {}
    for number in numbering.theirs()[len(MARKER_TOKENS) :].tolist():
        name = spelled[number] if number < len(spelled) else b""
        if not name or name in names or name.decode("utf-8", "replace") in MARKER_TOKENS or set(name) & set(b" \n"):
            name = name.translate(None, b" \n") + b"#%d" % number
        names[name] = None
    return Vocabulary(names)


def numbering_of(
    checkpoint: Checkpoint, splitter: Subword, rows: int, *, is_masked: bool = False
) -> tuple[TokenIdMap, list[str]]:
    """Return which of their tokens are our markers, with warnings. rows: how many the embedding has.

    Raises ModelFormatError.
    """
    location = checkpoint.location
    known = 1 + max(splitter.numbers.values(), default=-1)
    if known > rows:
        raise ModelFormatError(
            f"{location}: its tokenizer numbers {known:,} tokens, but the model has vectors for {rows:,} (vocab_size); "
            "they do not belong together"
        )
    if is_masked:
        return _masked_numbering(checkpoint, splitter, rows), []
    ends, warnings = ends_of(checkpoint, splitter.numbers)
    begin = _begin(checkpoint, splitter)
    check_ids(location, rows, eos_token_id=ends, bos_token_id=[] if begin is None else [begin])
    adds_begin = _adds_begin(checkpoint, splitter)
    numbering = numbering_by_markers(rows, splitter.unknown, begin, ends)._replace(adds_begin=adds_begin)
    first = begin if adds_begin else _separator(checkpoint, splitter, begin, ends)
    return numbering if first in (None, numbering.first) else numbering._replace(before=first), warnings


def numbering_by_markers(rows: int, unknown: int | None, begin: int | None, ends: Sequence[int]) -> TokenIdMap:
    """Return the numbering given their markers.

    Where a token has several roles, the end of a text comes before its beginning, and that before <unk>. ends: the
    first is </s>; with none, there is no </s>.
    """
    return TokenIdMap(
        rows,
        None if unknown in (*ends, begin) else unknown,
        None if begin in ends else begin,
        ends[0] if ends else None,
        tuple(ends[1:]),
    )


def check_ids(location: str, rows: int, **ids: Sequence[int]) -> None:
    """Raise ModelFormatError where an id has no row; the message names its field."""
    for name, numbers in ids.items():
        for number in numbers:
            if not 0 <= number < rows:
                raise ModelFormatError(f"{location}: {name} is {number}; expected less than the vocab_size of {rows:,}")


def _masked_numbering(checkpoint: Checkpoint, splitter: Subword, rows: int) -> TokenIdMap:
    """Return the numbering of a model that reads [CLS] text [SEP], with [MASK] for a gap; or without [SEP], if its
    tokenizer adds none.

    Raises ModelFormatError.
    """
    numbers: dict[str, int] = {}
    processor = splitter.post_processor
    around = {"cls": _put_before(processor), "sep": _put_after(processor)}
    needed = [name for name in _MASKED_MARKERS if name == "mask" or around["cls"] is None or around[name] is not None]
    for name in needed:
        usual = _MASKED_MARKERS[name]
        token = around.get(name) or _content(checkpoint.tokenizer_config.get(f"{name}_token"))
        number = next((splitter.numbers[each] for each in (token, *usual) if each in splitter.numbers), None)
        if number is None:
            raise ModelFormatError(
                f"{checkpoint.location}: its tokenizer has no {name} token, which a masked model needs; name it in "
                f"tokenizer_config.json as {name}_token"
            )
        numbers[name] = number
    if len(set(numbers.values())) < len(numbers):
        raise ModelFormatError(f"{checkpoint.location}: the mask, cls and sep tokens must differ, but are {numbers}")
    unknown = None if splitter.unknown in numbers.values() else splitter.unknown
    return TokenIdMap(rows, unknown, numbers["mask"], numbers["cls"], masked=True, closing=numbers.get("sep"))


def ends_of(checkpoint: Checkpoint, ids: Mapping[str, int]) -> tuple[list[int], list[str]]:
    """Return the ids that end a text, by generation_config.json, else config.json, else the tokenizer; with warnings.

    ids: of tokens. Raises ModelFormatError where none does.
    """
    said: dict[str, list[int]] = {}
    for name, values in (("generation_config.json", checkpoint.generation_config), ("config.json", checkpoint.config)):
        value = values.get("eos_token_id")
        numbers = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(number) is not int for number in numbers):
            raise ModelFormatError(
                f"{checkpoint.location}: {name}: eos_token_id is {value!r}; expected an id, or several"
            )
        if numbers:
            said[name] = list(dict.fromkeys(numbers))
    token = _content(checkpoint.tokenizer_config.get("eos_token"))
    if token is not None and token in ids:
        said["tokenizer_config.json"] = [ids[token]]
    if not said:
        raise ModelFormatError(
            f"{checkpoint.location}: says of no token that it ends a text; write eos_token_id into its "
            "generation_config.json"
        )
    differing = [name for name, numbers in said.items() if not set(numbers) & set(next(iter(said.values())))]
    warnings = [
        f"{checkpoint.location}: a text ends with {said[name]} in {name}, and with {first} in {source}, which counts"
        for source, first in list(said.items())[:1]
        for name in differing
    ]
    return next(iter(said.values())), warnings


def _begin(checkpoint: Checkpoint, splitter: Subword) -> int | None:
    """Return the id that a text begins with: what the tokenizer puts before it, else the bos of the configuration."""
    before = _put_before(splitter.post_processor)
    if before in splitter.numbers:
        return splitter.numbers[before]
    token = _content(checkpoint.tokenizer_config.get("bos_token"))
    for value in (checkpoint.config.get("bos_token_id"), checkpoint.generation_config.get("bos_token_id")):
        if type(value) is int:
            return value
    return splitter.numbers.get(token) if token is not None else None


# Tokens that stand between the documents of pre-training, by the names that models have for them.
_SEPARATORS = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|eos|>",
    "<｜end▁of▁sentence｜>",
    "[EOS]",
    "<EOS>",
)
# Tokenizers that put the bos before a text where their tokenizer_config.json does not say whether.
_BEGIN_BY_DEFAULT = ("Llama", "CodeLlama", "Gemma")


def _adds_begin(checkpoint: Checkpoint, splitter: Subword) -> bool:
    """Return whether the tokenizer of others puts a token before a text."""
    if _put_before(splitter.post_processor) in splitter.numbers:
        return True
    if (said := checkpoint.tokenizer_config.get("add_bos_token")) is not None:
        return said is True
    kind = str(checkpoint.tokenizer_config.get("tokenizer_class")).removesuffix("Fast").removesuffix("Tokenizer")
    return kind in _BEGIN_BY_DEFAULT


def _separator(checkpoint: Checkpoint, splitter: Subword, begin: int | None, ends: Sequence[int]) -> int | None:
    """Return the id of the token that stood between documents in training, for models without one before a text: the
    file's end of a text or its bos, if that is such a token by name; else any token with such a name; else the first
    of these two that the chat template does not name, since that one begins or ends a turn.
    """
    names = {number: name for name, number in splitter.numbers.items()}
    stated = _content(checkpoint.tokenizer_config.get("eos_token"))
    marked = [*([splitter.numbers[stated]] if stated in splitter.numbers else []), *ends]
    marked += [] if begin is None else [begin]
    for number in marked:
        if names.get(number) in _SEPARATORS:
            return number
    for name in _SEPARATORS:
        if name in splitter.numbers:
            return splitter.numbers[name]
    template = str(checkpoint.chat_template or checkpoint.tokenizer_config.get("chat_template") or "")
    own = [*([] if begin is None else [begin]), *ends]
    return next((number for number in own if names.get(number, "") not in template), begin)


def _put_before(processor: Json | None) -> str | None:
    """Return the first special token that a post-processor puts before a text."""
    return next(iter(put_around(processor)[0]), None)


def _put_after(processor: Json | None) -> str | None:
    """Return the last special token that a post-processor puts after a text."""
    return next(reversed(put_around(processor)[1]), None)


def put_around(processor: Json | None) -> tuple[list[str], list[str]]:
    """Return the special tokens that a post-processor puts before a text, and after it."""
    match processor:
        case {"type": "Sequence", "processors": list(parts)}:
            sides = [put_around(part) for part in parts]
            return [one for side in reversed(sides) for one in side[0]], [one for side in sides for one in side[1]]
        case {"type": "TemplateProcessing", "single": list(parts)}:
            names = [_special_of(part) for part in parts]
            if None in names:
                text = names.index(None)
                return [name for name in names[:text] if name], [name for name in names[text:] if name]
        case {"type": "RobertaProcessing" | "BertProcessing", "cls": [str(before), _], "sep": [str(after), _]}:
            return [before], [after]
    return [], []


def _special_of(part: object) -> str | None:
    """Return the special token that a part of a template stands for; None for the text."""
    match part:
        case {"SpecialToken": {"id": str(token)}}:
            return token
    return None


def _content(token: object) -> str | None:
    """Return the text of a token, which tokenizer_config.json has as a string or an object."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else None
