"""TokenIdMap: which token id of an opened model is which of ours; and which of its tokens are our markers.

Ours begin with <unk>, <s> and </s>; theirs have these anywhere, or lack some. So a network's rows are put in another
order: three rows first, then all others as they were, those too that no text can reach, since they count in the
normaliser. A marker that theirs lack gets a row of zeros, and no probability.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.errors import ModelFormatError, SettingError
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.storage.hugging_face import Checkpoint
    from chainrule.text.tokenization.subword import Subword

    Json = dict[str, Any]


_MOST_LISTED = 8  # languages in a message
_MASKED_MARKERS = {"mask": ("[MASK]", "<mask>"), "cls": ("[CLS]", "<s>"), "sep": ("[SEP]", "</s>")}


class TokenIdMap(NamedTuple):
    """rows: how many ids they have. unknown, begin, end: their ids of our markers; None where they have no such token.

    other_ends: further ids of theirs that end a text. masked: whether `begin` is the mask, and `end` the token that is
    read before a text, as </s> is here. closing: for such a model, the token that is read after a text; None for none.
    before: the token that is read before a text, where it is neither `begin` nor `end`; None where it is one of them.
    """

    rows: int
    unknown: int | None
    begin: int | None
    end: int | None
    other_ends: tuple[int, ...] = ()
    masked: bool = False
    closing: int | None = None
    before: int | None = None

    @property
    def first(self) -> int | None:
        """Their id of what is read before a text."""
        if self.before is not None:
            return self.before
        return self.end if self.masked or self.begin is None else self.begin

    def theirs(self) -> Int64[ndarray, " ours"]:
        """Their id of each token of ours; -1 for none."""
        markers = [-1 if number is None else number for number in (self.unknown, self.begin, self.end)]
        others = np.delete(np.arange(self.rows), [number for number in markers if number >= 0])
        return np.concatenate([markers, others])

    def ours(self) -> Int64[ndarray, " theirs"]:
        """Our id of each token of theirs."""
        theirs = self.theirs()
        ours = np.empty(self.rows, np.int64)
        ours[theirs[theirs >= 0]] = np.flatnonzero(theirs >= 0)
        return ours

    def settings(self) -> Json:
        """The settings of a network that follow from it."""
        missing = [number for number, theirs in enumerate(self.theirs()[:3].tolist()) if theirs < 0 and number != 1]
        if self.masked:
            closing = None if self.closing is None else int(self.ours()[self.closing])
            return {"closed_by": closing, "banned": tuple(missing)}
        return {
            "begins_with": "</s>" if self.begin is None else "<s>",
            **({} if self.before is None else {"first_read": int(self.ours()[self.before])}),
            "ends": tuple(self.ours()[list(self.other_ends)].tolist()),
            "banned": tuple(missing),
        }


def name_before(record: Json, splitter: Subword, chosen: int | None = None) -> str | None:
    """Return the others' name of the token that their model reads before a text; None for a model of ours.

    chosen: our id of the token that was asked for in its place, if any.
    """
    if (origin := record.get("hugging_face")) is None:
        return None
    numbering = TokenIdMap(**origin["tokens"])
    number = numbering.first if chosen is None else int(numbering.theirs()[chosen])
    return next((name for name, own in splitter.numbers.items() if own == number), None)


def id_of_name(record: Json, splitter: Any, vocabulary: Vocabulary, name: str) -> int | None:
    """Our id of a token by its name, in a checkpoint of others by theirs; None if there is no such token."""
    numbers: Mapping[str, int] = getattr(splitter, "numbers", {})
    if (origin := record.get("hugging_face")) is not None and name in numbers:
        return int(TokenIdMap(**origin["tokens"]).ours()[numbers[name]])
    number = vocabulary.id_of(name)
    return None if number == UNKNOWN and name != MARKER_TOKENS[UNKNOWN] else number


def rows_by_ours(array: ndarray, numbering: TokenIdMap) -> ndarray:
    """A tensor with a row for each of their tokens, as one with a row for each of ours."""
    theirs = numbering.theirs()
    rows = array[theirs]
    rows[theirs < 0] = np.zeros((), array.dtype)
    return rows


def vocabulary_of(splitter: Subword, numbering: TokenIdMap, numbers: Mapping[str, int] | None = None) -> Vocabulary:
    """Our vocabulary of all their rows. A token with the spelling of another one, or with none, gets its number for a
    name.

    numbers: their ids of pieces; None for those of the splitter.
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
    """Which of their tokens are our markers, with warnings. rows: how many the embedding has.

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
    numbering = numbering_by_markers(rows, splitter.unknown, begin, ends)
    first = begin if _adds_begin(checkpoint, splitter) else _separator(checkpoint, splitter, begin, ends)
    return numbering if first in (None, numbering.first) else numbering._replace(before=first), warnings


def numbering_by_markers(rows: int, unknown: int | None, begin: int | None, ends: Sequence[int]) -> TokenIdMap:
    """The numbering given their markers. Where a token has several roles, the end of a text comes before its beginning,
    and that before <unk>.

    ends: the first is </s>; with none, there is no </s>.
    """
    return TokenIdMap(
        rows,
        None if unknown in (*ends, begin) else unknown,
        None if begin in ends else begin,
        ends[0] if ends else None,
        tuple(ends[1:]),
    )


def check_ids(location: str, rows: int, **ids: Sequence[int]) -> None:
    """Raises ModelFormatError where an id has no row; the message names its field."""
    for name, numbers in ids.items():
        for number in numbers:
            if not 0 <= number < rows:
                raise ModelFormatError(f"{location}: {name} is {number}; expected less than the vocab_size of {rows:,}")


def _masked_numbering(checkpoint: Checkpoint, splitter: Subword, rows: int) -> TokenIdMap:
    """The numbering of a model that reads [CLS] text [SEP], with [MASK] for a gap; or without [SEP], if its tokenizer
    adds none.

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
    """The ids that end a text, by generation_config.json, else config.json, else the tokenizer; with warnings.

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
    """The id that a text begins with: what the tokenizer puts before it, else the bos of the configuration."""
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
    """The first special token that a post-processor puts before a text."""
    return next(iter(put_around(processor)[0]), None)


def _put_after(processor: Json | None) -> str | None:
    """The last special token that a post-processor puts after a text."""
    return next(reversed(put_around(processor)[1]), None)


def put_around(processor: Json | None) -> tuple[list[str], list[str]]:
    """The special tokens that a post-processor puts before a text, and after it."""
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


def is_language(token: str) -> bool:
    """Whether a token says the language of a text: en_XX of mBART, eng_Latn of NLLB, __en__ of M2M-100."""
    return re.fullmatch(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|__[a-z]{2,3}__", token) is not None


def language_token(code: str, tokens: Iterable[str]) -> str:
    """The token of a language, from it or from its beginning: fr for fr_XX, eng for eng_Latn, en for __en__.

    tokens: the special tokens of a model. Raises SettingError.
    """
    languages = {token: token.strip("_").partition("_")[0] for token in tokens if is_language(token)}
    if not languages:
        raise SettingError("the model has no tokens of languages; leave out its languages")
    matching = [code] if code in languages else [token for token, short in languages.items() if short == code]
    if len(matching) == 1:
        return matching[0]
    like = [token for token, short in languages.items() if short[:2] == code[:2].lower()]
    near = matching or [*dict.fromkeys([*get_close_matches(code, languages), *like])]
    listed = ", ".join((near or sorted(languages))[:_MOST_LISTED])
    problem = "is the beginning of several of its languages" if matching else "is none of its languages"
    raise SettingError(f"{code!r} {problem}; expected one of {len(languages):,}, such as {listed}")


def _special_of(part: object) -> str | None:
    """The special token that a part of a template stands for; None for the text."""
    match part:
        case {"SpecialToken": {"id": str(token)}}:
            return token
    return None


def _content(token: object) -> str | None:
    """The text of a token, which tokenizer_config.json has as a string or an object."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else None
