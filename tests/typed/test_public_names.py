"""What type checkers know of the public names, which are imported on first use: mypy checks the assertions here."""

from __future__ import annotations

from typing import assert_type

import pytest

import chainrule


def test_a_public_name_has_its_type() -> None:
    assert assert_type(chainrule.NGramConfig(order=2), chainrule.NGramConfig).order == 2
    assert assert_type(chainrule.__version__, str)


def test_a_misspelt_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        chainrule.trian  # type: ignore[attr-defined]  # noqa: B018
