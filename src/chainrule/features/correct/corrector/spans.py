"""The parts of a text that a corrector works on, chunks of running text, and the changes that it makes to them.

Lines are put together to running text, and changes are given back where they stand. A hyphen at the end of a line joins
the word that it cuts: `mo-` and `tion` are read as `motion`, and come back as two lines. Empty lines part paragraphs,
which are read one by one. A chunk is what white space separates; some are marked to be left alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.features.correct.channel.lexicon import WORD
from chainrule.features.correct.corrector.word_index import LONGEST
from chainrule.text.lookup import in_form_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from chainrule.text.lookup import Reading


class Change(NamedTuple):
    """A correction of a part of a text. start, stop: in characters of the original text."""

    start: int
    stop: int
    before: str
    after: str
    prob: float  # of this change, among the paths that the beam kept


class Corrected(NamedTuple):
    """A text, its correction, and the changes between them. note: the reason why nothing was changed, if any."""

    text: str
    corrected: str
    changes: tuple[Change, ...]
    note: str | None = None

    def with_changes(self, changes: Iterable[Change]) -> str:
        """Return the text with only these changes applied."""
        return apply_changes(self.text, changes)

    def marked(self) -> str:
        """Return the text with its changes marked: [-before-]{+after+}."""
        marked = [change._replace(after=f"[-{change.before}-]{{+{change.after}+}}") for change in self.changes]
        return self.with_changes(marked)

    def as_json(self) -> dict[str, Any]:
        """Return the text, its correction and each change, for JSON."""
        changes = [{**change._asdict(), "prob": round(change.prob, 4)} for change in self.changes]
        note = {} if self.note is None else {"note": self.note}
        return {"text": self.text, "corrected": self.corrected, "changes": changes, **note}


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """Return a text with changes applied. changes: in the order of the text."""
    parts, end = [], 0
    for change in changes:
        parts += [text[end : change.start], change.after]
        end = change.stop
    return "".join([*parts, text[end:]])


_PARAGRAPH = re.compile(r"\S.*(?:\n(?!\s*(?:\n|\Z)).*)*")
_LINE_BREAK = re.compile(r"(?<=[^\W\d_])-\r?\n[ \t]*(?=[^\W\d_])|[ \t\r]*\n[ \t]*")
_GAP = re.compile(r" |(?<=\w)-(?=\w)")
_WORD_BEFORE, _WORD_AFTER = re.compile(r"[^\W\d_]+$"), re.compile(r"[^\W\d_]+")


class LineBreak(NamedTuple):
    """The end of a line.

    position: in running text. is_space: whether a space stands for it there. text: the line break itself.
    """

    position: int
    is_space: bool
    text: str

    @property
    def stop(self) -> int:
        return self.position + self.is_space

    @property
    def longer(self) -> int:
        """By how many characters the line break is longer than its replacement."""
        return len(self.text) - self.is_space


class RunningText(NamedTuple):
    """A paragraph in one line. start: in characters of the whole text."""

    text: str
    start: int = 0
    breaks: tuple[LineBreak, ...] = ()


def running_texts(text: str, is_word: Callable[[str], bool]) -> list[RunningText]:
    """Return the paragraphs of a text.

    is_word: whether a word is known, which tells a word cut at the line's end from one with a hyphen.
    """
    if "\n" not in text:
        return [RunningText(text)]
    return [_in_one_line(match.group(), match.start(), is_word) for match in _PARAGRAPH.finditer(text)]


def _in_one_line(text: str, start: int, is_word: Callable[[str], bool]) -> RunningText:
    parts: list[str] = []
    breaks: list[LineBreak] = []
    done = size = 0
    for match in _LINE_BREAK.finditer(text):
        is_space = not match.group().startswith("-")
        begin = match.start() + (not is_space and _keeps_hyphen(text, match, is_word))
        size += begin - done
        breaks.append(LineBreak(size, is_space, text[begin : match.end()]))
        size += is_space
        parts.append(text[done:begin] + " " * is_space)
        done = match.end()
    return RunningText("".join([*parts, text[done:]]), start, tuple(breaks))


def _keeps_hyphen(text: str, match: re.Match[str], is_word: Callable[[str], bool]) -> bool:
    """Return whether a hyphen at the end of a line belongs to the word: both parts are words, the whole is none."""
    before, after = _WORD_BEFORE.search(text, 0, match.start()), _WORD_AFTER.match(text, match.end())
    if before is None or after is None:
        return False
    left, right = before.group(), after.group()
    return is_word(left) and is_word(right) and not is_word(left + right)


def in_lines(change: Change, running: RunningText, text: str) -> Change:
    """Return a change of running text as one of the whole text, which keeps its lines."""
    start = running.start + change.start + sum(one.longer for one in running.breaks if one.stop <= change.start)
    stop = running.start + change.stop + sum(one.longer for one in running.breaks if one.position < change.stop)
    after = change.after
    for one in reversed(running.breaks):
        if change.start < one.stop and one.position < change.stop:
            after = _broken(after, one, one.position - change.start)
    if after.endswith("\n"):  # what follows begins the next line
        stop, after = (stop + 1, after) if text[stop : stop + 1].isspace() else (stop, after.removesuffix("\n"))
    return change._replace(start=start, stop=stop, before=text[start:stop], after=after)


def in_source(change: Change, reading: Reading, source: str) -> Change | None:
    """Return a change of what was read of a source as one of the source, in its characters.

    None if there is something between the characters that change that was not read, such as a tag.
    """
    start, stop, before, after = change.start, change.stop, change.before, change.after
    if start == stop:
        follows = start == len(reading.text) or (start > 0 and not after.endswith(" "))
        place = reading.stops[start - 1] if follows else reading.starts[start]
        return change._replace(start=place, stop=place, after=in_form_of(after, "", source))
    if not _is_whole(reading, start, stop):  # the marks around a word may be parted from it
        first, last = _edges(before, after)
        start, stop, after = start + first, start + last, after[first : len(after) - (len(before) - last)]
        if start >= stop or not _is_whole(reading, start, stop):
            return None
    a, b = reading.starts[start], reading.stops[stop - 1]
    own = source[a:b]
    return None if not own else change._replace(start=a, stop=b, before=own, after=in_form_of(after, own, source))


def _is_whole(reading: Reading, start: int, stop: int) -> bool:
    """Return whether all of the source between two characters was read."""
    return reading.stops[start : stop - 1] == reading.starts[start + 1 : stop]


def _edges(before: str, after: str) -> tuple[int, int]:
    """Return where a text begins and ends to differ from another one, at the borders of words."""
    most = min(len(before), len(after))
    first = next((i for i in range(most) if before[i] != after[i]), most)
    same = next((i for i in range(most - first) if before[-1 - i] != after[-1 - i]), most - first)
    last = len(before) - same
    while first and before[first - 1].isalnum():
        first -= 1
    while last < len(before) and before[last].isalnum():
        last += 1
    return first, last


def _broken(after: str, line_break: LineBreak, offset: int) -> str:
    """Return the new text of a change with its line break put back: at a space or hyphen, or inside a word, if the line
    was broken there.
    """
    end = line_break.text.removeprefix("-")
    gaps = [match.start() for match in _GAP.finditer(after)]
    if gaps:
        gap = min(gaps, key=lambda i: abs(i - offset))
        return after[:gap] + after[gap].strip() + end + after[gap + 1 :]
    if line_break.is_space or len(after) < 2:
        return f"{after}\n"
    cut = min(max(offset, 1), len(after) - 1)
    return f"{after[:cut]}-{end}{after[cut:]}"


_CHUNK = re.compile(r"\S+")
_ADDRESS = re.compile(r"://|@|%[a-z]\b|\w\(|^www\.|\.(?:com|org|net|html?|txt|py)\b|[\\/_#<>={}]")
_LINK = re.compile(r"://|\w@\w|^www\.|\.(?:com|org|net|html?|txt|py)\b|</?(?:s|unk)>")
_LONE = re.compile(r"[^\w\s.,;:!?'\"-]")  # a character that may be a letter, misread
_ENDING = re.compile(r"['’](?:s|ll|re|ve|d|m)", re.IGNORECASE)  # of a word, cut off from it
_ENDS_SENTENCE = re.compile(r"[.!?:][\"'”’)\]]*$")
# A title or an initial, after whose full stop a capital letter does suggest a name.
_BEFORE_NAME = re.compile(r"\W*(?:Mr|Mrs|Ms|Mme|Messrs|Dr|Prof|Rev|Capt|Col|Gen|Lt|Sgt|St|[A-HJ-Z])\.")


class Chunk(NamedTuple):
    """A run of characters without white space. start, stop: in characters of the whole text.

    words: the spans of its words, in `text`. begins_sentence: if so, a capital letter does not suggest a name. kept:
    nothing in it may be changed.
    """

    text: str
    start: int
    words: tuple[tuple[int, int], ...]
    begins_sentence: bool
    kept: bool

    @property
    def stop(self) -> int:
        return self.start + len(self.text)

    def is_name(self, word: int) -> bool:
        """Return whether the word that begins at a character of this chunk has the capital letter of a name."""
        return self.text[word].isupper() and not (self.begins_sentence and word == self.words[0][0])


def chunks_of(text: str, keep: Collection[str] = (), *, is_scanned: bool = False) -> list[Chunk]:
    """Return the chunks of a text. keep: words, in lower case, that are never changed.

    is_scanned: marks may be wrong, too, and digits and signs may be letters.
    """
    shouts = text.upper() == text
    chunks, begins = [], True
    for match in _CHUNK.finditer(text):
        chunk = match.group()
        words = tuple(word.span() for word in WORD.finditer(chunk))
        if is_scanned and _LONE.fullmatch(chunk):
            words = ((0, 1),)
        is_code = (_LINK if is_scanned else _ADDRESS).search(chunk) or _ENDING.fullmatch(chunk)
        kept = [_is_kept(chunk[a:b], keep, shouts=shouts, is_scanned=is_scanned) for a, b in words]
        is_kept = bool(is_code) or (all(kept) and bool(kept or not is_scanned))
        chunks.append(Chunk(chunk, match.start(), words, begins, is_kept))
        begins = bool(_ENDS_SENTENCE.search(chunk)) and not _BEFORE_NAME.fullmatch(chunk)
    return chunks


def _is_kept(word: str, keep: Collection[str], *, shouts: bool, is_scanned: bool) -> bool:
    """Return whether a word is kept: numbers, abbreviations in capitals, inner capitals as in iPhone, the user's own
    words, and runs of letters that are longer than any word.
    """
    if len(word) > LONGEST or word.lower() in keep:
        return True
    if any(character.isdigit() for character in word):
        return not is_scanned or (len(word) > 1 and word.isdigit())
    inner = word[1:]
    return inner != inner.lower() and not shouts and not is_scanned


def in_case_of(word: str, pattern: str, *, begins_sentence: bool) -> str:
    """Return a word in the case of another one: THE for TEH, The for Teh; a name keeps its capital letter."""
    if len(pattern) > 1 and pattern.isupper():
        return word.upper()
    if pattern[:1].isupper() and (begins_sentence or word[:1].islower()):
        return word[:1].upper() + word[1:]
    return word
