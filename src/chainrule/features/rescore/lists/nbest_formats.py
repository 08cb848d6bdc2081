"""The formats of n-best lists: JSON lines, Moses, SRILM's three, Kaldi and ESPnet.

JSON lines have one list on each line:

    {"id": "utt-1", "hypotheses": [{"text": "a text", "score": -3.1}, {"text": "attacks", "score": -4.0}],
     "reference": "a text", "source": "ein Text"}

A hypothesis has either one `score` or several named `scores`: {"acoustic": -3.1, "language": -9.2}; higher is better.
`id` (by default the number of the line), `reference` and `source` may be left out; other fields are kept for writing.
`priors` may name the scores of a weaker language model, which a given model replaces.
A score of -inf is written as null, which is an error when a list is read.

Moses: `id ||| text ||| features ||| score`, the lines of one id together. The score is the hypothesis' own. The
features, and the fields after the score, are kept for writing.

SRILM (its manual page nbest-format): a folder with one file for each list. A bytelog is a logarithm to the base 1.0001,
divided by 1024. All are converted to nats.

    NBestList1.0    (score) word word ...                        one score in bytelogs, acoustics and language model
    NBestList2.0    (score) word ( st: 1 et: 2 g: 3 a: 4 ) ...   the same with times and scores of each word
    neither         acoustic language words word word ...        log10, log10, and the number of words

Kaldi and ESPnet: text files of `key words`, and score files of `key number`. An ESPnet folder has folders 1best_recog,
2best_recog, ..., each with `text` and `score` (also written tensor(-3.1)); all keys occur in the first. A Kaldi text
has one hypothesis on each line, with the keys `utterance-1`, `utterance-2`, ..., as nbest-to-linear writes them; its
scores, or costs, are in files of their own with the same keys.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from chainrule.base.progress import Progress, silent
from chainrule.base.results import finite
from chainrule.errors import SettingError, TextError
from chainrule.features.rescore.lists.nbest import SCORE, Line, NBestList, finite_score, lines_of
from chainrule.text.corpus.reading import COMPRESSIONS
from chainrule.text.corpus.records import raise_error
from chainrule.text.numbers import number_of, whole_number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chainrule.text.corpus.records import OnBad

_JSON = json.JSONDecoder(parse_int=float)  # Python's integers refuse numbers of more than 4300 digits
_WRITTEN = json.JSONEncoder(ensure_ascii=False)


def read_json_lists(name: str, progress: Progress, on_bad: OnBad = raise_error) -> Iterator[NBestList]:
    """Reads the lists of a file. on_bad: gets a TextError with file and line for each that is left out."""
    for line in lines_of(name, progress):
        if line.text and not line.text.isspace():
            try:
                nbest = _parsed(line)
            except TextError as error:
                on_bad(error)
            else:
                yield nbest


def write_json_list(
    file: BinaryIO, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]
) -> None:
    """Writes one list. scores: by name, one for each hypothesis. order: of the hypotheses."""
    record: dict[str, Any] = {"id": nbest.id, "hypotheses": [{"text": text} for text in nbest.texts]}
    if nbest.reference is not None:
        record["reference"] = nbest.reference
    if nbest.source is not None:
        record["source"] = nbest.source
    if nbest.line:
        record |= json.loads(nbest.line)
    hypotheses = record["hypotheses"]
    for i, hypothesis in enumerate(hypotheses):
        hypothesis["scores"] = {name: finite(float(values[i])) for name, values in scores.items()}
        hypothesis.pop(SCORE, None)  # it is among `scores`
    record["hypotheses"] = [hypotheses[i] for i in order]
    file.write(_WRITTEN.encode(record).encode("utf-8", "surrogatepass") + b"\n")


def _parsed(line: Line) -> NBestList:
    try:
        record: Any = _JSON.decode(line.text)
    except json.JSONDecodeError as error:
        raise line.error(
            f"is not JSON: {error.msg.removesuffix(' at')} at column {error.colno}; expected one list of "
            "hypotheses a line"
        ) from error
    except RecursionError as error:
        raise line.error("is JSON nested too deeply to be read; expected a list of hypotheses") from error
    if not isinstance(record, dict) or not isinstance(record.get("hypotheses"), list):
        raise line.error('has no list of hypotheses; expected {"hypotheses": [{"text": ..., "score": ...}, ...]}')
    hypotheses = record["hypotheses"]
    if not hypotheses:
        raise line.error("the list has no hypothesis; leave the list out, or give it one, even with an empty text")
    reference, source = (
        None if record.get(name) is None else one_line(record[name], line, f"the {name}")
        for name in ("reference", "source")
    )
    texts, rows = [], []
    for i, hypothesis in enumerate(hypotheses, 1):
        if not isinstance(hypothesis, dict) or "text" not in hypothesis:
            raise line.error(f"hypothesis {i} has no text; expected an object with text and score")
        texts.append(one_line(hypothesis["text"], line, f"the text of hypothesis {i}"))
        rows.append(_scores(hypothesis, line, i))
        if rows[-1].keys() != rows[0].keys():
            missing = sorted(rows[0].keys() ^ rows[-1].keys())[0]
            has, lacks = (1, i) if missing in rows[0] else (i, 1)
            raise line.error(f"hypothesis {lacks} has no score {missing!r}, which hypothesis {has} has; give it to all")
    scores = {name: tuple(row[name] for row in rows) for name in rows[0]}
    priors = _priors(record, line, scores)
    return NBestList(_id(record, line), tuple(texts), scores, line.place, reference, source, priors, line=line.text)


def _priors(record: dict[str, Any], line: Line, scores: Mapping[str, object]) -> tuple[str, ...]:
    names = record.get("priors", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name in scores for name in names):
        raise line.error(f"priors is not a list of score names; expected some of {', '.join(scores)}")
    return tuple(names)


def _id(record: dict[str, Any], line: Line) -> str:
    key = record.get("id", str(line.number))
    if isinstance(key, float) and key.is_integer():
        key = str(int(key))
    if not isinstance(key, str) or not key or any(character.isspace() for character in key):
        raise line.error(f"the id is {key!r}; expected a text without white space, or a whole number")
    return key


def one_line(value: object, line: Line, what: str) -> str:
    """A text without line ends, since the best hypotheses are written one to a line."""
    if not isinstance(value, str):
        raise line.error(f"{what} is not a string")
    if "\n" in value or "\r" in value:
        raise line.error(f"{what} has a line end; expected one line")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise line.error(f"{what} has half of a surrogate pair, which is not a character; correct it")
    return value


def _scores(hypothesis: dict[str, Any], line: Line, i: int) -> dict[str, float]:
    if "scores" not in hypothesis:
        if SCORE not in hypothesis:
            raise line.error(f'hypothesis {i} has no score; expected "score": a number, or "scores": {{name: number}}')
        return {SCORE: finite_score(hypothesis[SCORE], line, f"the score of hypothesis {i}")}
    scores = hypothesis["scores"]
    if not isinstance(scores, dict):
        raise line.error(f"the scores of hypothesis {i} are not an object; expected a number for each name")
    return {name: finite_score(value, line, f"the score {name!r} of hypothesis {i}") for name, value in scores.items()}


_BETWEEN = "|||"


def read_moses_lists(name: str, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of a file. Raises TextError with file and line."""
    seen: set[str] = set()
    fields = (_fields(line) for line in lines_of(name, progress) if line.text.strip())
    for key, group in groupby(fields, lambda pair: pair[1][0]):
        rows = list(group)
        first = rows[0][0]
        if key in seen:
            raise first.error(f"the list {key} occurs again after others; expected all lines of an id together")
        seen.add(key)
        totals = tuple(finite_score(row[3], line, "the score") for line, row in rows)
        kept = tuple(_BETWEEN.join([row[2], *row[4:]]) for _, row in rows)
        yield NBestList(key, tuple(row[1] for _, row in rows), {SCORE: totals}, first.place, kept=kept)


def write_moses_list(
    file: BinaryIO, nbest: NBestList, scores: Mapping[str, Sequence[float]], order: Sequence[int]
) -> None:
    """Writes one list: its old score becomes the feature `score=`, and the last of the scores the new one."""
    *features, total = scores
    for i in order:
        before, *after = nbest.kept[i].split(_BETWEEN) if nbest.kept else [""]
        added = " ".join(f"{name}= {scores[name][i]:.6g}" for name in features)
        fields = [nbest.id, nbest.texts[i], f"{before} {added}".strip(), f"{scores[total][i]:.6g}", *after]
        file.write((f" {_BETWEEN} ".join(fields) + "\n").encode())


def _fields(line: Line) -> tuple[Line, list[str]]:
    fields = [field.strip() for field in line.text.split(_BETWEEN)]
    if len(fields) < 4:
        raise line.error(f"has {len(fields)} of the fields id ||| text ||| features ||| score; expected all four")
    if not fields[0] or any(character.isspace() for character in fields[0]):
        raise line.error(f"the id is {fields[0]!r}; expected a text without white space")
    return line, fields


FIRST, SECOND = "NBestList1.0", "NBestList2.0"
ACOUSTIC, LANGUAGE = "acoustic", "language"
BYTELOG = 1024 * math.log(1.0001)  # nats
_LOG10 = math.log(10)
_SCORED = re.compile(r"\(\s*([^()\s]+)\s*\)(.*)")
_DETAILS = re.compile(r"\([^()]*\)")
_NOT_WORDS = {"<s>", "</s>", "-pau-"}


def read_srilm_folder(name: str, progress: Progress) -> Iterator[NBestList]:
    """The lists in a folder's files, in the order of their names; their ids are the names without suffixes."""
    paths = sorted(path for path in Path(name).iterdir() if path.is_file() and not path.name.startswith("."))
    if not paths:
        raise TextError(f"{name}: the folder has no file; expected one file for each n-best list")
    names: dict[str, Path] = {}
    for i, path in enumerate(paths, 1):
        nbest = read_srilm_list(str(path), silent)
        other = names.setdefault(nbest.id, path)
        if other != path:
            raise TextError(f"{path}: has the same id, {nbest.id}, as {other}; keep one of them")
        yield nbest
        progress("reading", i, len(paths))


def read_srilm_list(name: str, progress: Progress) -> NBestList:
    """The list in a file. Raises TextError with file and line."""
    lines = [line for line in lines_of(name, progress) if line.text.strip()]
    kind = lines[0].text.strip() if lines else ""
    is_bytelog = kind in (FIRST, SECOND)
    lines = lines[is_bytelog:]
    if not lines:
        raise TextError(f"{name}: the list has no hypothesis; remove the file, or give it one")
    rows = [_bytelog_row(line) if is_bytelog else _log10_row(line) for line in lines]
    scores = {score: tuple(row[1][score] for row in rows) for score in rows[0][1]}
    return NBestList(list_id(name), tuple(row[0] for row in rows), scores, name)


def write_srilm_list(
    file: BinaryIO, nbest: NBestList, own: Sequence[float], model: Sequence[float], order: Sequence[int]
) -> None:
    """Writes a list in the third format. own: acoustic scores, or the lists' only ones; model: log P; both in nats."""
    for i in order:
        words = nbest.texts[i].split()
        scores = f"{own[i] / _LOG10:.6g} {model[i] / _LOG10:.6g}"
        file.write((" ".join([scores, str(len(words)), *words]) + "\n").encode())


def looks_like_srilm(line: str) -> bool:
    """Whether a file that begins with this line may be such a list."""
    fields = line.split()
    if fields[:1] in ([FIRST], [SECOND]):
        return True
    try:
        return (
            len(fields) >= 3
            and whole_number_of(fields[2]) == len(fields) - 3
            and math.isfinite(number_of(fields[0]) + number_of(fields[1]))
        )
    except ValueError:
        return False


def _bytelog_row(line: Line) -> tuple[str, dict[str, float]]:
    match = _SCORED.fullmatch(line.text.strip())
    if match is None:
        raise line.error("expected (score) and words, as in (-4213) so it goes")
    score = BYTELOG * finite_score(match[1], line, "the score")
    return _words(_DETAILS.sub(" ", match[2]).split()), {SCORE: score}


def _log10_row(line: Line) -> tuple[str, dict[str, float]]:
    fields = line.text.split()
    if len(fields) < 3:
        raise line.error("expected an acoustic score, a language model's score, the number of words, and the words")
    acoustic = finite_score(fields[0], line, "the acoustic score")
    language = finite_score(fields[1], line, "the language model's score")
    if not fields[2].isdecimal():
        raise line.error(f"the number of words is {fields[2]!r}; expected a whole number")
    return _words(fields[3:]), {ACOUSTIC: _LOG10 * acoustic, LANGUAGE: _LOG10 * language}


def _words(words: list[str]) -> str:
    return " ".join(word for word in words if word not in _NOT_WORDS)


def list_id(name: str) -> str:
    """The id of the list or lattice in a file: its name without suffixes."""
    path = Path(name)
    while path.suffix in (*COMPRESSIONS, ".nbest", ".score", ".lat", ".slf", ".txt"):
        path = path.with_suffix("")
    return path.name


_NAME = re.compile(r"\w+")
_NUMBERED = re.compile(r"(.+)-([0-9]+)")
_BEST = re.compile(r"([0-9]+)best_recog")
_TENSOR = re.compile(r"tensor\((.+)\)")


@dataclass(frozen=True)
class ScoreFiles:
    """The score files of a Kaldi text, or columns of a table, by the name of the score; lower costs are better."""

    scores: Mapping[str, str]
    costs: Mapping[str, str]

    def __post_init__(self) -> None:
        """Raises SettingError if a name cannot be the name of a file."""
        for name in (*self.scores, *self.costs):
            if not _NAME.fullmatch(name) or name == "text":
                raise SettingError(f"a score cannot be named {name!r}; expected letters and digits, such as acoustic")
        if both := sorted(self.scores.keys() & self.costs.keys()):
            raise SettingError(f"{both[0]} is given both as a score and as a cost; give it once")


def read_kaldi_lists(name: str, files: ScoreFiles, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of a text and its score files. Raises TextError with file and line."""
    if not files.scores and not files.costs:
        raise TextError(f"{name}: has no scores; give the files that hold them as scores or costs")
    signs = [*((score, 1.0) for score in files.scores), *((cost, -1.0) for cost in files.costs)]
    others = [_keyed(path, silent) for path in (*files.scores.values(), *files.costs.values())]
    names = [name, *files.scores.values(), *files.costs.values()]
    rows = (_checked(row, names) for row in zip_longest(_keyed(name, progress), *others))
    seen: set[str] = set()
    for utterance, group in groupby(rows, lambda row: _utterance(row[0])):
        hypotheses = list(group)
        first = hypotheses[0][0]
        if utterance in seen:
            raise first.line.error(f"{utterance} occurs again after others; expected its hypotheses together")
        seen.add(utterance)
        scores = {
            score: tuple(sign * _score(row[i], score) for row in hypotheses) for i, (score, sign) in enumerate(signs, 1)
        }
        yield NBestList(utterance, tuple(row[0].rest for row in hypotheses), scores, first.line.place)


def espnet_folders(name: str) -> list[Path]:
    """The folders of hypotheses in an ESPnet folder, the best first; none if it is not an ESPnet folder."""
    ranked = [(int(match[1]), path) for path in Path(name).iterdir() if (match := _BEST.fullmatch(path.name))]
    return [path for _, path in sorted(ranked)]


def read_espnet_lists(name: str, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of an ESPnet folder, which may differ in length. Raises TextError with file and line."""
    readers: list[_Ahead] = []
    for folder in espnet_folders(name):
        names = [str(folder / "text"), str(folder / "score")]
        own_progress = silent if readers else progress
        rows = zip_longest(_keyed(names[0], own_progress), _keyed(names[1], silent))
        readers.append(_Ahead(_checked(row, names) for row in rows))
    for best in readers[0].rest():
        text = best[0]
        rows_of_one = [best, *(row for reader in readers[1:] if (row := reader.next_if(text.key)) is not None)]
        scores = tuple(_score(row[1], SCORE) for row in rows_of_one)
        yield NBestList(text.key, tuple(row[0].rest for row in rows_of_one), {SCORE: scores}, text.line.place)
    for reader in readers[1:]:
        if reader.row is not None:
            text = reader.row[0]
            raise text.line.error(
                f"{text.key} is not in {name}/1best_recog/text, or not in this order; expected the same order"
            )


@dataclass(frozen=True)
class _Keyed:
    key: str
    rest: str
    line: Line


class _Ahead:
    """An iterator over rows that shows the next one."""

    def __init__(self, rows: Iterator[tuple[_Keyed, ...]]) -> None:
        self._rows = rows
        self.row = next(rows, None)

    def next_if(self, key: str) -> tuple[_Keyed, ...] | None:
        """Consumes the next row if it has this key."""
        row = self.row
        if row is None or row[0].key != key:
            return None
        self.row = next(self._rows, None)
        return row

    def rest(self) -> Iterator[tuple[_Keyed, ...]]:
        while self.row is not None:
            row, self.row = self.row, next(self._rows, None)
            yield row


def _keyed(name: str, progress: Progress) -> Iterator[_Keyed]:
    for line in lines_of(name, progress):
        if line.text.strip():
            key, *rest = line.text.split(maxsplit=1)
            yield _Keyed(key, rest[0].rstrip() if rest else "", line)


def _checked(row: Sequence[_Keyed | None], names: Sequence[str]) -> tuple[_Keyed, ...]:
    """A line of each file; they must have the same key. Raises TextError."""
    present = [entry for entry in row if entry is not None]
    first = present[0]
    for entry, name in zip(row, names, strict=True):
        if entry is None:
            raise TextError(f"{name}: ends before {first.key}, which {first.line.place} has")
        if entry.key != first.key:
            raise entry.line.error(f"the key is {entry.key}, but {first.line.place} has {first.key}; keys must agree")
    return tuple(present)


def _utterance(text: _Keyed) -> str:
    match = _NUMBERED.fullmatch(text.key)
    if match is None:
        raise text.line.error(f"the key is {text.key}; expected an utterance and the number of a hypothesis: utt1-1")
    return match[1]


def _score(score: _Keyed, name: str) -> float:
    match = _TENSOR.fullmatch(score.rest)
    return finite_score(match[1] if match else score.rest, score.line, f"the {name} of {score.key}")
