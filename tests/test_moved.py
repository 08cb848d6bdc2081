"""Old paths of modules that the guide named, and old public names."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

import pytest

import chainrule
from chainrule._moved import MOVED


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_gives_the_module_that_holds_its_names(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package that it is in, which may have moved, too
        import_module(f"chainrule.{old}".rpartition(".")[0])
    monkeypatch.delitem(sys.modules, f"chainrule.{old}", raising=False)
    with pytest.warns(DeprecationWarning, match=f"is chainrule.{new} now"):
        module = import_module(f"chainrule.{old}")
    assert module is import_module(f"chainrule.{new}")
    if old.startswith("experiments."):
        assert callable(getattr(module, old.removeprefix("experiments.")))


@pytest.mark.parametrize(("old", "new"), vars(chainrule)["_RENAMED"].items())
def test_an_old_name_gives_the_new_class_or_function(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"is chainrule.{new} now"):
        assert getattr(chainrule, old) is getattr(chainrule, new)


def test_other_names_are_still_refused() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"chainrule\.neural\.nothing"):
        import_module("chainrule.neural.nothing")
