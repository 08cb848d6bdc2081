"""What a command printed, and how its JSON is read."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        """The output as one JSON value, read strictly."""
        return strict_json(self.out)

    @property
    def error(self) -> str:
        """The message of a command that failed as it should: nothing on standard output, one line on standard error."""
        assert self.status != 0
        assert self.out == ""
        assert self.err.startswith("chainrule: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("chainrule: ").rstrip("\n")


def strict_json(text: str) -> Any:
    """JSON without the NaN and Infinity that Python's parser would let pass."""

    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refused)
