"""Matrices of CTC's outputs: reads them from files, checks them, and makes log-probabilities of them."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.base.files import read_text
from chainrule.errors import SettingError, TextError
from chainrule.features.speech.search.config import LEAST_PROB
from chainrule.text.corpus.plain_text import line_blocks
from chainrule.text.corpus.streams import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float64, Shaped
    from numpy import ndarray

Kind = Literal["probabilities", "log-probabilities", "logits"]
_ROUNDING = 1e-3  # by which a row's sum may differ from one


@dataclass(frozen=True)
class Utterance:
    """What a network heard: a row for each frame, a column for each label. place: for messages."""

    id: str
    outputs: Shaped[ndarray, "T labels"]
    place: str
    labels: tuple[str, ...] | None = None
    reference: str | None = None


def check_outputs(outputs: object, labels: int) -> Float64[ndarray, "T labels"]:
    """Return outputs as numbers.

    Raises SettingError unless they are a matrix of finite ones, with a column for each label.

    -inf is probability 0, as long as each frame has another.
    """
    try:
        matrix = np.asarray(outputs)
        if matrix.dtype.kind == "c":
            raise TypeError("they are complex")
        matrix = matrix if matrix.dtype.kind in "fiu" else np.asarray(outputs, np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(f"these are no numbers in rows of the same length ({error}); expected a matrix") from None
    if matrix.ndim != 2:
        raise SettingError(f"the outputs have {matrix.ndim} dimensions; expected 2: frames and labels")
    if matrix.shape[1] != labels:
        raise SettingError(
            f"the outputs have {matrix.shape[1]} columns, and there are {labels} labels, the blank included; "
            "expected a column for each"
        )
    matrix = matrix.astype(np.float64)
    if np.isfinite(matrix).all():
        return matrix
    odd = np.isnan(matrix) | (matrix == np.inf)
    odd[np.isneginf(matrix).all(axis=1)] = True
    if odd.any():
        frame, column = np.argwhere(odd)[0].tolist()
        raise SettingError(f"frame {frame} has {matrix[frame, column]} in column {column}; expected finite numbers")
    return matrix


def kind_of(matrix: Float64[ndarray, "T labels"]) -> Kind:
    """Return the kind of outputs, by their values: rows that sum to one, whose exponentials do, or neither."""
    if not len(matrix):
        return "log-probabilities"
    if matrix.min() >= 0 and np.abs(matrix.sum(axis=1) - 1).max() < _ROUNDING:
        return "probabilities"
    if matrix.max() <= _ROUNDING and np.abs(np.exp(matrix).sum(axis=1) - 1).max() < _ROUNDING:
        return "log-probabilities"
    return "logits"


def check_meaning(matrix: Float64[ndarray, "T labels"], kind: Kind) -> None:
    """Raise SettingError for costs, and probabilities whose rows do not sum to one: as logits, they mean nothing."""
    if kind != "logits" or matrix.min() < 0:
        return
    if np.abs(np.exp(-matrix).sum(axis=1) - 1).max() < _ROUNDING:
        raise SettingError("these are costs, negative logarithms of probabilities; give the negative of them")
    if 0 < matrix.max() <= 1:
        raise SettingError(
            "all numbers are from 0 to 1, and rows do not sum to one; expected probabilities whose rows do, "
            "log-probabilities or logits"
        )


def as_log_probs(matrix: Float64[ndarray, "T labels"], kind: Kind) -> Float64[ndarray, "T labels"]:
    """Return log-probabilities, none below that of `LEAST_PROB`."""
    if kind == "probabilities":
        return np.log(np.clip(matrix, LEAST_PROB, 1))
    shifted = matrix - matrix.max(axis=1, keepdims=True, initial=-np.inf)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.clip(log_probs, math.log(LEAST_PROB), 0)


def read_utterances(path: str) -> Iterator[Utterance | TextError]:
    """Yield the matrices of a file: .npy, of one or, with three dimensions, several; .npz, by name; or JSON lines.

    A line is a matrix, or an object with logits and perhaps id, labels and reference. What is wrong with one line is
    given in its place. Raises TextError if the file cannot be read.
    """
    suffix = Path(path).suffix
    if suffix not in (".npy", ".npz"):
        yield from _json_utterances(path)
        return
    try:
        with open(path, "rb") as file:  # which NumPy would leave open where it is no archive
            yield from _arrays(np.load(file, allow_pickle=False), path)
    except FileNotFoundError:
        raise TextError(f"{path}: there is no such file; expected matrices: .npy, .npz or JSON lines") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = "its arrays are Python objects" if "pickle" in str(error) else error
        raise TextError(
            f"{path}: is no file of NumPy's that can be read ({reason}); write it with numpy.save"
        ) from None


def _arrays(loaded: Any, path: str) -> Iterator[Utterance]:
    """Yield the matrices that NumPy has read: an archive, a stack or one."""
    if isinstance(loaded, np.lib.npyio.NpzFile):
        labels = None
        if "labels" in loaded.files:
            labels = tuple(str(label) for label in loaded["labels"])
        for name in loaded.files:
            if name != "labels":
                yield Utterance(name, loaded[name], f"{path}, {name}", labels)
    elif loaded.ndim == 3:
        for i, matrix in enumerate(loaded, 1):
            yield Utterance(str(i), matrix, f"{path}, matrix {i}")
    else:
        yield Utterance("1", loaded, path)


def _json_utterances(path: str) -> Iterator[Utterance | TextError]:
    with open_stream(path) as stream:
        for block in line_blocks(stream, "strict", wait=False):
            for number, text in enumerate(block.documents(), block.first):
                if text.strip():
                    yield _parsed(text, f"{path}, line {number}", number)


def _parsed(text: str, place: str, number: int) -> Utterance | TextError:
    try:
        record: Any = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        return TextError(f"{place}: is not JSON ({error}); expected a matrix, or an object with logits, on each line")
    if isinstance(record, list):
        record = {"logits": record}
    if not isinstance(record, dict) or "logits" not in record:
        return TextError(f'{place}: has no logits; expected a matrix, or {{"id": "1", "logits": [[-0.1, -2.3]]}}')
    labels, reference = record.get("labels"), record.get("reference")
    if labels is not None and not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
        return TextError(f"{place}: the labels are no list of strings")
    if reference is not None and not isinstance(reference, str):
        return TextError(f"{place}: the reference is no string")
    try:
        outputs = np.asarray(record["logits"], np.float64)
    except (TypeError, ValueError):
        return TextError(f"{place}: the logits are no numbers in rows of the same length; expected a matrix")
    id = record.get("id", number)
    return Utterance(str(id), outputs, place, None if labels is None else tuple(labels), reference)


def read_labels(path: Path) -> list[str]:
    """Return labels from a file: a JSON list, an object of labels and their columns, or a text with a label on each
    line.

    Raises TextError.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise TextError(f"{path}: cannot be read ({error}); expected the labels, one on each line, or JSON") from None
    if not text.lstrip().startswith(("[", "{")):
        return text.removesuffix("\n").split("\n")
    try:
        record: Any = json.loads(text)
    except json.JSONDecodeError:
        return text.removesuffix("\n").split("\n")  # [PAD] on the first line
    if isinstance(record, dict) and all(type(column) is int for column in record.values()):
        if sorted(record.values()) != list(range(len(record))):
            raise TextError(f"{path}: the columns of labels are not 0, 1 and so on; expected each once")
        return sorted(record, key=record.__getitem__)
    if isinstance(record, list) and all(isinstance(label, str) for label in record):
        return record
    raise TextError(f"{path}: expected a JSON list of labels, or an object of labels and their columns")
