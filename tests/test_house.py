"""The quick ones of the checks that `make house` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import house

if TYPE_CHECKING:
    from pathlib import Path


def test_no_module_of_the_core_imports_a_feature() -> None:
    assert house.imports_of_features() == []


def test_a_verb_imports_what_its_model_needs(tmp_path: Path) -> None:
    assert house.of_next(tmp_path) <= house.LIMITS["modules that next of an n-gram model imports"]


def test_an_opened_checkpoint_imports_what_it_needs(tmp_path: Path) -> None:
    found = house.of_gguf(tmp_path, sees_runs=False)
    name = "modules that load of a GGUF file imports"
    assert found[name] <= house.LIMITS[name]


def test_lines_are_counted_by_room() -> None:
    rooms = house.lines_by_room()
    totals = house.totals()
    assert sum(lines for _, lines in rooms.values()) == totals["lines, all"]
    assert totals["lines, core"] > totals["lines, cli"] > 0
    assert {"neural", "ngram", "features/open"} <= rooms.keys()
