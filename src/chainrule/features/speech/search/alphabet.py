"""The labels of CTC's outputs, brought into one form: "" is the blank, " " the space, and pieces have a ▁ before words.

Characters or pieces is recognised by the labels: pieces begin with ▁ (SentencePiece) or ## (WordPiece).
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

logger = logging.getLogger(__name__)

BPE_TOKEN = "▁"  # before a piece that begins a word
UNK_TOKEN = "⁇"  # of unknown characters
UNK_BPE_TOKEN = "▁⁇▁"
_CONTINUES = "##"  # before a piece of WordPiece that continues a word
_BLANKS = [re.compile(rf"[<\[]{name}[>\]]", re.IGNORECASE) for name in ("blank", "blk", "pad")]  # the first one counts
_SPACE = re.compile(r"[<\[](space|sp)[>\]]", re.IGNORECASE)
_UNKNOWN = re.compile(r"[<\[]unk[>\]]", re.IGNORECASE)
_SPECIAL = re.compile(r"[<\[].+[>\]]")


class Alphabet:
    """The labels of a matrix of CTC's outputs, a column each."""

    def __init__(self, labels: list[str], is_bpe: bool) -> None:
        """Store the labels.

        labels: in the decoder's form; `build_alphabet` brings others into it. is_bpe: whether they are parts of words.
        """
        self._labels, self._is_bpe = labels, is_bpe

    @property
    def labels(self) -> list[str]:
        """The labels, as a new list."""
        return list(self._labels)

    @property
    def is_bpe(self) -> bool:
        """Whether labels are parts of words; a word begins with one that has a ▁."""
        return self._is_bpe

    @classmethod
    def build_alphabet(cls, labels: Iterable[str], blank: str | None = None, space: str | None = None) -> Alphabet:
        """Return the alphabet of labels as networks have them.

        blank, space: the labels that are these. By default, the blank is "", <pad>, [PAD], <blank>, <blk> or _, or - as
        the first label; the space is " ", | or <space>. A blank that is missing is added as the last label. Raises
        SettingError if two labels are the same, or parts of words have a space.
        """
        labels = list(labels)
        for what, named, own in (("blank", blank, ""), ("space", space, " ")):
            if named is not None:
                if named not in labels:
                    raise SettingError(
                        f"{what} is {named!r}, which is none of the labels {', '.join(map(repr, labels))}"
                    )
                labels = [own if label == named else label for label in labels]
        for label in labels:
            if not isinstance(label, str):
                raise SettingError(f"a label is {label!r}; expected a string for each column")
        seen: set[str] = set()
        for label in labels:
            if label in seen:
                raise SettingError(f"the label {label!r} is there twice; expected a different one for each column")
            seen.add(label)
        is_bpe = any(label.startswith((_CONTINUES, BPE_TOKEN)) for label in labels)
        if is_bpe and (spaced := next((label for label in labels if " " in label), None)) is not None:
            raise SettingError(
                f"the label {spaced!r} has a space, but others are pieces, whose words begin with ▁ or by ##"
            )
        return cls(normalize_pieces(labels) if is_bpe else normalize_characters(labels), is_bpe)

    def dumps(self) -> str:
        """Return the alphabet as JSON."""
        return json.dumps({"labels": self.labels, "is_bpe": self.is_bpe})

    @classmethod
    def loads(cls, text: str) -> Alphabet:
        """Return the alphabet from JSON that `dumps` made. Raises SettingError."""
        record = json.loads(text)
        if not isinstance(record, dict) or record.keys() != {"labels", "is_bpe"}:
            shown = sorted(record) if isinstance(record, dict) else type(record).__name__
            raise SettingError(f"an alphabet is an object with labels and is_bpe; found {shown}")
        return cls(record["labels"], record["is_bpe"])


def normalize_characters(labels: Sequence[str]) -> list[str]:
    """Return characters in the decoder's form."""
    normal = _with_named_blank(labels)
    if " " not in normal:
        normal = [" " if _SPACE.fullmatch(label) else label for label in normal]
    if " " not in normal:
        _replace_first(normal, "|", " ")
    if "" not in normal:
        _replace_first(normal, "_", "")
    if "" not in normal and normal[:1] == ["-"]:  # torchaudio's
        normal[0] = ""
    normal = _with_blank(normal)
    normal = [UNK_TOKEN if _UNKNOWN.fullmatch(label) else label for label in normal]
    if any(len(label) > 1 and not _SPECIAL.fullmatch(label) for label in normal):
        logger.warning("some labels have several characters, though none is a piece with ▁ or ##; is that intended?")
    if " " not in normal:
        logger.warning("no label is a space, so that all is one word")
    return normal


def normalize_pieces(labels: Sequence[str]) -> list[str]:
    """Return parts of words in the decoder's form."""
    normal = list(labels)
    if any(label.startswith(_CONTINUES) for label in labels):
        normal = [_as_sentencepiece(label) for label in labels]
    normal = _with_blank(_with_named_blank(normal))
    normal = [UNK_BPE_TOKEN if _UNKNOWN.fullmatch(label) else label for label in normal]
    if UNK_BPE_TOKEN not in normal:
        logger.warning("no label is %s, for unknown pieces; is that intended?", UNK_BPE_TOKEN)
    return normal


def _as_sentencepiece(label: str) -> str:
    if label.startswith(_CONTINUES):
        return label.removeprefix(_CONTINUES)
    if label in ("", BPE_TOKEN, UNK_BPE_TOKEN) or _SPECIAL.match(label):
        return label
    return BPE_TOKEN + label


def _with_named_blank(labels: Sequence[str]) -> list[str]:
    named = (label for blank in _BLANKS for label in labels if blank.fullmatch(label))
    blank = "" if "" in labels else next(named, "")
    return ["" if label == blank else label for label in labels]


def _replace_first(labels: list[str], label: str, new: str) -> None:
    if label in labels:
        labels[labels.index(label)] = new


def _with_blank(labels: list[str]) -> list[str]:
    if "" in labels:
        return labels
    logger.info("no label is CTC's blank, which is added as the last")
    return [*labels, ""]


def check_spelling(labels: Alphabet, words: Iterable[str], what: str, least: float = 0.5) -> None:
    """Warn if the labels can spell less than a share of the words that have letters. what: "words of the model".

    Raises SettingError, which says what would help, if they can spell none.
    """
    characters = set("".join(labels.labels))
    lettered = [word for word in dict.fromkeys(words) if any(map(str.isalpha, word))]
    spelled = sum(characters.issuperset(word) for word in lettered)
    if spelled >= least * len(lettered):
        return
    found = f"the labels can spell {spelled:,} of {len(lettered):,} {what}"
    missing = Counter(character for word in lettered for character in set(word) - characters)
    advice = "the characters that most of the others lack are " + " ".join(
        sign for sign, _ in sorted(missing.items(), key=lambda one: (-one[1], one[0]))[:10]
    )
    for kind, changed in (("capitals", str.upper), ("small letters", str.lower)):
        if sum(characters.issuperset(changed(word)) for word in lettered) > max(spelled, len(lettered) // 2):
            advice = (
                f"the labels are {kind}: write lists of words in {kind}, and train a language model on text in {kind}"
            )
    if not spelled:
        raise SettingError(f"{found}; {advice}")
    logger.warning("%s; %s", found, advice)


def verify_alphabet_coverage(alphabet: Alphabet, unigrams: Collection[str]) -> None:
    """Warn if more than a fifth of the characters of words are not among the labels."""
    characters = set("".join(unigrams))
    missing = characters - set(alphabet.labels)
    if characters and len(missing) > 0.2 * len(characters):
        logger.warning("the words have many characters that are no labels: %s", " ".join(sorted(missing)[:20]))
