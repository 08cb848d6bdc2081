"""Rows of a table of arrays, made ready for its file: as lines of CSV or TSV, or as arrays of pyarrow for Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.reading.row_kernels import (
    CELL_ROOM,
    FLOAT,
    SPARE,
    TEXT,
    TRUTH,
    WHOLE,
    join_texts,
    write_rows,
)
from chainrule.text.corpus.block import Texts
from chainrule.text.corpus.parquet import pyarrow_for
from chainrule.text.corpus.reading import text_suffix
from chainrule.text.corpus.writing import WithLines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jaxtyping import UInt8
    from numpy import ndarray

_KINDS = {
    "i": (WHOLE, np.int64),
    "u": (WHOLE, np.int64),
    "f": (FLOAT, np.float64),
    "b": (TRUTH, np.bool_),
}  # by the kind of a dtype
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def made_ready(columns: Mapping[str, Any], path: Path) -> WithLines:
    """Return columns of arrays and Texts as the file of this name is written from them quickest."""
    ready, suffix = WithLines(columns), text_suffix(str(path))
    if not all(isinstance(values, np.ndarray) or _is_utf8(values) for values in columns.values()):
        return ready
    if suffix in _DELIMITERS:
        ready.lines = row_lines(columns, _DELIMITERS[suffix])
    elif suffix == ".parquet":
        pyarrow, _ = pyarrow_for(str(path))
        ready.update({name: _arrow(values, pyarrow) for name, values in columns.items()})
    return ready


def _is_utf8(texts: Texts) -> bool:
    """Return whether the bytes of all texts are UTF-8, so that they need no decoding."""
    try:
        texts.text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return texts.errors != "backslashreplace"  # which is of parts of characters


def row_lines(columns: Mapping[str, Any], delimiter: str) -> UInt8[ndarray, " bytes"]:
    """Return the rows as lines, with the cells that `table_file` writes."""
    kinds, addresses, kept = [], [], []
    room = SPARE
    for values in columns.values():
        if isinstance(values, Texts):
            text = np.concatenate([values.text, np.zeros(SPARE, np.uint8)])
            arrays = [np.ascontiguousarray(array) for array in (text, values.starts, values.stops)]
            kinds.append(TEXT)
            room += 3 * len(values) + 2 * int((values.stops - values.starts).sum())
        else:
            kind, dtype = _KINDS[values.dtype.kind]
            arrays = [np.ascontiguousarray(values, dtype)] * 3
            kinds.append(kind)
            room += CELL_ROOM * len(values)
        kept.append(arrays)
        addresses.append([array.ctypes.data for array in arrays])
    lines = np.empty(room, np.uint8)
    rows = len(next(iter(columns.values())))
    size = write_rows(np.array(kinds), np.array(addresses), rows, ord(delimiter), lines)
    del kept  # until here, for the addresses
    return lines[:size]


def _arrow(values: Any, pyarrow: Any) -> Any:
    """Return a column as an array of pyarrow, of the type that its values have as Python's."""
    if not isinstance(values, Texts):
        return pyarrow.array(values.astype(_KINDS[values.dtype.kind][1], copy=False))
    offsets = np.empty(len(values) + 1, np.int64)
    joined = np.empty(int((values.stops - values.starts).sum()), np.uint8)
    join_texts(values.text, values.starts, values.stops, offsets, joined)
    fits = joined.size <= np.iinfo(np.int32).max
    array_type = pyarrow.StringArray if fits else pyarrow.LargeStringArray
    places = offsets.astype(np.int32) if fits else offsets
    return array_type.from_buffers(len(values), pyarrow.py_buffer(places), pyarrow.py_buffer(joined))
