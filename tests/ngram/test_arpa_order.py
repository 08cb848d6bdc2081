"""ARPA files whose lines are in suffix order, as lmplz writes them, or in any other: the table is the same."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule.errors import ModelFormatError
from chainrule.ngram.arpa import lines as arpa_source
from chainrule.ngram.arpa.read import read_arpa
from chainrule.ngram.arpa.suffix_order import SuffixOrder

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parent.parent / "fixtures"
LMPLZ = ["order2-fallback.arpa.gz", "order3.arpa.gz", "order4-pruned-0-1-1-2.arpa.gz", "order5-fallback.arpa.gz"]

Lines = list[str]


def sections(name: str) -> list[Lines]:
    """What stands before the n-grams, and the lines of each order."""
    head, *orders = gzip.decompress((FIXTURES / name).read_bytes()).decode().split("-grams:\n")
    return [head.splitlines(), *(order.split("\n\n")[0].splitlines() for order in orders)]


def arrays(path: Path) -> dict[str, np.ndarray]:
    return read_arpa(path)[0].arrays()


def with_lines(folder: Path, name: str, change: Callable[[int, Lines], Lines]) -> Path:
    """The file with the lines of each order above the first changed."""
    head, *orders = sections(name)
    parts = ["\n".join(head[:-1])]
    for order, lines in enumerate(orders, start=1):
        parts.append("\n".join([f"\\{order}-grams:", *(lines if order == 1 else change(order, lines))]))
    path = folder / f"changed-{name.removesuffix('.gz')}"
    path.write_text("\n\n".join([*parts, "\\end\\\n"]))
    return path


def shuffled(_: int, lines: Lines) -> Lines:
    return [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]


@pytest.mark.parametrize("block_bytes", [1000, 1 << 22])
@pytest.mark.parametrize("name", LMPLZ)
def test_lines_in_suffix_order_need_no_sorting(
    name: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = arrays(with_lines(tmp_path, name, shuffled))
    monkeypatch.setattr(arpa_source, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(SuffixOrder, "trie", lambda _: pytest.fail("mistaken for a file in another order"))
    for key, array in arrays(with_lines(tmp_path, name, lambda _, lines: lines)).items():
        np.testing.assert_array_equal(array, expected[key])


@pytest.mark.parametrize("from_order", [2, 3, 4, 5])
@pytest.mark.parametrize("position", [0, 0.5, 1])
def test_order_that_ends_somewhere(
    from_order: int, position: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of one order stands after the next one."""
    expected = arrays(with_lines(tmp_path, "order5-fallback.arpa.gz", shuffled))
    monkeypatch.setattr(arpa_source, "BLOCK_BYTES", 1000)

    def swapped(order: int, lines: Lines) -> Lines:
        i = int(position * (len(lines) - 2)) if order == from_order else 0
        return [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]] if order == from_order else lines

    for key, array in arrays(with_lines(tmp_path, "order5-fallback.arpa.gz", swapped)).items():
        np.testing.assert_array_equal(array, expected[key])


@pytest.mark.parametrize("order", [2, 3, 5])
def test_ngrams_twice_in_suffix_order(order: int, tmp_path: Path) -> None:

    def doubled(n: int, lines: Lines) -> Lines:
        return [*lines[:7], lines[6], *lines[7:-1]] if n == order else lines  # as many as the header says

    with pytest.raises(ModelFormatError, match=f"found the {order}-gram .* twice"):
        read_arpa(with_lines(tmp_path, "order5-fallback.arpa.gz", doubled))
