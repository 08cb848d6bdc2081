"""Subword tokenizers: learned by us, and brought along as tokenizer.json."""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from subword_files import LINES, changed, file_bytes, like_bert, like_gpt2, like_llama, like_t5, whole_words
from tokenizers.pre_tokenizers import ByteLevel

from chainrule.errors import EstimationError, ModelFormatError, SettingError
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenization.subword import Subword, _clean_definition, _with_defaults
from chainrule.text.tokenization.subword_decoders import Words
from chainrule.text.tokenization.subword_training import _with_short_words, train_subword
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import Vocabulary

CURIOUS = [
    "\ufffd",
    "Ġ",
    "▁",
    "##",
    "[UNK]",
    "<s>",
    "<unk>",
    "<|endoftext|>",
    "  ",
    "\n",
    "\0",
    "日本",
    "naïve",
    "the cat",
]
WHITE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # Unicode's White_Space
PICTURES = "\u2400\u2409\u240a\u240d\u2420"
characters = st.characters(exclude_categories=["Cs"])
texts = st.one_of(st.text(characters, max_size=30), st.lists(st.sampled_from(CURIOUS) | characters).map("".join))


def tokenizer_of(splitter: Subword) -> Tokenizer:
    return Tokenizer(splitter, Vocabulary(splitter.alphabet), "skip")


@cache
def brought(name: str) -> Tokenizer:
    return tokenizer_of(Subword(file_bytes(name), f"{name}.json"))


@cache
def learned(kind: str) -> Tokenizer:
    return tokenizer_of(train_subword(kind, lines, 300))


def lines() -> Iterable[list[str]]:
    yield LINES[:2]
    yield LINES[2:] * 2


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode_texts([text]).text.tobytes().decode().removesuffix("\n").split(" ")


@pytest.mark.parametrize("make", [lambda: learned("bpe"), lambda: learned("unigram"), lambda: brought("gpt2")])
@given(st.lists(texts, max_size=4))
@example(["", " a", "a ", "\n"])
def test_pieces_of_bytes_give_any_text_back(make: Callable[[], Tokenizer], documents: list[str]) -> None:
    tokenizer = make()
    encoded = tokenizer.encode_texts(documents)
    assert tokenizer.decode(encoded.ids) == "".join(document + "\n" for document in documents)
    assert (encoded.ids != UNKNOWN).all()
    found = tokenizer.align(encoded)
    edges = found.stops.tolist()
    assert found.starts.tolist() == [0, *edges][:-1]
    assert found.text.tobytes() == "".join(document + "\n" for document in documents).encode()


@given(texts)
@example(" a  b ")
@example("é\u0301日")
def test_pieces_with_named_bytes_give_all_back_but_how_spaces_were_spelled(text: str) -> None:
    tokenizer = brought("llama")
    if not re.search("</?s>|<unk>|<0x", text):
        assert tokenizer.decode(tokenizer.encode_texts([text]).ids[:-1]) == text.replace("▁", " ")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_the_same_text_gives_the_same_pieces(kind: str) -> None:
    assert train_subword(kind, lines, 300).definition == train_subword(kind, lines, 300).definition


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_no_more_pieces_are_learned_than_asked_for(kind: str) -> None:
    assert learned(kind).vocabulary_size <= 300
    assert learned(kind).name == kind
    assert learned("bpe").vocabulary_size == 300


def test_frequent_words_become_pieces() -> None:
    assert "Ġthe" in tokens(learned("bpe"), "on the")
    assert tokens(learned("wordpiece"), "the lowest.") == ["the", "lowest", "."]
    assert tokens(learned("wordpiece"), "sats") == ["sat", "##s"]


def test_a_word_with_an_unseen_character_is_one_unknown_word_to_wordpiece_and_keeps_its_spelling() -> None:
    tokenizer = learned("wordpiece")
    encoded = tokenizer.encode_texts(["the zoë, sat"])
    assert encoded.ids.tolist().count(UNKNOWN) == 1
    assert [encoded.surface(i).decode() for i in range(4)] == ["the", "zoë", ",", "sat"]
    assert tokenizer.align(encoded).text.tobytes().decode() == "the zoë , sat\n"
    assert tokenizer.loses == "spaces,pictures"


@given(st.lists(texts, max_size=3))
def test_wordpiece_gives_words_back_with_one_space_between(documents: list[str]) -> None:
    tokenizer = learned("wordpiece")
    encoded = tokenizer.encode_texts(documents)
    found = tokenizer.align(encoded).text.tobytes().decode().split("\n")[:-1]
    kept = [re.sub(f"[{WHITE}{PICTURES}\0\ufffd]", "", document) for document in documents]
    assert [re.sub(f"[ {PICTURES}\ufffd]", "", line) for line in found] == kept


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
@pytest.mark.parametrize("text", [[], [""], ["a"]])
def test_a_text_with_next_to_nothing_in_it_is_enough_to_learn_from(kind: str, text: list[str]) -> None:
    tokenizer = tokenizer_of(train_subword(kind, lambda: [text], 300))
    assert tokenizer.encode_texts(text).ids.size >= len(text)


def test_more_characters_than_pieces_are_an_error_of_wordpiece() -> None:
    text = "".join(chr(0x4E00 + i) for i in range(400))
    with pytest.raises(EstimationError, match="wordpiece needs 802 tokens"):
        train_subword("wordpiece", lambda: [[text]], 300)
    assert tokenizer_of(train_subword("bpe", lambda: [[text]], 300)).vocabulary_size == 300


def test_a_vocabulary_too_small_for_the_bytes_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"259 is too small for bpe; expected at least 260"):
        train_subword("bpe", lines, 259)


def test_learning_reports_when_the_library_takes_over() -> None:
    told: list[tuple[str, float, float | None]] = []
    train_subword("bpe", lines, 300, lambda *report: told.append(report))
    assert told == [("learning bpe subwords", 0, None)]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
@pytest.mark.parametrize("long", ["ab" * 1100, "é" * 2001, " " * 1500])
def test_a_word_of_any_length_is_learned_from_in_parts(kind: str, long: str) -> None:
    parts = [long[start : start + 1000] for start in range(0, len(long), 1000)]
    whole = train_subword(kind, lambda: [["the cat", long, "a dog"]], 320)
    assert whole.definition == train_subword(kind, lambda: [["the cat", *parts, "a dog"]], 320).definition


def test_many_short_words_without_a_space_between_are_learned_from_as_they_stand() -> None:
    document = "one,two;" * 400
    assert _with_short_words(document, ByteLevel(add_prefix_space=False)) == [document]


def test_an_error_while_reading_is_the_one_that_is_raised() -> None:
    def broken() -> Iterable[list[str]]:
        yield LINES
        raise SettingError("torn")

    with pytest.raises(SettingError, match="torn"):
        train_subword("bpe", broken, 300)


def test_special_tokens_are_left_out_and_nothing_is_added_or_cut() -> None:
    tokenizer = brought("gpt2")
    assert tokenizer.vocabulary_size == like_gpt2().get_vocab_size() - 1 + 3
    assert tokenizer.vocabulary.tokens()[:4] == [b"<unk>", b"<s>", b"</s>", b"!"]
    assert tokens(tokenizer, "a b c d e f g") == ["a", "Ġb", "Ġc", "Ġd", "Ġe", "Ġ", "f", "Ġ", "g"]
    assert "".join(tokens(tokenizer, "<|endoftext|>")) == "<|endoftext|>"
    assert len(tokens(tokenizer, "<|endoftext|>")) > 5
    assert tokens(tokenizer, "in new york  a") == ["i", "n", "Ġ", "newĠyork", "ĠĠ", "a"]


def test_bert_cuts_and_loses_as_it_says() -> None:
    tokenizer = brought("bert")
    encoded = tokenizer.encode_texts(["The CATS, [SEP] Zoë"])
    assert encoded.text.tobytes().decode().startswith("the cat")
    assert tokenizer.loses == "spaces,bertnormalizer,pictures"
    assert tokenizer.align(encoded).text.tobytes().decode() == "the cats , [ sep ] zoe\n"
    assert "[UNK]" not in map(bytes.decode, tokenizer.vocabulary.tokens())
    pieces = like_bert().encode("the cats sat", add_special_tokens=False).tokens
    assert tokens(tokenizer, "the cats sat") == pieces


def test_sentencepiece_spaces_belong_to_the_piece_after_them_but_the_first_is_nobodys() -> None:
    tokenizer = brought("t5")
    encoded = tokenizer.encode_texts(["the cat 日本 sat"])
    found = tokenizer.align(encoded)
    text = found.text.tobytes()
    assert text.decode() == "the cat 日本 sat\n"
    spans = [text[a:b].decode() for a, b in zip(found.starts.tolist(), found.stops.tolist(), strict=True)]
    assert "".join(spans) == text.decode()
    assert spans[:4] == ["", "t", "h", "e"]
    assert spans[4] == " cat"
    assert "日本" in spans
    unknown = encoded.ids.tolist().index(UNKNOWN)
    assert encoded.surface(unknown).decode() == "日本"
    assert like_t5().encode("the cat", add_special_tokens=False).tokens == tokens(tokenizer, "the cat")


def test_llama_names_the_bytes_of_what_it_does_not_know() -> None:
    tokenizer = brought("llama")
    assert tokens(tokenizer, "the é") == ["▁the", "▁", "<0xC3>", "<0xA9>"]
    assert tokens(tokenizer, "the é") == like_llama().encode("the é", add_special_tokens=False).tokens
    assert tokenizer.loses == "metaspaces,pictures"


def test_whole_words() -> None:
    tokenizer = brought("words")
    encoded = tokenizer.encode_texts(["the  dog sat", ""])
    assert encoded.ids.tolist() == [3, UNKNOWN, 5, 2, 2]
    assert tokenizer.align(encoded).text.tobytes() == b"the dog sat\n\n"
    assert whole_words().get_vocab_size() + 2 == tokenizer.vocabulary_size


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bert", "words"])
def test_a_definition_makes_the_same_tokenizer_again(name: str) -> None:
    first = brought(name).splitter
    again = Subword(first.definition, "again")
    assert (again.definition, again.alphabet, again.loses) == (first.definition, first.alphabet, first.loses)


NO_BYTES = json.loads(file_bytes("llama"))
NO_BYTES["model"] = {**NO_BYTES["model"], "unk_token": None, "byte_fallback": False}


FAR = file_bytes("words").replace(b'"sat":3', b'"sat":4000000000')


@pytest.mark.parametrize(
    ("definition", "error", "message"),
    [
        (b"", ModelFormatError, r"x\.json: is not a tokenizer\.json: Expecting value"),
        (b"\xff\xfe", ModelFormatError, r"x\.json: is not a tokenizer\.json"),
        (b"[1]", ModelFormatError, "it has no model"),
        (b'{"model": 3}', ModelFormatError, "it has no model"),
        (b'{"model": {"type": "Foo"}}', ModelFormatError, "is not a readable tokenizer.json: data did not match"),
        (changed("gpt2", decoder=None), SettingError, r"its decoder is none"),
        (changed("gpt2", decoder={"type": "BPEDecoder", "suffix": "</w>"}), SettingError, r"its decoder is BPEDecoder"),
        (b"[" * 10**5, ModelFormatError, r"x\.json: is not a tokenizer\.json"),
        (b'{"model": {"type": "\\ud800"}}', ModelFormatError, "is not a readable"),
        (FAR, ModelFormatError, "numbers 4 tokens up to 4,000,000,000; it is damaged"),
        (json.dumps(NO_BYTES).encode(), SettingError, "neither all bytes nor an unknown token"),
    ],
)
def test_an_unusable_tokenizer_json_is_an_error(definition: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Subword(definition, "x.json")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SettingError, match=r"pip install 'chainrule\[subword\]'"):
        train_subword("bpe", lines, 300)
    with pytest.raises(SettingError, match=r"pip install 'chainrule\[subword\]'"):
        Subword(b'{"model": {}}', "x.json")


def test_an_error_inside_the_library_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """As the library's own, which is no Exception."""

    class Broken:
        def encode_batch_fast(self, *_: object, **__: object) -> None:
            raise Panic("index out of range")

    subword = Subword(file_bytes("t5"), "x.json")
    tokenizer = tokenizer_of(subword)
    monkeypatch.setattr(subword, "_library", Broken())
    with pytest.raises(ModelFormatError, match=r"x\.json: cannot be used on this text: index out of range"):
        tokenizer.encode_texts(["the cat"])


def test_opening_spells_no_piece_and_a_text_only_those_that_occur_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spelled: list[str] = []
    piece = Words.piece

    def counted(self: Words, content: str) -> bytes:
        spelled.append(content)
        return piece(self, content)

    monkeypatch.setattr(Words, "piece", counted)
    subword = Subword(file_bytes("bert"), "bert.json")
    assert spelled == []
    text = "the cat the cats"
    occurring = tokenizers.Tokenizer.from_str(file_bytes("bert").decode()).encode(text, add_special_tokens=False).tokens
    for _ in range(2):
        list(subword.write([text.encode()]))
        assert sorted(spelled) == sorted(set(occurring))


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "words"])
def test_the_parts_of_a_file_are_as_the_library_writes_the_whole(name: str) -> None:
    opened = tokenizers.Tokenizer.from_str(file_bytes(name).decode())
    whole = json.loads(opened.to_str())
    understood = _with_defaults(opened, _clean_definition(file_bytes(name), name)[1])
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        assert understood[part] == whole[part]
    for added, other in zip(understood["added_tokens"], whole["added_tokens"], strict=True):
        assert added == {"content": other["content"], "special": other["special"]}
    for setting in ("type", "unk_token", "unk_id"):
        assert understood["model"].get(setting) == whole["model"].get(setting)
    assert bool(understood["model"].get("byte_fallback")) == bool(whole["model"].get("byte_fallback"))
    assert not understood["model"].keys() & {"vocab", "merges"}


@pytest.mark.parametrize(
    "characters",
    [
        b"abc",  # shorter than its size
        b"\xff\xff\xff\xff",  # a trie of 4 GB, which is not there
        bytes([4, 0, 0, 0, 0, 0, 0, 0]) + b"\xff\xff",  # replacements that are not UTF-8
        bytes([8, 0, 0, 0, 0, 0, 1, 0]) + b"\xff\xff\xff\0ab",  # a root that leads out of the trie
    ],
)
def test_a_damaged_map_of_characters_is_refused_before_the_library_panics(
    characters: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    normaliser = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(characters).decode()}
    definition = {
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [normaliser]},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]], "byte_fallback": False},
    }
    with pytest.raises(ModelFormatError, match=r"x.json: its map of characters .* is cut off or damaged"):
        Subword(json.dumps(definition).encode(), "x.json")
    assert "panicked" not in capfd.readouterr().err
