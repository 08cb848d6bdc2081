"""JSON lines, whole and broken."""

import gzip
import json
import sys
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import TextError
from chainrule.text.corpus import plain_text
from chainrule.text.corpus.block import Block
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.reading import Reading
from chainrule.text.corpus.record_blocks import after_fields
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import MarkerError

fast = examples(1.2)
texts = st.text(st.characters(exclude_categories=["Cs"]))


def blocks(path: Path, data: bytes, **options: Any) -> list[Block]:
    path.write_bytes(data)
    return list(Corpus.of(path, Reading(**options)).blocks())


def documents(path: Path, data: bytes, **options: Any) -> list[str]:
    return [text for block in blocks(path, data, **options) for text in block.documents()]


def lines_of(records: list[Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@fast
@given(st.lists(texts, min_size=1), st.booleans(), st.integers(1, 40))
def test_a_record_is_one_document_even_with_line_ends_in_it(
    tmp_path: Path, values: list[str], ascii: bool, size: int
) -> None:
    data = "".join(json.dumps({"id": 1, "text": text}, ensure_ascii=ascii) + "\n" for text in values).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "BLOCK_BYTES", size)
        found = documents(tmp_path / "a.jsonl", data)
    assert found == [text.replace("\r\n", "\n") for text in values]
    assert documents(tmp_path / "a.jsonl.gz", gzip.compress(data)) == found


@fast
@given(st.lists(texts, min_size=1))
def test_with_lines_as_documents_each_line_of_a_record_is_one(tmp_path: Path, values: list[str]) -> None:
    expected = [line for text in values for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n")]
    assert documents(tmp_path / "a.jsonl", lines_of([{"text": text} for text in values]), document="line") == expected


def test_the_field_can_be_named_and_empty_lines_and_a_byte_order_mark_are_nothing(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf\r\n{"body": "a\\nb", "text": 1}\r\n  \n\n{"body": "c"}\n'
    (block,) = blocks(tmp_path / "a.jsonl", data, field="body")
    assert block.documents() == ["a\nb", "c"]
    assert [block.locate(i) for i in (1, 2)] == [f"{tmp_path}/a.jsonl, line {line}" for line in (2, 5)]
    part = block.select(np.array([False, True]), block.stops())
    assert (part.documents(), part.locate(1)) == (["c"], f"{tmp_path}/a.jsonl, line 5")


def test_other_files_and_standard_input_are_json_lines_where_documents_are_records(tmp_path: Path, monkeypatch) -> None:
    data = lines_of([{"text": "a\nb"}, {"text": ""}])
    assert documents(tmp_path / "a.txt", data, document="record") == ["a\nb", ""]
    with open(tmp_path / "a.txt") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        (block,) = Corpus.of("-", Reading(document="record")).blocks_as_they_come()
    assert block.documents() == ["a\nb", ""]


def test_an_error_about_a_marker_names_the_line(tmp_path: Path) -> None:
    (block,) = blocks(tmp_path / "a.jsonl", b'\n{"text": "a\\nb"}\n\n{"text": "c\\n<s>"}\n')
    with pytest.raises(MarkerError, match=r"a\.jsonl, line 4: <s> occurs"):
        Tokenizer.untrained().encode_block(block, grow=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"text": "a"', "is not JSON: Expecting ',' delimiter at column 13; expected one object a line"),
        (b"a text", "is not JSON: Expecting value at column 1"),
        (b'{"text": "a"} {"text": "b"}', "is not JSON: Extra data at column 15"),
        (b'{"text": "a\tb"}', "is not JSON: Invalid control character"),
        (b'{"text": "\\x"}', "is not JSON: Invalid"),
        (b'"a"', "found a string, expected a JSON object"),
        (b"[1]", "found a list, expected a JSON object"),
        (b"12", "found a number, expected a JSON object"),
        (b"NaN", "found a number, expected a JSON object"),
        (b"null", "found null, expected a JSON object"),
        (b"{}", "there is no field 'text'; the record is empty"),
        (
            b'{"txt": 1, "id": 2}',
            "there is no field 'text'; there are 'txt', 'id'; choose one with Reading\\(field=...\\)",
        ),
        (b'{"text": null}', "the field 'text' is null, expected a string"),
        (b'{"text": 5}', "the field 'text' is a number, expected a string"),
        (b'{"text": true}', "the field 'text' is true or false, expected a string"),
        (b'{"text": {"a": "b"}}', "the field 'text' is an object, expected a string"),
        (b'{"text": "\\ud800"}', r"the field 'text' has \\ud800 in it, half of a surrogate pair"),
        (b"[" * 100_000, "is JSON nested too deeply"),
        (b'{"text": ' * 100_000, "is JSON nested too deeply"),
        (b"\0", "is not JSON"),
    ],
)
def test_a_bad_record_is_an_error_that_names_file_and_line(tmp_path: Path, line: bytes, told: str) -> None:
    with pytest.raises(TextError, match=rf"^{tmp_path}/a\.jsonl, line 2: {told}"):
        blocks(tmp_path / "a.jsonl", b'{"text": "fine"}\n' + line + b"\n")


def test_numbers_of_any_size_are_passed_over(tmp_path: Path) -> None:
    line = b'{"id": %s, "x": 1e999, "y": -Infinity, "text": "a"}\n' % (b"9" * 10_000)
    assert documents(tmp_path / "a.jsonl", line) == ["a"]


@pytest.mark.parametrize(("rule", "expected"), [("replace", ["a\ufffdb👩", "\ufffd"]), ("skip", ["ab👩", ""])])
def test_what_is_no_character_is_repaired_in_bytes_and_in_escapes(tmp_path: Path, rule, expected: list[str]) -> None:
    data = b'{"text": "a\\udc00b\\ud83d\\udc69"}\n{"text": "\xe9"}\n'
    (tmp_path / "a.jsonl").write_bytes(data)
    source = Corpus.of(tmp_path / "a.jsonl", Reading(encoding_errors=rule))
    (block,) = source.blocks()
    assert block.documents() == expected
    assert source.repairs == {str(tmp_path / "a.jsonl"): 2}


@fast
@given(st.data())
def test_whatever_happens_to_a_file_nothing_but_a_text_error_comes_of_it(tmp_path: Path, data: st.DataObject) -> None:
    broken = bytearray(lines_of([{"text": "ein Text", "id": 12.5, "list": [1, {"a": None}]}] * 3))
    for place in data.draw(st.lists(st.integers(0, len(broken) - 1), min_size=1, max_size=4)):
        broken[place] = data.draw(st.integers(0, 255))
    del broken[data.draw(st.integers(0, len(broken))) :]
    with suppress(TextError):
        blocks(tmp_path / "a.jsonl", bytes(broken), encoding_errors=data.draw(st.sampled_from(["strict", "skip"])))


def test_fields_of_parquet_become_json_before_the_figures() -> None:
    record = {"day": date(2026, 11, 28), "rates": [float("nan"), 0.5, True], "in": {"b": b"x"}, "body": "a b", "oov": 3}
    row = after_fields({"text": "a b", "oov": 0}, record, "body")
    assert json.dumps(row, allow_nan=False) == (
        '{"day": "2026-11-28", "rates": [null, 0.5, true], "in": {"b": "b\'x\'"}, "record_oov": 3, '
        '"body": "a b", "text": "a b", "oov": 0}'
    )
