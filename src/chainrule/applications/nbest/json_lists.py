"""N-best lists as JSON lines, one list on each line:

    {"id": "utt-1", "hypotheses": [{"text": "a text", "score": -3.1}, {"text": "attacks", "score": -4.0}],
     "reference": "a text", "source": "ein Text"}

A hypothesis has either one `score` or several named `scores`: {"acoustic": -3.1, "language": -9.2}; higher is better.
`id` (by default the number of the line), `reference` and `source` may be left out; other fields are kept for writing.
`priors` may name the scores of a weaker language model, which a given model replaces.
A score of -inf is written as null, which is an error when a list is read.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, BinaryIO

from chainrule.applications.nbest.lists import SCORE, Line, NBestList, finite_score, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chainrule.base.progress import Progress

_JSON = json.JSONDecoder(parse_int=float)  # Python's integers refuse numbers of more than 4300 digits
_WRITTEN = json.JSONEncoder(ensure_ascii=False)


def read_json_lists(name: str, progress: Progress) -> Iterator[NBestList]:
    """Reads the lists of a file. Raises TextError with file and line."""
    for line in lines_of(name, progress):
        if line.text and not line.text.isspace():
            yield _parsed(line)


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
        hypothesis["scores"] = {name: _finite(values[i]) for name, values in scores.items()}
        hypothesis.pop(SCORE, None)  # it is among `scores`
    record["hypotheses"] = [hypotheses[i] for i in order]
    file.write(_WRITTEN.encode(record).encode("utf-8", "surrogatepass") + b"\n")


def _finite(score: float) -> float | None:
    """JSON has no infinities."""
    return float(score) if math.isfinite(score) else None


def _parsed(line: Line) -> NBestList:
    try:
        record: Any = _JSON.decode(line.text)
    except json.JSONDecodeError as error:
        raise line.error(
            f"is not JSON: {error.msg} at column {error.colno}; expected one list of hypotheses a line"
        ) from error
    except RecursionError as error:
        raise line.error("is JSON nested too deeply to be read; expected a list of hypotheses") from error
    if not isinstance(record, dict) or not isinstance(record.get("hypotheses"), list):
        raise line.error('has no list of hypotheses; expected {"hypotheses": [{"text": ..., "score": ...}, ...]}')
    hypotheses = record["hypotheses"]
    if not hypotheses:
        raise line.error("the list has no hypothesis; leave the list out, or give it one, even with an empty text")
    reference, source = (
        None if record.get(name) is None else _text(record[name], line, f"the {name}")
        for name in ("reference", "source")
    )
    texts, rows = [], []
    for i, hypothesis in enumerate(hypotheses, 1):
        if not isinstance(hypothesis, dict) or "text" not in hypothesis:
            raise line.error(f"hypothesis {i} has no text; expected an object with text and score")
        texts.append(_text(hypothesis["text"], line, f"the text of hypothesis {i}"))
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


def _optional_text(record: dict[str, Any], name: str, line: Line) -> str | None:
    return None if record.get(name) is None else _text(record[name], line, f"the {name}")


def _text(value: object, line: Line, what: str) -> str:
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
