"""Documents to files, and what is read back from them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.errors import OutputError, TextError
from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.corpus import Corpus, Lines
from chainrule.text.corpus.reading import COMPRESSIONS
from chainrule.text.corpus.writing import check_format, document_file

fast = settings(max_examples=30)
texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])).map(lambda s: s.replace("\r\n", "")), min_size=1)


def block_of(documents: list[str]) -> Block:
    text = byte_array(b"".join(document.encode() + b"\xff" for document in documents))
    return Block(text, "records", 7, NEVER_IN_UTF8, "row")


@fast
@given(texts, st.sampled_from(["", *COMPRESSIONS]))
def test_json_lines_hold_every_document(tmp_path: Path, documents: list[str], compression: str) -> None:
    path = tmp_path / f"a.jsonl{compression}"
    with document_file(path) as file:
        file.write(block_of(documents))
        file.write(next(Lines(["one more"]).blocks()))
    assert [text for block in Corpus.of(path).blocks() for text in block.documents()] == [*documents, "one more"]
    assert file.documents == len(documents) + 1


@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
def test_plain_text_holds_a_line_for_each_document(tmp_path: Path, compression: str) -> None:
    path = tmp_path / f"a.txt{compression}"
    with document_file(path) as file:
        file.write(block_of(["a", ""]))
        file.write(next(Lines(["b é", "c"]).blocks()))
    assert [text for block in Corpus.of(path).blocks() for text in block.documents()] == ["a", "", "b é", "c"]
    assert (file.documents, file.bytes) == (4, len("a\n\nb é\nc\n".encode()))


def test_a_document_with_newlines_is_no_line(tmp_path: Path) -> None:
    message = r"^records, row 8: the document has newlines, but .*\.txt has one document a line"
    with pytest.raises(TextError, match=message):  # noqa: SIM117
        with document_file(tmp_path / "a.txt") as file:
            file.write(block_of(["a", "b\nc"]))
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"a\.parquet: Parquet can only be read"):
        check_format(tmp_path / "a.parquet")
