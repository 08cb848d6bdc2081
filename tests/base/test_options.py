"""Options that are declared once: checks, keywords of functions."""

from __future__ import annotations

import inspect
import math
from dataclasses import KW_ONLY, dataclass
from os import PathLike  # noqa: TC003  # the hints of options are read
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_type, overload

import numpy as np
import pytest

from chainrule.base.options import Options, changed, help_of, hints_of, option, own_fields_first, takes
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Search(Options):
    size: int = option(4, "how many", least=1, most=8)
    rate: float | None = option(None, "how often", above=0, below=1)
    weight: float = option(1.0, "how much", least=0)
    words: tuple[str, ...] = option((), "which")
    line: tuple[float, float] = option((1.0, 0.0), "slope and intercept")
    kind: Literal["a", "b"] = option("a", "which kind")


@dataclass(frozen=True, kw_only=True)
class Outer(Options):
    inner: Search | None = option(None, "settings in a group")


@takes(Outer)
def search_all(text: str, options: Outer) -> Outer:
    return options


@dataclass(frozen=True, kw_only=True)
class Call(Search):
    model: Decimal | None = option(None, "only type checkers know its type")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 0}, "size is 0; expected 1 to 8"),
        ({"size": 9}, "size is 9; expected 1 to 8"),
        ({"size": 2.0}, "size is 2.0; expected a whole number"),
        ({"size": True}, "size is True; expected a whole number"),
        ({"rate": 0}, "rate is 0; expected more than 0 and less than 1"),
        ({"rate": 1.0}, "rate is 1.0; expected more than 0"),
        ({"weight": -0.5}, "weight is -0.5; expected 0 or more"),
        ({"weight": math.nan}, "weight is nan; expected a finite number, 0 or more"),
        ({"weight": math.inf}, "weight is inf; expected a finite number"),
        ({"words": "ab"}, "words is 'ab'; expected a tuple"),
        ({"words": (1,)}, "words is"),
        ({"line": (1.0,)}, "line is"),
        ({"kind": "c"}, "kind is 'c'; expected a or b"),
    ],
    ids=str,
)
def test_a_wrong_value_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Search(**given)


def test_lists_and_numbers_of_numpy_are_taken() -> None:
    search = Search(size=np.int64(3), rate=np.float32(0.5), words=["x"])  # type: ignore[arg-type]
    assert search == Search(size=3, rate=0.5, words=("x",))
    assert type(search.size) is int
    assert type(search.rate) is float


def test_a_type_that_is_not_imported_is_not_checked() -> None:
    assert hints_of(Call)["model"] is Any
    assert Call(model=3).model == 3  # type: ignore[arg-type]


def test_the_nearest_class_comes_first() -> None:
    names = [field.name for field in own_fields_first(Call)]
    assert names == ["model", "size", "rate", "weight", "words", "line", "kind"]


@dataclass(frozen=True)
class KindFirst(Call):
    kind: Literal["a", "b"] = changed(Search, "kind")


@takes(KindFirst)
def search(text: str, options: KindFirst) -> tuple[str, KindFirst]:
    """Searches."""
    return text, options


@dataclass(frozen=True)
class Learning(Options):
    text: str | list[float]
    source: str | PathLike[str] = option("here", "from where")
    _: KW_ONLY
    steps: int = option(1, "how many", least=1)


@dataclass(frozen=True)
class OfPath(Learning):
    source: PathLike[str]


@overload
@takes(OfPath)
def learn(options: OfPath) -> bytes: ...
@overload
@takes(Learning)
def learn(options: Learning) -> str: ...


@takes(Learning)
def learn(options: Learning) -> str | bytes:
    """Learns."""
    return str(options.source) if isinstance(options.source, str) else bytes(options.source)


def test_the_keywords_of_a_function_are_the_fields() -> None:
    text, options = search("x", size=8)
    assert (text, options) == ("x", KindFirst(size=8))
    assert search("x", "b")[1] == search("x", kind="b")[1] == KindFirst("b")
    assert search(text="x", size=2)[1].size == 2
    assert search.__doc__ == "Searches."


def test_what_was_named_is_known_even_if_it_is_the_default() -> None:
    assert search("x", size=4)[1].given == {"size": 4}
    assert search("x")[1].given == {}
    assert Call(size=8).given == {"size": 8}


def test_the_signature_shows_the_fields() -> None:
    parameters = inspect.signature(search).parameters
    assert list(parameters)[:2] == ["text", "kind"]
    assert parameters["kind"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert parameters["size"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["size"].default == 4


def test_wrong_calls_name_the_function() -> None:
    with pytest.raises(TypeError, match=r"search\(\) has no option 'sizes'; it has kind, size"):
        search("x", sizes=3)
    with pytest.raises(TypeError, match=r"search_all\(\) has no option 'rate'; .* Give it as inner=Search\(rate=...\)"):
        search_all("x", rate=0.5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"search\(\) takes 2 arguments without names"):
        search("x", "a", 3)
    with pytest.raises(TypeError, match=r"search\(\) got kind twice"):
        search("x", "a", kind="b")
    with pytest.raises(TypeError, match="missing"):
        search()  # type: ignore[call-arg]


def test_fields_without_a_default_are_needed_and_not_checked() -> None:
    assert assert_type(learn("x"), str) == assert_type(learn(text="x", steps=2), str) == "here"
    assert assert_type(learn("x", Path("there")), bytes) == b"there"
    assert assert_type(learn([1.5, math.inf], source=Path("there")), bytes) == b"there"
    with pytest.raises(TypeError, match=r"learn\(\) needs text; none was given"):
        learn()  # type: ignore[call-overload]
    with pytest.raises(SettingError, match="steps is 0; expected 1 or more"):
        learn("x", steps=0)
    with pytest.raises(SettingError, match="source is 3; expected a string or a path"):
        learn("x", 3)  # type: ignore[call-overload]


@dataclass(frozen=True, kw_only=True)
class Wider(Search):
    size: int = changed(Search, "size", 6, help="how many at a time")
    rate: float | None = changed(Search, "rate", below=0.5)


@dataclass(frozen=True, kw_only=True)
class Holder(Options):
    search: Search | None = option(None, "how it is searched")


def test_an_option_of_another_class_is_taken_with_changes() -> None:
    assert Wider().size == 6
    assert help_of(Wider)["size"] == "how many at a time"
    assert help_of(Wider)["rate"] == "how often"
    with pytest.raises(SettingError, match="size is 9; expected 1 to 8"):
        Wider(size=9)
    with pytest.raises(SettingError, match=r"rate is 0\.6; expected more than 0 and less than 0\.5"):
        Wider(rate=0.6)
    assert Search(rate=0.6).rate == 0.6


def test_a_value_may_be_of_a_class_that_inherits() -> None:
    assert Holder(search=Wider()).search == Wider()
    with pytest.raises(SettingError, match="search is 3; expected a Search or nothing"):
        Holder(search=3)  # type: ignore[arg-type]
