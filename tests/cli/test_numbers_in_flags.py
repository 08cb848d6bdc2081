"""Numbers of flags are written as everywhere else: 1_0 is not 10, and 5.5 is no whole number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from verb_options import VERBS

from chainrule.cli.main import app
from chainrule.cli.shared.options import Number, WholeNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def types_in(hint: Any) -> Iterator[Any]:
    """The types of a hint such as tuple[float, ...] | None."""
    yield hint
    for part in get_args(hint):
        yield from types_in(part)


def test_every_number_of_every_verb_has_our_reader() -> None:
    numbers = 0
    for verb in VERBS:
        command = app
        for part in verb.split():
            command = command[part]
        for argument in command.assemble_argument_collection(parse_docstring=False):
            types = set(types_in(argument.hint))
            if float in types or int in types:
                expected = Number if float in types else WholeNumber
                assert argument.parameter.converter is expected.converter, (verb, argument.name)
                numbers += 1
    assert numbers > 850


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("prune", "lm", "-o", "new", "--entropy", "1_0e-8"), "--entropy takes numbers, not 1_0e-8."),
        (("prune", "lm", "-o", "new", "--to-ngrams", "1_000"), "--to-ngrams takes whole numbers, not 1_000."),
        (("train", "recurrent", "a.txt", "-o", "new", "--dropout", "0_0.1"), "--dropout takes numbers, not 0_0.1."),
        (("train", "recurrent", "a.txt", "-o", "new", "--width", "1_28"), "--width takes whole numbers, not 1_28."),
        (("mix", "lm", "lm", "-o", "new", "--weights", "0.5", "0_0.5"), "--weights takes numbers, not 0_0.5."),
        (("filter", "a.txt", "--model", "lm", "--keep", "0_0.5", "-o", "b"), "--keep takes numbers, not 0_0.5."),
        (("split", "a.txt", "--into", "b.txt=0_0.5"), "a share is '0_0.5'"),
        (("rescore", "lm", "a.jsonl", "--weight", "lm=1_0"), "The weight of lm is 1_0; expected a number."),
        (("pixels", "a.txt", "-o", "b", "--size", "5.5"), "--size takes whole numbers, not 5.5"),
        (("generate", "lm", "a", "--temperature", "1_0"), "--temperature takes numbers, not 1_0."),
        (("generate", "lm", "a", "--temperature", "x"), "--temperature"),
    ],
)
def test_underscores_are_refused(
    chainrule: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a\n" * 9)
    assert message in chainrule(*command).error
