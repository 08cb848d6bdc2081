"""Checks of arguments that several methods take, and of the token ids and prefixes that all models take."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from chainrule.base.files import FolderPath
from chainrule.errors import SettingError, TextError
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray


Example = TypeVar("Example")


def check_type(name: str, value: object, kind: type) -> None:
    """Raise TypeError if an argument is not of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}; expected a {kind.__name__}")


def check_least(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise SettingError if an argument is not a whole number, or outside its bounds."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole and value >= least and (most is None or value <= most):  # type: ignore[operator]
        return
    shown = f"{value:,}" if is_whole else repr(value)
    bounds = f"{least} or more" if most is None else f"{least} to {most:,}"
    raise SettingError(f"{name} is {shown}; expected {'' if is_whole else 'a whole number, '}{bounds}")


def as_path(path: object, name: str = "path") -> Path:
    """Return a path. Raises TypeError if it is none, SettingError if no file can have it."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} is {path!r}; expected a path, such as 'lm/' or a pathlib.Path")
    shown = os.fspath(path)
    if not shown:
        raise SettingError(f"{name} is empty; expected that of a file or folder, such as . for this folder")
    if "\0" in shown:
        raise SettingError(f"{name} is {shown!r}, with a NUL character, which no file's name has")
    try:
        os.lstat(shown)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise SettingError(f"{name} is {shown[:40]!r}..., which is longer than names of files may be") from None
    return FolderPath(shown) if shown.endswith(("/", os.sep)) or isinstance(path, FolderPath) else Path(path)


def as_paths(paths: object) -> list[str]:
    """Return one path, or several, as a list. Raises TypeError if it is neither."""
    if isinstance(paths, str | os.PathLike):
        return [os.fspath(paths)]
    if isinstance(paths, Iterable):
        paths = list(paths)
        if all(isinstance(path, str | os.PathLike) for path in paths):
            return list(map(os.fspath, paths))
    raise TypeError(f"this takes the path of a text, or several in a list; found {paths!r}")


def as_list(name: str, values: Iterable[Example]) -> list[Example]:
    """Return several values as a list. Raises TypeError if it is one text or path, or nothing that has values."""
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; expected several, in a list, as functions that read files give them")
    return list(values)


def as_texts(texts: Iterable[str]) -> Sequence[str]:
    """Return the texts as a list. Raises TypeError if it is a single text, or one of them is not a str."""
    if isinstance(texts, str):
        raise TypeError("this takes several texts; put a single one in a list")
    if not isinstance(texts, Iterable):
        raise TypeError(f"this takes several texts, in a list or the like; found {texts!r}")
    texts = list(texts)
    odd = [text for text in texts if not isinstance(text, str)]
    if odd:
        raise TypeError(f"this takes texts, each a str; found {odd[0]!r}")
    return texts


def as_instances(values: Iterable[Any], kind: type[Example], plural: str) -> list[Example]:
    """Return the values as a list. plural: what they are called. Raises TypeError if one is not of a class."""
    values = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    odd = next((value for value in values if not isinstance(value, kind)), None)
    if odd is not None:
        raise TypeError(f"this takes {plural}, each a {kind.__name__}, in a list; found {odd!r}")
    return values


def check_text_pairs(name: str, pairs: Iterable[Any], shown: str) -> list[tuple[str, str]]:
    """Return text pairs as a list. shown: an example of one, for messages. Raises TypeError."""
    pairs = as_list(name, pairs)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise TypeError(f"{name} have {pair!r}; expected two texts each, such as {shown}")
    return pairs


def as_examples(examples: Iterable[Any], kind: type[Example], plural: str, reader: str) -> list[Example]:
    """Return the examples as a list. plural: what they are called. reader: the function that gives such.

    Raises TypeError if one is not of a class; TextError if there are none.
    """
    examples = list(examples)
    odd = next((example for example in examples if not isinstance(example, kind)), None)
    if odd is not None:
        raise TypeError(f"this takes {plural}, as {reader} gives them; found {odd!r}")
    if not examples:
        raise TextError(f"there are no {plural}; at least one is needed")
    return examples


def check_prefixes(sequences: int, prefixes: Sequence[Int32[ndarray, " prefix"]] | None) -> None:
    """Raise SettingError if there are not as many prefixes as sequences."""
    if prefixes is not None and len(prefixes) != sequences:
        raise SettingError(f"{len(prefixes)} prefixes for {sequences} sequences; give one for each sequence")


def check_tokens(tokens: Int32[ndarray, " T"], vocabulary_size: int) -> None:
    """Raise SettingError if an id is not an integer, or outside the vocabulary."""
    if tokens.size and tokens.dtype.kind not in "iu":
        raise SettingError(f"tokens are {tokens.dtype.name}; expected the integers that a tokenizer gives")
    if tokens.size and not (tokens.min() >= 0 and tokens.max() < vocabulary_size):
        worst = tokens.min() if tokens.min() < 0 else tokens.max()
        raise SettingError(f"there is no token {worst}: ids run from 0 to {vocabulary_size - 1}")


def as_tokens(sequence: Sequence[int] | Int32[ndarray, " T"]) -> Int32[ndarray, " T"]:
    """Return a sequence of ids as an array of integers, even if it is empty."""
    array = np.asarray(sequence)
    return array if array.size else array.astype(np.int32)


def check_rows(tokens: Sequence[int] | Int32[ndarray, " rows"], rows: int) -> None:
    """Raise SettingError if there is not one token for each row of a state."""
    if len(tokens) != rows:
        raise SettingError(f"{len(tokens)} tokens for {rows} rows; give one for each row")


def after_prefixes(
    sequences: Sequence[Int32[ndarray, " T"]],
    prefixes: Sequence[Int32[ndarray, " prefix"]] | None,
    vocabulary_size: int,
    *,
    end: bool,
) -> list[tuple[Int32[ndarray, " text"], slice]]:
    """Return each sequence after its prefix, with </s> if `end`, and the slice that leaves the prefix out.

    Raises SettingError.
    """
    check_prefixes(len(sequences), prefixes)
    texts = []
    for i, sequence in enumerate(sequences):
        before = as_tokens([] if prefixes is None else prefixes[i])
        text = np.concatenate([before, as_tokens(sequence), np.full(int(end), END, np.int32)])
        check_tokens(text, vocabulary_size)
        texts.append((text, slice(len(before), None)))
    return texts


def in_one_stream(
    sequences: Sequence[Int32[ndarray, " T"]], prefixes: Sequence[Int32[ndarray, " prefix"]] | None, *, end: bool
) -> tuple[Int32[ndarray, " stream"], list[slice]]:
    """Return all sequences in one stream, each after its prefix and ended by </s>; and the slice of each one's
    scores.
    """
    check_prefixes(len(sequences), prefixes)
    sequences = [as_tokens(sequence) for sequence in sequences]
    prefixes = prefixes and [as_tokens(prefix) for prefix in prefixes]
    parts: list[Int32[ndarray, " T"]] = []
    document_end = np.array([END], np.int32)
    for i, sequence in enumerate(sequences):
        parts += [sequence, document_end] if prefixes is None else [prefixes[i], sequence, document_end]
    stream = np.concatenate(parts) if parts else np.empty(0, np.int32)
    sizes = np.fromiter(map(len, sequences), np.int64, len(sequences))
    before = np.zeros_like(sizes) if prefixes is None else np.fromiter(map(len, prefixes), np.int64, len(prefixes))
    ends = np.cumsum(before + sizes + 1)  # after the </s> of each sequence
    starts, stops = (ends - 1 - sizes).tolist(), (ends if end else ends - 1).tolist()
    return stream, [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
