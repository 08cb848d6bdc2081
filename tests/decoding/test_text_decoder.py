from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule import BeamConfig, Limits, Model, NGramConfig, SamplingConfig
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module", params=["whitespace", "word", "character", "byte", "bpe"])
def model(request: pytest.FixtureRequest, fixtures: Path) -> Model:
    return chainrule.train(fixtures / "train.txt", NGramConfig(order=4), tokenizer=request.param)


@pytest.fixture(scope="module")
def words(fixtures: Path) -> Model:
    return chainrule.train(fixtures / "train.txt", NGramConfig(order=3), tokenizer="whitespace")


SENTENCES = ["Well, he said (twice): no!", "No, she said, no.", "He said: well (no).", "Twice no, she said."] * 3


@pytest.fixture(scope="module")
def marked() -> Model:
    """Tokens that touch each other."""
    return chainrule.train(chainrule.Lines(SENTENCES), NGramConfig(order=3), tokenizer="word")


def test_a_stream_is_the_sampled_text_in_pieces(model: Model) -> None:
    for limits in (Limits(max_tokens=12), Limits(max_tokens=30, stop=["vi", "a"])):
        texts = model.sample("ka vi", 6, SamplingConfig(temperature=1.3), limits, seed=4)
        for i, text in enumerate(texts):
            pieces = list(model.decoder.stream("ka vi", SamplingConfig(temperature=1.3), limits, seed=4, number=i))
            assert "".join(pieces) == text.text
            assert pieces[0] == "ka vi"
            assert all(pieces)
    assert any(text.ending == "stop" for text in texts)


def test_the_first_texts_are_the_same_however_many_are_asked_for(model: Model) -> None:
    assert model.generate("ka", 7, seed=3)[:2] == model.generate("ka", 2, seed=3)


def test_texts_hold_no_stop_string_after_the_prompt(model: Model) -> None:
    plain = model.generate("ka vi", 40, limits=Limits(max_tokens=60), seed=5)
    texts = model.sample("ka vi", 40, limits=Limits(max_tokens=60, stop=["i", "bo "]), seed=5)
    for before, text in zip(plain, texts, strict=True):
        generated = before.removeprefix("ka vi")
        stops = [place for stop in ("i", "bo ") if (place := generated.find(stop)) >= 0]
        assert text.text == "ka vi" + (generated[: min(stops)] if stops else generated)
        assert (text.ending == "stop") == bool(stops)


def test_a_beam_ends_at_stop_strings_too(marked: Model) -> None:
    texts = marked.beam("He", BeamConfig(size=6, best=6), Limits(stop=[" (", ", "], max_tokens=8))
    assert any(text.ending == "stop" for text in texts)
    assert len({text.text for text in texts}) == len(texts)
    for text in texts:
        assert "(" not in text.text
        assert ", " not in text.text


def test_a_log_prob_is_that_of_the_whole_text_where_the_prompt_is_empty(words: Model) -> None:
    for text in (*words.sample("", 20, seed=1), *words.beam("", BeamConfig(size=5, best=5))):
        if text.ending == "end":
            assert text.log_prob == pytest.approx(words.score([text.text])[0], abs=1e-3)


def test_a_beam_finds_likelier_texts_than_sampling(words: Model) -> None:
    [best] = words.beam("ka", BeamConfig(size=20), Limits(max_tokens=8))
    assert best.log_prob >= max(text.log_prob for text in words.sample("ka", 50, limits=Limits(max_tokens=8), seed=1))


def test_unknown_words_are_never_printed(fixtures: Path) -> None:
    lines = (fixtures / "heldout.txt").read_text().splitlines()
    model = chainrule.train(
        chainrule.Lines([" ".join("<unk>" if len(word) > 2 else word for word in line.split()) for line in lines]),
        NGramConfig(order=2),
        tokenizer="whitespace",
        markers="keep",
    )
    banned = model.sample("ka", 30, seed=2)
    spelled = model.sample("ka", 30, limits=Limits(unknown="spelled"), seed=2)
    assert not any("<unk>" in text.text for text in (*banned, *spelled))
    known = set(model.tokenizer.vocabulary.tokens())
    assert all(word.encode() in known for text in banned for word in text.tokens)
    assert any(word.encode() not in known for text in spelled for word in text.tokens)
    assert spelled == model.sample("ka", 30, limits=Limits(unknown="spelled"), seed=2)
    pieces = model.decoder.stream("ka", limits=Limits(unknown="spelled"), seed=2, number=3)
    assert "".join(pieces) == spelled[3].text
    with pytest.raises(SettingError, match="beam search cannot spell"):
        model.beam("ka", limits=Limits(unknown="spelled"))


def test_words_are_allowed_and_banned_by_how_they_read(marked: Model) -> None:
    texts = marked.generate("No", 30, limits=Limits(banned=[",", "said"]), seed=1)
    assert not any("," in text or "said" in text for text in texts)
    assert any("," in text for text in marked.generate("No", 30, seed=1))
    texts = marked.generate("No", 30, limits=Limits(allowed=["she", ","], max_tokens=6), seed=1)
    assert all(set(text.removeprefix("No").replace(",", " ").split()) <= {"she"} for text in texts)


@pytest.mark.parametrize("search", [False, True])
def test_texts_begin_as_they_must(marked: Model, search: bool) -> None:
    for begin, expected in ((", she", "No, she"), ("said", "No said"), (" said", "No said")):
        limits = Limits(begin=begin, max_tokens=6)
        made = marked.beam("No", limits=limits) if search else marked.sample("No", 5, limits=limits, seed=1)
        assert all(text.text.startswith(expected) for text in made)
    assert marked.generate("", 2, limits=Limits(begin="He said:"), seed=1)[0].startswith("He said:")


def test_a_prompt_of_unknown_words_is_kept_and_noted(words: Model) -> None:
    assert words.unknown_words("ka xyzzy vi plugh xyzzy") == ["xyzzy", "plugh"]
    assert words.unknown_words("ka vi") == words.unknown_words("") == []
    assert all(text.startswith("xyzzy plugh") for text in words.generate("xyzzy plugh", 3))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"stop": ["two  spaces"]}, "'two  spaces' never occurs: the whitespace tokenizer turns it into 'two spaces'"),
        ({"stop": ["a\nb"]}, "never occurs: the whitespace tokenizer turns it into 'a b'"),
        ({"stop": ["ka xyzzy vi"]}, "'ka xyzzy vi' never occurs: the vocabulary lacks a word of it"),
        ({"stop": ["Ü"]}, "'Ü' never occurs: the vocabulary lacks"),
        ({"stop": [""]}, "a stop string is empty"),
        ({"stop": "ka"}, "stop takes several texts; put a single one in a list"),
        ({"allowed": ["xyzzy"]}, "the allowed word 'xyzzy' is not a token"),
        ({"banned": ["ka vi"]}, "the banned word 'ka vi' is not a token"),
        ({"banned": ["<|im_end|>"]}, "leave it out; min_tokens keeps texts from ending, if it is an end"),
        ({"banned": ["</s>"]}, None),
        ({"allowed": ["ka"], "banned": ["ka"]}, "'ka' is allowed and banned"),
        ({"begin": "xyzzy"}, "must begin with 'xyzzy', but the vocabulary lacks a word of it"),
        ({"begin": "ka", "banned": ["ka"]}, "must begin with token"),
        ({"begin": "ka vi", "stop": ["a v"]}, "must begin with 'ka vi', which contains a stop string"),
        ({"begin": "ka vi", "max_tokens": 1}, "begin has 2 tokens"),
        ({"max_tokens": 3, "min_tokens": 4}, "min_tokens is 4, more than max_tokens, 3"),
        ({"unknown": "shown"}, "unknown is 'shown'; expected banned or spelled"),
    ],
    ids=str,
)
def test_limits_that_cannot_be_are_errors_that_say_why(
    words: Model, limits: dict[str, Any], message: str | None
) -> None:
    def decode() -> None:
        words.generate("ka", limits=Limits(**limits), seed=1)
        words.beam("ka", limits=Limits(**limits))

    if message is None:
        decode()
        return
    with pytest.raises(SettingError, match=message):
        decode()


@pytest.mark.parametrize("stop", [" ", "a k", "ka vi", "vi ", " vi", "i n"])
def test_stop_strings_that_the_tokenizer_can_write_end_the_text(words: Model, stop: str) -> None:
    cut = 0
    for seed in range(100):
        [whole] = words.generate(seed=seed)
        first, found, _ = whole.partition(stop)
        assert words.generate(limits=Limits(stop=[stop]), seed=seed) == [first]
        cut += bool(found)
    assert cut > 0


def test_a_tree_names_its_tokens(words: Model) -> None:
    found = words.decoder.search("ka", BeamConfig(size=3, best=2), Limits(max_tokens=3), keep_tree=True)
    best = max((node for node in found.tree.nodes if node.score is not None), key=lambda node: node.score or -math.inf)
    path, node = [best], best
    while node.parent >= 0:
        node = found.tree.nodes[node.parent]
        path.append(node)
    names = [words.decoder.tokenizer.vocabulary.token(node.token) for node in path[::-1]]
    assert [name for name in names if name != "</s>"] == found.texts[0].tokens
    assert np.exp(best.total) > 0
