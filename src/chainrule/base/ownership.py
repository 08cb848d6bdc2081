"""Ownership of large values: a caller hands one over for good, so that the function that uses it last can free it."""

from __future__ import annotations

from typing import Generic, TypeVar, Union

T = TypeVar("T")


class Owned(Generic[T]):
    """A value handed over for good: the caller keeps no reference, so that the callee can free it with `del`.

    good:  count_ngrams(Owned(encoded_stream(tokenizer, source)), size, 5)
    bad:   count_ngrams(Owned(stream), size, 5); stream.size       # right, but nothing is freed
    """

    def __init__(self, value: T) -> None:
        self._values = [value]

    def take(self) -> T:
        if not self._values:
            raise ValueError("an owned value can be taken once; this one was taken before")
        return self._values.pop()


MaybeOwned = Union[T, Owned[T]]  # noqa: UP007  # an alias with a parameter


def unwrap(value: MaybeOwned[T]) -> T:
    """The value itself, whether it is owned or borrowed from a caller that still uses it."""
    return value.take() if isinstance(value, Owned) else value
