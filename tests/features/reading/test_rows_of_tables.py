"""Rows of CSV and TSV that a kernel writes: their numbers are those of `repr`, their cells those of the module csv."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.features.reading.ready_rows import row_lines
from chainrule.text.corpus.block import Texts, block_of_texts


def written(**columns: object) -> list[str]:
    return row_lines(columns, "\t").tobytes().decode().split("\n")[:-1]


def test_floats_are_written_as_repr_writes_them() -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**64, 20_000, np.uint64).view(np.float64)
    powers = np.array([float(f"{digit}e{k}") for digit in (1, 5, 9.999) for k in range(-320, 308)])
    doubled = 2.0 ** np.arange(-1074, 1024)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e16, 9999999999999998.0, 1e-4, 1e-5, 2.0**53, 1e23])
    whole = random.integers(-(10**6), 10**6, 1000).astype(np.float64)
    for values in (bits, powers, doubled, np.nextafter(doubled, 0), odd, whole, random.exponential(5, 20_000)):
        assert written(value=values) == [*map(repr, values.tolist())]
    assert written(one=odd, same=odd) == [f"{value!r}\t{value!r}" for value in odd.tolist()]


@given(st.lists(st.integers(0, 2**62), min_size=1), st.sampled_from([-1, 1]))
def test_whole_numbers_are_written_with_their_digits(values: list[int], sign: int) -> None:
    assert written(value=sign * np.array(values)) == [str(sign * value) for value in values]


@given(st.lists(st.text(st.sampled_from('ab",\té日\r\n '), max_size=20), min_size=1), st.sampled_from("\t,"))
def test_texts_are_quoted_as_csv_reads_them(texts: list[str], delimiter: str) -> None:
    block = block_of_texts(texts)
    stops = block.stops()
    column = Texts(block.text, np.concatenate([[0], stops[:-1]]), stops - 1)
    flags = np.arange(len(texts)) % 2 == 0
    lines = row_lines({"text": column, "even": flags}, delimiter).tobytes().decode()
    read = [*csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter)]
    assert read == [[text, "TRUE" if even else "FALSE"] for text, even in zip(texts, flags.tolist(), strict=True)]


@pytest.mark.parametrize("by", ["words", "tokens", "texts", "characters", "bytes"])
def test_every_kind_of_file_has_the_rows_of_python(by: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tables")
    text = folder / "text.txt"
    text.write_text('the "man" saw, a\tdog\n\nzeit é the man\n' * 3)
    model = chainrule.train(text, chainrule.NGramConfig(order=2))
    rows = chainrule.surprisal(text, model, by=by).to_records()
    for suffix in (".tsv", ".csv", ".parquet"):
        chainrule.surprisal(text, model, by=by).save(folder / f"table{suffix}")
    assert pyarrow.parquet.read_table(folder / "table.parquet").to_pylist() == rows
    for suffix, delimiter in ((".tsv", "\t"), (".csv", ",")):
        with open(folder / f"table{suffix}", encoding="utf-8", newline="") as file:
            read = [*csv.DictReader(file, delimiter=delimiter)]
        shown = {True: "TRUE", False: "FALSE"}
        assert read == [
            {name: shown[value] if isinstance(value, bool) else str(value) for name, value in row.items()}
            for row in rows
        ]
