"""The splitters against naive ones in plain Python, with text that is meant to be awkward."""

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import SettingError
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.splitters import SPLITTERS, SYMBOLS, character_classes, splitter_named
from chainrule.text.tokenization.tokenizer_kernels import (
    rewrite_bytes,
    rewrite_characters,
    rewrite_whitespace,
    rewrite_words,
)

NEVER = 0xFF
MARKERS = ["<unk>", "<s>", "</s>"]
CURIOUS = [
    *MARKERS,
    "￭",
    "␠",
    "␀",
    "␟",
    "\N{ZERO WIDTH JOINER}",
    "\N{VARIATION SELECTOR-16}",
    "\N{COMBINING ACUTE ACCENT}",
    "\N{COMBINING KATAKANA-HIRAGANA VOICED SOUND MARK}",
    "\N{ZERO WIDTH SPACE}",
    "\N{NO-BREAK SPACE}",
    "\N{IDEOGRAPHIC SPACE}",
    "\N{LINE SEPARATOR}",
    "\N{VARIATION SELECTOR-17}",
    "👩‍👩‍👧‍👦",
    "🇫🇷",
    "日本語",
    "か",
    "한국",
    "สวัสดี",
    "don't",
    "3.14",
    "1,000",
    "’",
    "'",
    ".",
    ",",
    "_",
    "<",
    ">",
    "-",
    "a",
    "1",
    "½",
    " ",
    "\t",
    "\r",
    "\n",
    "\0",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\ufeff",
    "\U000e0041",
    "\U0010ffff",
    "\U000f0000",
    "\U0003ffff",
    "\U000e0fff",
]
characters = st.characters(exclude_categories=["Cs"])
texts = st.one_of(
    st.text(characters, max_size=60),
    st.lists(st.sampled_from(CURIOUS) | characters, max_size=40).map("".join),
    st.text("ab1' ’.,-<\u0301￭", max_size=40),
)
documents = st.lists(texts, max_size=5)


def rewritten(name: str, document: str) -> str:
    """One document as the splitter writes it, without its newline. It may hold newlines itself."""
    out = splitter_named(name).rewrite(byte_array(document.encode() + b"\xff"), NEVER).tobytes()
    assert out.endswith(b"\n")
    return out[:-1].decode()


def restored(name: str, tokens: str) -> str:
    return splitter_named(name).align(byte_array(tokens.encode())).text.tobytes().decode()


# What the word splitter promises, said once more without classes, states or bytes.


def is_blank(character: str) -> bool:
    return character.isspace() or character == "\0"


def is_attached(character: str) -> bool:
    """Combining marks and invisible joiners, which belong to what they follow."""
    category = unicodedata.category(character)
    return not is_blank(character) and (
        category in ("Mn", "Mc", "Me") or (category == "Cf" and character != "\N{ZERO WIDTH SPACE}")
    )


UNSPACED = ("HIRAGANA", "CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC ITERATION MARK")
UNSPACED_MARKS = "\N{IDEOGRAPHIC CLOSING MARK}\N{IDEOGRAPHIC NUMBER ZERO}"


def is_written_without_spaces(character: str) -> bool:
    archaic = 0x1B000 <= ord(character) <= 0x1B16F  # the historic kana, which modern text has not
    return character in UNSPACED_MARKS or (unicodedata.name(character, "").startswith(UNSPACED) and not archaic)


def is_letter(character: str) -> bool:
    category = unicodedata.category(character)
    return (category[0] == "L" or category == "Pc") and not is_written_without_spaces(character)


def is_digit(character: str) -> bool:
    return unicodedata.category(character)[0] == "N" and not is_written_without_spaces(character)


def naive_pieces(chunk: str) -> list[tuple[str, str]]:
    """The words and single characters of text without white space in it, each with 'word' or 'mark'."""
    if chunk in MARKERS:
        return [(chunk, "word")]
    pieces: list[tuple[str, str]] = []
    inside = ""  # what kind the word that is being built ends with: "letter", "digit"; empty outside of words
    for i, character in enumerate(chunk):
        after = chunk[i + 1 : i + 2] or " "
        if is_attached(character):
            inside = inside if pieces else "letter"
            spelled, kind = pieces.pop() if pieces else ("", "word")
            pieces.append((spelled + character, kind))
            continue
        if is_letter(character) or is_digit(character):
            now = "letter" if is_letter(character) else "digit"
        else:
            joins_words = character in "'’" and (is_letter(after) or is_digit(after))
            joins_numbers = character in ".," and inside == "digit" and is_digit(after)
            now = inside if joins_words or joins_numbers else ""
        if now and inside:
            spelled, _ = pieces.pop()
            pieces.append((spelled + character, "word"))
        else:
            pieces.append(("\N{REPLACEMENT CHARACTER}" if character == "￭" else character, "word" if now else "mark"))
        inside = now
    return pieces


def naive_words(document: str) -> list[str]:
    tokens = []
    for chunk in "".join(" " if is_blank(character) else character for character in document).split(" "):
        pieces = naive_pieces(chunk)
        for i, (spelled, kind) in enumerate(pieces):
            left = "￭" if kind == "mark" and i > 0 else ""
            right = "￭" if kind == "mark" and i + 1 < len(pieces) and pieces[i + 1][1] == "word" else ""
            tokens.append(left + spelled + right)
    return tokens


def squeezed(document: str) -> str:
    """The normalised text of the word splitter."""
    visible = "".join(" " if is_blank(character) else character for character in document)
    return re.sub(" +", " ", visible).strip(" ").replace("￭", "\N{REPLACEMENT CHARACTER}")


@examples(5)
@given(texts)
@example("か\u3099")
@example("a'\u0301b 1.\u03012 \u0301'a")
@example("<unk> <s>, x<unk> <unk>x <unk>\u0301 <<unk>")
def test_the_word_splitter_agrees_with_a_naive_one(document: str) -> None:
    assert [token for token in rewritten("word", document).split(" ") if token] == naive_words(document)


@examples(5)
@given(texts)
def test_the_word_splitter_gives_all_back_but_runs_of_white_space_and_its_own_mark(document: str) -> None:
    assert restored("word", rewritten("word", document)) == squeezed(document)


@examples(2.4)
@given(texts)
def test_the_character_splitter_gives_all_back_but_the_pictures_that_it_uses_itself(document: str) -> None:
    assert restored("character", rewritten("character", document)) == re.sub("[\u2400-\u2420]", "\ufffd", document)


@examples(2.4)
@given(texts)
def test_the_character_splitter_makes_a_token_of_each_code_point(document: str) -> None:
    tokens = rewritten("character", document).split(" ") if document else []
    assert len(tokens) == len(document)
    assert all(len(token) == 1 for token in tokens)


def symbol_of(byte: int) -> str:
    """GPT-2's own definition: visible bytes are themselves, the others come after 255 in order."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [other for other in range(256) if other not in visible]
    return chr(byte) if byte in visible else chr(256 + hidden.index(byte))


@examples(2.4)
@given(texts)
@example("".join(map(chr, range(256))))
def test_the_byte_splitter_makes_a_token_of_each_byte_and_loses_nothing(document: str) -> None:
    tokens = rewritten("byte", document)
    assert tokens == " ".join(map(symbol_of, document.encode()))
    assert restored("byte", tokens) == document


def test_the_byte_splitter_knows_its_tokens_beforehand_and_no_other_does() -> None:
    known = {name: list(splitter.alphabet) for name, splitter in SPLITTERS.items()}
    expected = [symbol_of(byte).encode() for byte in range(256)]
    assert known == {"whitespace": [], "word": [], "character": [], "byte": expected}
    assert "".join(map(symbol_of, range(256))) == SYMBOLS


@examples(2.4)
@given(texts)
def test_the_whitespace_splitter_cuts_at_five_characters_only(document: str) -> None:
    expected = [token for token in re.split("[\0\t\n\r ]", document) if token]
    assert rewritten("whitespace", document) == " ".join(expected)


def test_spaces_of_other_kinds_stay_inside_the_tokens_of_the_whitespace_splitter() -> None:
    inside = ["a\N{NO-BREAK SPACE}b", "c\x85d", "e\x0bf", "g\x0ch", "\N{IDEOGRAPHIC SPACE}"]
    assert rewritten("whitespace", "\t".join(inside)).split(" ") == inside


@pytest.mark.parametrize("name", SPLITTERS)
@examples(2.4)
@given(documents)
def test_a_splitter_writes_a_line_for_each_document_and_no_empty_token(name: str, documents: list[str]) -> None:
    joined = "".join(document.replace("\n", " ") + "\n" for document in documents)
    out = splitter_named(name).rewrite(byte_array(joined.encode())).tobytes().decode()
    lines = out.split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(documents)
    assert all(token for line in lines if line for token in line.split(" "))


@pytest.mark.parametrize("name", SPLITTERS)
@examples(2.4)
@given(documents)
def test_a_document_is_cut_as_if_it_were_alone(name: str, documents: list[str]) -> None:
    joined = b"".join(document.encode() + b"\xff" for document in documents)
    out = splitter_named(name).rewrite(byte_array(joined), NEVER).tobytes().decode()
    assert out == "".join(rewritten(name, document) + "\n" for document in documents)


@pytest.mark.parametrize("name", ["whitespace", "word"])
@examples(2)
@given(documents)
def test_a_newline_inside_a_document_is_white_space_like_any_other(name: str, documents: list[str]) -> None:
    document = "\n".join(documents)
    assert rewritten(name, document) == rewritten(name, document.replace("\n", " "))


def test_every_character_between_two_words_is_cut_as_its_category_says() -> None:
    codes = [*range(0xD800), *range(0xE000, 0x20000, 3), *range(0x20000, 0x110000, 97), *range(0xE0000, 0xE0200)]
    framed = [f"a{chr(code)}1" for code in codes]
    joined = b"".join(document.encode() + b"\xff" for document in framed)
    out = splitter_named("word").rewrite(byte_array(joined), NEVER).tobytes().decode().split("\n")
    wrong = [text for text, line in zip(framed, out, strict=False) if line.split(" ") != naive_words(text)]
    assert wrong == []


GUARD = 0xA5
ROOM = {  # bytes of output for each byte of text, as each kernel's docstring says
    "whitespace": (1, lambda text, end, out: rewrite_whitespace(text, end, out)),
    "word": (5, lambda text, end, out: rewrite_words(text, end, character_classes(), out)),
    "character": (4, lambda text, end, out: rewrite_characters(text, end, out)),
    "byte": (3, lambda text, end, out: rewrite_bytes(text, end, np.array([ord(c) for c in SYMBOLS], np.uint16), out)),
}


@pytest.mark.parametrize("name", ROOM)
@examples(6)
@given(st.one_of(texts, st.text("-a\u0301", max_size=60), st.text(" \t\n\r\0", max_size=30)), st.booleans())
@example("-", False)
@example("a-a-a-a-", False)
@example("----", False)
@example("￭￭￭", False)
@example("<s><s>", True)
def test_a_kernel_stays_within_the_room_that_it_asks_for(name: str, document: str, several: bool) -> None:
    factor, rewrite = ROOM[name]
    data = document.encode() + (b"\n" if several else b"\xff")
    guarded = np.full(factor * len(data) + 64, GUARD, np.uint8)
    size = rewrite(byte_array(data), 10 if several else NEVER, guarded[: factor * len(data)])
    assert size <= factor * len(data)
    assert (guarded[factor * len(data) :] == GUARD).all()


def test_the_word_splitters_room_is_needed_to_the_last_byte_but_for_the_ends() -> None:
    marks = "-" * 1000  # each but the first: space, joiner, mark
    assert len(rewritten("word", marks).encode()) == 5 * 1000 - 4
    assert len(rewritten("word", "a-" * 1000).encode()) == 10 * 1000 - 4


@examples(6)
@given(st.binary(max_size=40))
def test_bytes_that_are_no_utf8_do_not_lead_a_kernel_out_of_its_arrays(data: bytes) -> None:
    for factor, rewrite in ROOM.values():
        guarded = np.full(factor * (len(data) + 1) + 64, GUARD, np.uint8)
        rewrite(byte_array(data + b"\n"), 10, guarded[: factor * (len(data) + 1)])
        assert (guarded[factor * (len(data) + 1) :] == GUARD).all()


@pytest.mark.parametrize(
    ("document", "tokens"),
    [
        ("Hello, world!", "Hello ￭, world ￭!"),
        ("(well-known)", "(￭ well ￭-￭ known ￭)"),
        ("don't 'quote' rock’n’roll", "don't '￭ quote ￭' rock’n’roll"),
        ("3.14 1,000 v1.2 a.b 5.", "3.14 1,000 v1.2 a ￭.￭ b 5 ￭."),
        ("日本語", "日 ￭本 ￭語"),
        ("Zürich nai\u0308ve", "Zürich nai\u0308ve"),
        ("か\u3099き", "か\u3099 ￭き"),
        ("👩‍👩‍👧 🇫🇷", "👩‍ ￭👩‍ ￭👧 🇫 ￭🇷"),
        ("<unk> x<unk>", "<unk> x ￭<￭ unk ￭>"),
        ("a  \t b", "a b"),
        ("snake_case x2", "snake_case x2"),
        ("", ""),
        ("   ", ""),
    ],
)
def test_words_are_cut_as_the_manual_says(document: str, tokens: str) -> None:
    assert rewritten("word", document) == tokens


@pytest.mark.parametrize(
    ("document", "tokens"),
    [("a b", "a ␠ b"), ("\ta\r", "␉ a ␍"), ("<s>", "< s >"), ("é\0", "é ␀"), ("␀", "\ufffd"), ("", "")],
)
def test_characters_are_cut_as_the_manual_says(document: str, tokens: str) -> None:
    assert rewritten("character", document) == tokens


def test_a_tokenizer_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    with pytest.raises(SettingError, match=r"'words'.*whitespace, word, character, byte"):
        splitter_named("words")
