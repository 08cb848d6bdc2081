"""Checks of arguments that several methods take, and of the token ids and prefixes that all models take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray


Example = TypeVar("Example")


def check_type(name: str, value: object, kind: type) -> None:
    """Raises TypeError if an argument is not of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}; expected a {kind.__name__}")


def check_least(name: str, value: float, least: int) -> None:
    """Raises SettingError if a number is too small."""
    if value < least:
        raise SettingError(f"{name} is {value}; expected {least} or more")


def as_texts(texts: Iterable[str]) -> Sequence[str]:
    """The texts as a list. Raises TypeError if it is a single text, or one of them is not a str."""
    if isinstance(texts, str):
        raise TypeError("this takes several texts; put a single one in a list")
    if not isinstance(texts, Iterable):
        raise TypeError(f"this takes several texts, in a list or the like; found {texts!r}")
    texts = list(texts)
    odd = [text for text in texts if not isinstance(text, str)]
    if odd:
        raise TypeError(f"this takes texts, each a str; found {odd[0]!r}")
    return texts


def as_examples(examples: Iterable[Any], kind: type[Example], plural: str, reader: str) -> list[Example]:
    """The examples as a list. plural: what they are called. reader: the function that gives such.

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
    """Raises SettingError if there are not as many prefixes as sequences."""
    if prefixes is not None and len(prefixes) != sequences:
        raise SettingError(f"{len(prefixes)} prefixes for {sequences} sequences; give one for each sequence")


def check_tokens(tokens: Int32[ndarray, " T"], vocabulary_size: int) -> None:
    """Raises SettingError if an id is not an integer, or outside the vocabulary."""
    if tokens.size and tokens.dtype.kind not in "iu":
        raise SettingError(f"tokens are {tokens.dtype.name}; expected the integers that a tokenizer gives")
    if tokens.size and not (tokens.min() >= 0 and tokens.max() < vocabulary_size):
        worst = tokens.min() if tokens.min() < 0 else tokens.max()
        raise SettingError(f"there is no token {worst}: ids run from 0 to {vocabulary_size - 1}")


def as_tokens(sequence: Sequence[int] | Int32[ndarray, " T"]) -> Int32[ndarray, " T"]:
    """A sequence of ids as an array of integers, even if it is empty."""
    array = np.asarray(sequence)
    return array if array.size else array.astype(np.int32)
