"""The tensors file against the safetensors library, and against lies."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from samples import examples

from chainrule.errors import ModelFormatError
from chainrule.storage import safetensors as tensors
from chainrule.storage.safetensors import file_digest, open_tensors, write_tensors

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8]
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda n: n != "__metadata__")
some_arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
fast = examples(2)


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def file_with(path: Path, header: Any, data: bytes = b"") -> Path:
    """A file whose header is given as JSON, or as its bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@fast
@given(st.dictionaries(names, some_arrays, max_size=4))
@example({"empty": np.empty((0, 3), np.float32)})
@example({})
def test_the_library_reads_what_we_write(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path / "ours.safetensors"
    digest = write_tensors(path, arrays)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert_same(safetensors.numpy.load_file(path), arrays)
    assert_same(open_tensors(path), arrays)


@fast
@given(st.dictionaries(names, some_arrays, max_size=4), st.none() | st.just({"format": "np"}))
def test_we_read_what_the_library_writes(
    tmp_path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, str] | None
) -> None:
    path = tmp_path / "theirs.safetensors"
    arrays = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    safetensors.numpy.save_file(arrays, path, metadata)
    assert_same(open_tensors(path), arrays)


def test_slices_and_transposed_arrays_are_written_as_they_look(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.int32).reshape(4, 6)
    arrays = {"columns": whole[:, ::2], "turned": whole.T, "backwards": whole[::-1]}
    write_tensors(tmp_path / "a", arrays)
    assert_same(safetensors.numpy.load_file(tmp_path / "a"), arrays)


def test_arrays_are_mapped_at_multiples_of_their_size_and_writing_to_them_leaves_the_file_alone(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"bytes": np.arange(3, dtype=np.uint8), "numbers": np.arange(5.0)})
    before = (tmp_path / "a").read_bytes()
    arrays = open_tensors(tmp_path / "a")
    assert all(array.flags.aligned and array.flags.writeable and not array.flags.owndata for array in arrays.values())
    arrays["numbers"][:] = 7
    assert (tmp_path / "a").read_bytes() == before


def test_an_array_at_an_odd_place_is_read_all_the_same(tmp_path: Path) -> None:
    numbers = np.array([1.5, -2.0])
    header = {"a": entry(shape=[1], offsets=[0, 1]), "b": entry("F64", [2], [1, 17])}
    found = open_tensors(file_with(tmp_path / "a", header, b"\7" + numbers.tobytes()))
    np.testing.assert_array_equal(found["b"], numbers)
    assert found["b"].flags.aligned


def test_a_file_larger_than_a_chunk_is_written_and_summed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_CHUNK", 1000)
    written: list[tuple[str, float, float | None]] = []
    read: list[tuple[str, float, float | None]] = []
    array = np.random.default_rng(3).integers(0, 256, 4567, np.uint8)
    digest = write_tensors(tmp_path / "a", {"a": array}, lambda *args: written.append(args))
    size = os.path.getsize(tmp_path / "a")
    assert written == [("saving", done, 4567) for done in [*range(1000 - (size - 4567), 4567, 1000), 4567]]
    assert file_digest(tmp_path / "a", lambda *args: read.append(args)) == digest
    assert read == [("verifying", min(done, size), size) for done in range(1000, size + 1000, 1000)]
    np.testing.assert_array_equal(open_tensors(tmp_path / "a")["a"], array)


@pytest.mark.parametrize("size", range(9))
def test_a_file_of_a_few_bytes_is_a_format_error(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"\2\0\0\0\0\0\0\0{"[:size])
    with pytest.raises(ModelFormatError, match=r"the header claims \d+ bytes, but the file has"):
        open_tensors(tmp_path / "a")


@pytest.mark.parametrize("claimed", [3, 2**31, 2**60, 2**64 - 1])
def test_a_header_longer_than_the_file_is_a_format_error(tmp_path: Path, claimed: int) -> None:
    (tmp_path / "a").write_bytes(claimed.to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFormatError, match=f"the header claims {claimed:,} bytes, but the file has 10"):
        open_tensors(tmp_path / "a")


@pytest.mark.parametrize("name", ["nothing", "."])
def test_a_missing_file_and_a_folder_are_format_errors(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelFormatError, match="cannot be opened"):
        open_tensors(tmp_path / name)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"7", b'"a"', b"null", b"{", b"\xff\xfe", b'{"a": }', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000],
    ids=lambda header: header[:6].decode("latin-1"),
)
def test_a_header_that_is_no_json_object_is_a_format_error(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(ModelFormatError, match="the header is not a JSON object"):
        open_tensors(file_with(tmp_path / "a", header, b"1234"))


LIES = {
    "beyond the end": entry(shape=[5], offsets=[0, 5]),
    "far beyond the end": entry(shape=[2**60], offsets=[0, 2**60]),
    "before the start": entry(offsets=[-4, 0]),
    "turned round": entry(shape=[0], offsets=[4, 0]),
    "too few for the shape": entry(shape=[3]),
    "too many for the shape": entry(shape=[2, 3]),
    "too few for the type": entry("F64", [4]),
    "negative sides": entry(shape=[-2, -2]),
    "a side that is no number": entry(shape=["4"]),
    "a side that is true": entry(shape=[True, 4]),
    "a side with a fraction": entry(shape=[4.0]),
    "a side of too many digits": entry(shape=[0, 10**4000], offsets=[0, 0]),
    "no list of sides": entry(shape=4),
    "a shape that is a text": entry(shape="4"),
    "a shape that is an object": entry(shape={}, offsets=[0, 1]),
    "a side beyond all numbers": entry(shape=[0, 10**30], offsets=[0, 0]),
    "sides whose product overflows": entry(shape=[2**32, 2**32, 0, 2**62], offsets=[0, 0]),
    "too many dimensions": entry(shape=[1] * 1000 + [4]),
    "offsets that are texts": entry(offsets=["0", "4"]),
    "an offset with a fraction": entry(offsets=[0.0, 4.0]),
    "an offset that is no number": entry(offsets=[0, float("nan")]),
    "an endless offset": entry(offsets=[0, float("inf")]),
    "one offset": entry(offsets=[4]),
    "three offsets": entry(offsets=[0, 2, 4]),
    "offsets that are a text": entry(offsets="04"),
    "a type that is not known": entry("F8_E4M3"),
    "a type that Python knows": entry("O"),
    "a type that is a list": entry(["U8"]),
    "no type": {"shape": [4], "data_offsets": [0, 4]},
    "no shape": {"dtype": "U8", "data_offsets": [0, 4]},
    "no offsets": {"dtype": "U8", "shape": [4]},
    "a number": 4,
    "nothing": None,
    "a list": ["U8", [4], [0, 4]],
    "a text": "U8",
}


@pytest.mark.parametrize("lie", LIES)
def test_an_entry_that_lies_is_a_format_error_that_names_the_array(tmp_path: Path, lie: str) -> None:
    with pytest.raises(ModelFormatError, match=r"a: .*'the array'"):
        open_tensors(file_with(tmp_path / "a", {"the array": LIES[lie]}, b"1234"))


def test_entries_nested_to_any_depth_are_a_format_error(tmp_path: Path) -> None:
    for depth in [*range(700, 1100, 7), 5_000, 50_000]:  # around the depth that the interpreter allows
        header = b'{"a": {"dtype": "U8", "shape": ' + b"[" * depth + b"]" * depth + b', "data_offsets": [0, 4]}}'
        with pytest.raises(ModelFormatError):
            open_tensors(file_with(tmp_path / "a", header, b"1234"))


@pytest.mark.parametrize(
    "spans",
    [[(0, 4), (0, 4)], [(0, 3), (2, 4)], [(0, 4), (1, 2)], [(0, 1), (3, 4)], [(1, 4)], [(0, 3)]],
    ids=["the same", "overlapping", "inside", "a gap", "late", "early"],
)
def test_arrays_that_do_not_fill_the_file_are_a_format_error(tmp_path: Path, spans: list[tuple[int, int]]) -> None:
    header = {f"a{i}": entry(shape=[stop - start], offsets=[start, stop]) for i, (start, stop) in enumerate(spans)}
    with pytest.raises(ModelFormatError, match="do not fill the file"):
        open_tensors(file_with(tmp_path / "a", header, b"1234"))


VALID = {
    "numbers": np.arange(6, dtype=np.float32).reshape(2, 3),
    "ids": np.arange(4, dtype=np.int64),
    "text": np.arange(5, dtype=np.uint8),
    "empty": np.empty((3, 0), np.int32),
}


def assert_error_or_arrays_within(path: Path) -> None:
    try:
        arrays = open_tensors(path)
    except ModelFormatError:
        return
    assert sum(array.nbytes for array in arrays.values()) <= path.stat().st_size
    for array in arrays.values():
        array.tobytes()  # reads every element, which crashes where one is not in the file


@fast
@given(st.data())
def test_a_file_with_changed_bytes_is_a_format_error_or_still_holds_its_arrays(
    tmp_path: Path, data: st.DataObject
) -> None:
    write_tensors(tmp_path / "a", VALID)
    whole = bytearray((tmp_path / "a").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255) | st.sampled_from(b'0123456789-[]{}",:e.'))
    (tmp_path / "b").write_bytes(whole[: data.draw(st.integers(0, len(whole)) | st.just(len(whole)))])
    assert_error_or_arrays_within(tmp_path / "b")


sides = st.integers(-1, 6) | st.sampled_from([2**31, 2**62, 2**63, 2**64, 10**30])
odd = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | sides | st.just([]) | st.just({})
odd_entries = odd | st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["U8", "I32", "F64", "F16"]) | odd,
        "shape": st.lists(sides, max_size=3) | st.lists(odd, max_size=3) | odd,
        "data_offsets": st.tuples(sides, sides) | st.lists(odd, max_size=3) | odd,
        "more": odd,
    },
)


@settings(fast, max_examples=300)
@given(st.dictionaries(st.sampled_from(["a", "b", "__metadata__"]), odd_entries, max_size=3), st.binary(max_size=12))
def test_a_header_of_any_entries_is_a_format_error_or_arrays_within_the_file(
    tmp_path: Path, header: dict[str, Any], data: bytes
) -> None:
    assert_error_or_arrays_within(file_with(tmp_path / "a", header, data))
