"""What commands printed, here or in a process of their own, and how their JSON is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


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


# Runs commands in a row and prints what each gave, as JSON: they share the seconds that importing takes.
_SEVERAL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from chainrule.cli.main import run
results = []
for command in json.load(sys.stdin):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = run(command)
    results.append((status, *(screen.buffer.getvalue().decode() for screen in (out, err))))
print(json.dumps(results))
"""


def run_elsewhere(commands: Sequence[Sequence[object]], folder: Path, packages: Path) -> list[Result]:
    """Run commands in a process of their own, one after the other.

    folder: where they run. packages: a folder from which packages are imported before others.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), *sys.path])}
    asked = json.dumps([[str(argument) for argument in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", _SEVERAL],
        input=asked,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Result(*result) for result in json.loads(done.stdout)]
