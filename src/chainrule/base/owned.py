"""Large values that each function passes on to the next for good, so that the last one frees their memory early."""

from __future__ import annotations

from typing import Generic, TypeVar, Union

T = TypeVar("T")


class Owned(Generic[T]):
    """A value that whoever passes it on keeps no reference to, so that the one who takes it can free it with `del`.

    good:  count_ngrams(Owned(encoded_stream(tokenizer, source)), size, 5)
    bad:   count_ngrams(Owned(stream), size, 5); stream.size       # right, but nothing is freed
    """

    def __init__(self, value: T) -> None:
        self._values = [value]

    def take(self) -> T:
        """The value. Raises ValueError the second time: it has gone to another owner."""
        if not self._values:
            raise ValueError("an owned value can be taken once; this one was taken before")
        return self._values.pop()


MaybeOwned = Union[T, Owned[T]]  # noqa: UP007  # an alias with a parameter


def taken(value: MaybeOwned[T]) -> T:
    """The value itself, whether it is owned or borrowed from a caller who goes on using it."""
    return value.take() if isinstance(value, Owned) else value
