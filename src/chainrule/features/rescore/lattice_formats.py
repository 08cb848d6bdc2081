"""The formats of lattices: Kaldi's text archives and HTK's Standard Lattice Format.

Kaldi (`lattice-copy ark:- ark,t:-`): the utterance's id on a line, then arcs and final states, then an empty line.

    0 1 word 3.2,150.1,4_4_7      from, to, word; the costs of graph and sound; an alignment, which is not needed
    0 1 12 7 3.2,150.1            the same with a label of the input before the word; without costs they are 0
    1 0.5,2.1,                    a final state; its costs may be missing, too

Words are texts, or numbers with a table of symbols (words.txt). A lattice begins with the first state of its lines.

SLF (the chapter of that name in the HTK Book): a file for each lattice. `base`, `acscale`, `lmscale`, `wdpenalty` and
`prscale` of the header are taken into account: scores are divided by lmscale, so that the language model's, which has
the weight lmscale there, is log P in nats, and all weights are 1:

    acoustic = (acscale a + prscale r + wdpenalty) / lmscale        language = l

An lmscale of 0 leaves l out, and divides nothing. Words, and a, are those of a link, or else of the node where it ends.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.rescore.lattices import ACOUSTIC, Arc, Unreadable, build_lattice
from chainrule.features.rescore.lists.nbest import finite_score, lines_of
from chainrule.features.rescore.lists.nbest_formats import LANGUAGE, list_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chainrule.features.rescore.lattices import Lattice
    from chainrule.features.rescore.lists.nbest import Line

GRAPH = "graph"
_EPSILON = "<eps>"
_NO_WORDS = {_EPSILON, "<s>", "</s>", "!NULL", "!SENT_START", "!SENT_END", "-pau-"}
_KALDI_BODY = re.compile(r"[0-9]+(\s+[0-9]+\s+\S.*|\s+[^\s,]+,[^\s,]+(,\S*)?)?\s*")
_COSTS = re.compile(r"[^\s,]+,[^\s,]+(,[0-9_]*)?")
_SLF_HEAD = re.compile(
    r"(VERSION|V|UTTERANCE|U|SUBLAT|S|base|start|end|dir|[atp][cmr]?scale|lmname|lmscale|wdpenalty|NODES|N|LINKS|L)\s*=\s*\S"
)
_FIELD = re.compile(r"(\w+)\s*=\s*(?:\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)'|(\S*))\s*")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def looks_like_kaldi_lattices(lines: Sequence[str]) -> bool:
    """Return whether a file that begins with these lines may be an archive of lattices.

    The first ones may be empty: names alone, before a line of a lattice.
    """
    first, *others = lines or [""]
    line = next((line for line in others if len(line.split()) > 1), others[0] if others else "")
    return len(first.split()) == 1 and _KALDI_BODY.fullmatch(line) is not None


def looks_like_slf(lines: Sequence[str]) -> bool:
    """Return whether a file that begins with these lines may be a lattice in SLF."""
    return any(_SLF_HEAD.match(line) for line in lines) and all(
        line.startswith("#") or _SLF_HEAD.match(line) for line in lines
    )


def read_symbols(name: str) -> dict[int, str]:
    """Return a table of symbols: a word and its number on each line. Raises TextError."""
    words: dict[int, str] = {}
    for line in lines_of(name, silent):
        fields = line.text.split()
        if not fields:
            continue
        if len(fields) != 2 or not _is_number(fields[1]):
            raise line.error("expected a word and its number, as in a words.txt of Kaldi")
        if words.setdefault(int(fields[1]), fields[0]) != fields[0]:
            raise line.error(f"the number {fields[1]} has two words; expected one")
    if not words:
        raise TextError(f"{name}: has no symbols; expected a word and its number on each line")
    return words


def read_kaldi_lattices(
    name: str, symbols: Mapping[int, str] | None, progress: Progress
) -> Iterator[Lattice | Unreadable]:
    """Yield the lattices of an archive, one after the other. symbols: the words by number, if they are numbers."""
    head: Line | None = None
    body: list[Line] = []
    for line in lines_of(name, progress):
        if line.text.strip():
            if head is None:
                head, body = line, []
            else:
                body.append(line)
        elif head is not None:
            yield _parsed(head, body, symbols)
            head = None
    if head is not None:
        id = head.text.split()[0]
        last = body[-1] if body else head
        error = f"the lattice of {id} ends without an empty line; was the file cut short? If not, add one"
        yield Unreadable(id, last.error(error))


def _parsed(head: Line, body: Sequence[Line], symbols: Mapping[int, str] | None) -> Lattice | Unreadable:
    id, *rest = head.text.split()
    try:
        if rest:
            raise head.error("expected the id of an utterance alone, before its lattice")
        arcs: list[Arc] = []
        finals: dict[int, tuple[float, ...]] = {}
        for line in body:
            fields = line.text.split()
            costs = fields.pop() if len(fields) > 1 and _COSTS.fullmatch(fields[-1]) else "0,0"
            graph, sound = (-finite_score(cost, line, f"a cost of {id}") for cost in costs.split(",")[:2])
            states = fields[: min(2, len(fields))]
            if len(fields) not in (1, 3, 4) or not all(map(_is_number, states)):
                raise line.error(
                    f"in the lattice of {id}, expected from, to, word and costs, as in 0 1 word 3.2,150.1, or a final "
                    "state and its costs"
                )
            if len(fields) == 1:
                finals[int(fields[0])] = sound, graph
            else:
                word = _word(fields[-1], id, line, symbols)
                arcs.append(Arc(int(fields[0]), int(fields[1]), word, (sound, graph), line))
        if symbols is None and (words := [arc.word for arc in arcs if arc.word]) and all(map(_is_number, words)):
            raise head.error(f"the words of {id} are numbers; name the table of their symbols with symbols='words.txt'")
        start = int(body[0].text.split()[0]) if body else 0
        return build_lattice(id, head, (ACOUSTIC, GRAPH), (GRAPH,), start, arcs, finals)
    except TextError as error:
        return Unreadable(id, error)


def _is_number(text: str) -> bool:
    """Return whether a text is the number of a node, a link or a word."""
    return text.isascii() and text.isdecimal() and len(text) <= 9


def _word(label: str, id: str, line: Line, symbols: Mapping[int, str] | None) -> str:
    """Return the word of a label; "" if it is none. Raises TextError."""
    if symbols is not None:
        if not _is_number(label) or int(label) not in symbols:
            raise line.error(f"in the lattice of {id}, {label} is not a number of the table of symbols")
        label = symbols[int(label)]
    return "" if label in _NO_WORDS or (label.startswith("#") and label[1:].isdecimal()) else label


def read_slf_lattices(name: str, progress: Progress) -> Iterator[Lattice | Unreadable]:
    """Yield the lattice of a file, or those of a folder's files, in the order of their names; ids are names without
    suffixes.

    Raises TextError where a folder has no files, or two with the same id.
    """
    if not Path(name).is_dir():
        yield _slf_file(name, progress)
        return
    paths = sorted(path for path in Path(name).iterdir() if path.is_file() and not path.name.startswith("."))
    names: dict[str, Path] = {}
    for number, path in enumerate(paths, 1):
        lattice = _slf_file(str(path), silent)
        other = names.setdefault(lattice.id, path)
        if other != path:
            raise TextError(f"{path}: has the same id, {lattice.id}, as {other}; keep one of them")
        yield lattice
        progress("reading", number, len(paths))


def _slf_file(name: str, progress: Progress) -> Lattice | Unreadable:
    id = list_id(name)
    try:
        return _slf(id, [line for line in lines_of(name, progress) if line.text.strip()], name)
    except TextError as error:
        return Unreadable(id, error)


class _Slf:
    """The header of a lattice in SLF."""

    def __init__(self, id: str, fields: Mapping[str, tuple[str, Line]]) -> None:
        self.id, self._fields = id, fields
        self.base = self.number("base", math.e)
        if self.base < 0 or self.base == 1:
            line = fields["base"][1]
            raise line.error(f"the base of {id} is {self.base:g}; expected one of logarithms, or 0")
        self.lmscale = self.number("lmscale", 1.0)
        if self.lmscale < 0:
            raise fields["lmscale"][1].error(f"the lmscale of {id} is {self.lmscale:g}; expected 0 or more")
        # HTK converts the scores of arcs by the base and takes the penalty as natural, but writes no other base than e.
        # SRILM, which writes others, converts the penalty, too.
        self.penalty = self.number("wdpenalty", 0.0) * (math.log(self.base) if self.base else 1.0)

    def number(self, key: str, default: float) -> float:
        if key not in self._fields:
            return default
        value, line = self._fields[key]
        return finite_score(value, line, f"{key} of {self.id}")

    def count(self, key: str, name: str = "") -> tuple[int, Line]:
        """Return a whole number, and its line. name: another name of the field. Raises TextError."""
        value, line = self._fields.get(key) or self._fields[name]
        if not _is_number(value):
            raise line.error(f"{key} of {self.id} is {value!r}; expected a whole number")
        return int(value), line

    def scores(self, sound: float, language: float) -> tuple[float, float]:
        """Return the scores in units of the language model's, which a scale of 0 leaves out."""
        return (sound / self.lmscale, language) if self.lmscale else (sound, 0.0)

    def nats(self, value: str, line: Line, key: str) -> float:
        """Return a likelihood as its natural logarithm."""
        score = finite_score(value, line, f"{key} of {self.id}")
        if self.base:
            return score * math.log(self.base)
        if score <= 0:
            raise line.error(f"{key} of {self.id} is {score:g}; with base=0, expected a probability above 0")
        return math.log(score)


_LONG = {
    "NODES": "N",
    "LINKS": "L",
    "WORD": "W",
    "START": "S",
    "END": "E",
    "SUBLAT": "S",
    "time": "t",
    "acoustic": "a",
    "language": "l",
    "ngram": "n",
    "pron": "r",
}


def _slf(id: str, lines: Sequence[Line], name: str) -> Lattice:
    header: dict[str, tuple[str, Line]] = {}
    nodes: dict[int, dict[str, str]] = {}
    links: list[tuple[dict[str, str], Line]] = []
    for line in lines:
        if line.text.lstrip().startswith("#"):
            continue
        fields = _fields(line, id)
        if fields.keys() & {"SUBLAT", "L"} and (fields.keys() & {"I", "SUBLAT"}):
            raise line.error(f"the lattice of {id} has sub-lattices, which are not read; expand them first")
        if "I" in fields:
            nodes[_index(fields, "I", line, id)] = _short(fields)
        elif "J" in fields:
            links.append((_short(fields), line))
        else:
            header |= {key: (value, line) for key, value in fields.items()}
    if not {"N", "NODES"} & header.keys() or not {"L", "LINKS"} & header.keys():
        raise TextError(f"{name}: has no numbers of nodes and links, N=... L=...; expected a lattice in SLF")
    slf = _Slf(id, header)
    for key, long, size, what in (("N", "NODES", len(nodes), "nodes"), ("L", "LINKS", len(links), "links")):
        count, line = slf.count(key, long)
        if size != count and not (what == "nodes" and not nodes):
            raise line.error(f"the lattice of {id} has {size:,} of {count:,} {what}; was the file cut short?")
    arcs = [_link(fields, line, slf, nodes) for fields, line in links]
    targets, sources = {arc.target for arc in arcs}, {arc.source for arc in arcs}
    everything = {*nodes, *targets, *sources}
    count, line = slf.count("N", "NODES")
    if everything and max(everything) >= count:
        raise line.error(f"the lattice of {id} has a node {max(everything)}, but only {count:,} nodes")
    starts = [slf.count("start")[0]] if "start" in header else sorted(everything - targets)
    ends = [slf.count("end")[0]] if "end" in header else sorted(everything - sources)
    if len(starts) != 1:
        raise lines[0].error(f"the lattice of {id} has {len(starts)} nodes to start from; expected one")
    first = _spoken(nodes.get(starts[0], {}).get("W", ""))
    if first:  # a word of the first node is on no link
        before = count
        arcs.insert(0, Arc(before, starts[0], first, slf.scores(slf.penalty, 0.0), lines[0]))
        starts = [before]
    finals = dict.fromkeys(ends, (0.0, 0.0))
    return build_lattice(id, lines[0], (ACOUSTIC, LANGUAGE), (LANGUAGE,), starts[0], arcs, finals)


def _fields(line: Line, id: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    at, text = 0, line.text.strip()
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise line.error(f"in the lattice of {id}, expected fields such as W=word, not {text[at : at + 40]!r}")
        value = next((group for group in match.groups()[1:] if group is not None), "")
        if "\\" in value:
            value = _unescaped(value, line, id)
        fields[match[1]] = value
        at = match.end()
    return fields


def _unescaped(value: str, line: Line, id: str) -> str:
    """Return the value without HTK's escapes: a backslash before a character, or before three octal digits of a
    byte.
    """

    def character(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 8) & 0xFF]) if len(match[1]) == 3 else match[1]

    try:
        return _ESCAPED.sub(character, value.encode()).decode()
    except UnicodeDecodeError:
        raise line.error(f"in the lattice of {id}, the escapes of {value!r} are not UTF-8") from None


def _index(fields: Mapping[str, str], key: str, line: Line, id: str) -> int:
    value = fields.get(key, "")
    if not _is_number(value):
        raise line.error(f"in the lattice of {id}, {key} is {value!r}; expected the number of a node or link")
    return int(value)


def _short(fields: Mapping[str, str]) -> dict[str, str]:
    """Return fields by their short names."""
    return {_LONG.get(key, key): value for key, value in fields.items()}


def _link(fields: dict[str, str], line: Line, slf: _Slf, nodes: Mapping[int, dict[str, str]]) -> Arc:
    source, target = (_index(fields, key, line, slf.id) for key in ("S", "E"))
    node = nodes.get(target, {})  # has the word and its score, if the link has not
    fields = {key: node[key] for key in ("W", "a") if key in node} | fields
    word = _spoken(fields.get("W", ""))
    if word.split() not in ([], [word]):
        raise line.error(f"in the lattice of {slf.id}, the word {word!r} has a space; expected one word on a link")

    def score(*keys: str) -> float:
        return next((slf.nats(fields[key], line, key) for key in keys if key in fields), 0.0)

    sound = slf.number("acscale", 1.0) * score("a") + slf.number("prscale", 1.0) * score("r")
    sound += slf.penalty if word else 0.0
    return Arc(source, target, word, slf.scores(sound, score("l", "n")), line)


def _spoken(word: str) -> str:
    return "" if word in _NO_WORDS else word
