"""Repairs against Python's own decoder, whatever the windows."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chainrule.text.corpus import streams as utf8
from chainrule.text.corpus.block import byte_array
from chainrule.text.corpus.streams import encode_string, repair, windows

PARTS = [b"a", b"\n", b"\xc3", b"\xc3\xa9", b"\xe6\x97", b"\xa5", b"\xe6\x97\xa5", b"\xf0\x9f\x91", b"\xa9", b"\xff"]
broken = st.lists(st.sampled_from([*PARTS, b"\xef\xbf\xbd", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5"])).map(b"".join)


@given(broken | st.binary(), st.integers(4, 12))
@example(b"\xa9" * 9, 4)
@example(b"\xf0\x9f\x91\xa9" * 3, 5)
def test_repairs_are_those_of_pythons_decoder_whatever_the_windows(data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utf8, "WINDOW_BYTES", size)
        text = byte_array(data)
        assert b"".join(window.tobytes() for _, window in windows(text)) == data
        replaced, places = repair(text, "replace")
        assert replaced == data.decode(errors="replace").encode()
        assert repair(text, "skip") == (data.decode(errors="ignore").encode(), places)
    without = data.replace("\ufffd".encode(), b"?")  # the text's own
    assert places == without.decode(errors="replace").count("\ufffd")


@given(st.text(), st.integers(4, 12))
def test_no_window_cuts_a_character(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utf8, "WINDOW_BYTES", size)
        data = text.encode("utf-8", "replace")
        pieces = list(windows(byte_array(data)))
        assert "".join(window.tobytes().decode() for _, window in pieces) == data.decode()
        assert [data[start : start + window.size] for start, window in pieces] == [w.tobytes() for _, w in pieces]


def test_lone_surrogates_are_repaired_and_counted() -> None:
    assert encode_string("a\ud800b\udfff", "replace") == ("a\ufffdb\ufffd".encode(), 2)
    assert encode_string("a\ud800b\udfff", "skip") == (b"ab", 2)
    assert encode_string("👩", "strict") == ("👩".encode(), 0)
    with pytest.raises(UnicodeEncodeError):
        encode_string("a\ud800", "strict")
