"""The fields of what `--json` prints, for every verb that has it: their names, and the kinds of their values."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from verb_examples import ending_at_once, examples, write_files

import chainrule
from chainrule.cli.main import app, run

if TYPE_CHECKING:
    from collections.abc import Callable

# What the examples do not show: verbs that print other fields for models of other kinds.
_MORE = (
    ("evaluate", "evaluate mt/ --pairs train.tsv"),
    ("evaluate", "evaluate labels/ labelled.tsv"),
    ("evaluate", "evaluate speech/ spoken/train.tsv"),
    ("score", "score lm/ heldout.txt"),
    ("score", "score lm/ heldout.txt --tokens"),
    ("info", "info transformer/"),
    ("info", "info words/"),
    ("verify", "verify transformer/"),
)


def json_fields(tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """By command: what it prints with `--json`, a value's kind in place of the value, and a list's elements as one."""
    chainrule.set_threads(1)
    torch.set_num_threads(1)
    before = Path.cwd()
    recorded: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ending_at_once():
        write_files(Path(folder))
        os.chdir(folder)
        try:
            for verb, arguments in [*examples(), *((verb, shlex.split(words)) for verb, words in _MORE)]:
                if "--json" not in _options(verb):
                    _printed(arguments)  # others read what it writes
                    continue
                asked = [word for word in arguments if word != "--diff"]  # another way of showing the same
                recorded[shlex.join([*asked, "--json"])] = _fields(_printed([*asked, "--json"]))
        finally:
            os.chdir(before)
    tell(f"{len(recorded)} commands print JSON")
    return recorded


def _options(verb: str) -> set[str]:
    command = app
    for name in verb.split():
        command = command[name]
    return {name for argument in command.assemble_argument_collection() for name in argument.names}


def _printed(arguments: list[str]) -> str:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"I visited S\n")))  # type: ignore[arg-type]
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with patch.object(sys, "stdin", stdin), redirect_stdout(out), redirect_stderr(errors):
        status = run(arguments)
    assert status == 0, f"{shlex.join(arguments)}\n{errors.buffer.getvalue().decode()}"  # type: ignore[attr-defined]
    return out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _fields(printed: str) -> Any:
    """Of one JSON text, or of one on each line."""
    try:
        return kind_of(json.loads(printed))
    except ValueError:
        return {"each line": kind_of([json.loads(line) for line in printed.splitlines() if line.strip()])}


def kind_of(value: Any) -> Any:
    """The kinds of the values in a JSON value, in its form."""
    if isinstance(value, dict):
        return {key: kind_of(each) for key, each in value.items()}
    if isinstance(value, list):
        # Without the kinds of values in it: some lists are empty on one machine only.
        rows = [kind_of(each) for each in value if isinstance(each, dict)]
        return [{key: kind for row in reversed(rows) for key, kind in row.items()}] if rows else "list"
    if value is None:
        return "null"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
