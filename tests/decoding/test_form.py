"""Texts in a form: masks, samples, probabilities and beams against all texts of tiny models, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.decoding.config import BeamConfig, Limits, SamplingConfig, read_grammar, read_schema
from chainrule.decoding.form import FormTokens, form_of
from chainrule.decoding.text_generator import form_probability
from chainrule.errors import SettingError
from chainrule.protocol import END

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.models.language_models import CausalModel

LINES = ["the dog said: no", "the cat said: yes", "a dog (the cat) said no", "the cat, the dog"] * 3
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}

DEEP: dict[str, Any] = {}
for _ in range(3000):
    DEEP = {"items": DEEP}


def trained(tokenizer: str, order: int = 2) -> CausalModel:
    return chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=order), tokenizer=tokenizer)


def texts_in(model: CausalModel, form: str, longest: int, prompt: str = "") -> dict[tuple[int, ...], float]:
    """All sequences of at most `longest` tokens whose text matches a regular expression, with log P and </s>."""
    lm, tokenizer = model.language_model, model.tokenizer
    before = tokenizer.encode_texts([prompt]).ids[:-1].tolist()
    start = len(tokenizer.decode(before))
    found = {}
    for size in range(longest + 1):
        for ids in itertools.product(range(3, lm.vocabulary_size), repeat=size):
            text = tokenizer.decode([*before, *ids])[start:]
            if re.fullmatch(form, text.removeprefix(" ") if prompt else text):
                [row] = lm.score([np.array(ids, np.int32)], prefixes=[np.array(before, np.int32)])
                found[ids] = float(row.sum(dtype=np.float64))
    return found


@pytest.mark.parametrize(
    ("tokenizer", "form", "longest", "prompt"),
    [
        ("word", r"the (dog|cat)( said)?:?", 4, ""),
        ("word", r"the (dog|cat)( said)?:?", 4, "the dog"),
        ("whitespace", r"(the|a) [a-z]{3}( said)?", 3, ""),
        ("character", r"(no|on|nd?)", 3, ""),
        ("byte", r"[no]{1,2}", 2, ""),
    ],
)
def test_samples_probabilities_and_beams_are_those_of_all_texts(
    tokenizer: str, form: str, longest: int, prompt: str
) -> None:
    model = trained(tokenizer)
    limits = Limits(regex=form, max_tokens=longest + 1)
    everything = texts_in(model, form, longest, prompt)
    drawn = model.sample(prompt, 2000, limits=limits, seed=1)
    found = {tuple(text.tokens): text for text in drawn if text.ending == "end"}
    spelled = {
        tuple(model.tokenizer.vocabulary.token_bytes(i).decode() for i in ids): p for ids, p in everything.items()
    }
    assert found
    for tokens, text in found.items():
        assert text.log_prob == pytest.approx(spelled[tokens], abs=1e-4)
    exact = sum(math.exp(log_prob) for log_prob in everything.values())
    estimate = form_probability(drawn)
    assert estimate.at_least <= exact * (1 + 1e-5)
    assert abs(estimate.value - exact) < 5 * estimate.error + 1e-9
    best = model.decoder.search(prompt, BeamConfig(size=64), limits)
    assert best.texts[0].log_prob == pytest.approx(max(everything.values()), abs=1e-4)


def test_a_beam_says_that_its_text_is_the_best_only_if_it_is() -> None:
    model = trained("character", 3)
    proven = 0
    for size, form in itertools.product((1, 2, 4, 16), (r"n?o?d?", r"[nosde ]{1,3}", r"(on|no|se|de)")):
        limits = Limits(regex=form, max_tokens=4)
        result = model.decoder.search("", BeamConfig(size=size), limits)
        best = max(texts_in(model, form, 3).values())
        if result.is_proven:
            assert result.texts[0].log_prob == pytest.approx(best, abs=1e-4)
            proven += 1
        else:
            assert size < 16
    assert proven >= 3


@pytest.mark.parametrize("tokenizer", ["byte", "character"])
@pytest.mark.parametrize("config", [SamplingConfig(), SamplingConfig(temperature=0), SamplingConfig(top_p=0.5)])
def test_json_fits_its_schema(tokenizer: str, config: SamplingConfig) -> None:
    text = [*LINES, *(json.dumps({"a": i, "b": "xy"[i % 2]}) for i in range(20))]
    model = chainrule.train(chainrule.Lines(text), chainrule.NGramConfig(order=4), tokenizer=tokenizer)
    for drawn in model.sample("", 5, config, Limits(json_schema=SCHEMA, max_tokens=200), seed=1):
        if drawn.ending == "end":
            value = json.loads(drawn.text)
            assert set(value) == {"a", "b"}
            assert type(value["a"]) is int
            assert value["b"] in ("x", "y")


def test_networks_and_pieces_of_words_have_forms(tmp_path: Path) -> None:
    training = chainrule.TrainingConfig(steps=1, compile="no")
    model = chainrule.train(
        chainrule.Lines(LINES * 10),
        chainrule.RecurrentConfig(layers=1, width=8),
        tokenizer=chainrule.TokenizerConfig(kind="bpe", vocabulary_size=300),
        training=training,
    )
    texts = model.sample("the dog", 4, limits=Limits(choices=["said yes", "said no"]), seed=1)
    assert {text.continuation.strip() for text in texts} <= {"said yes", "said no"}
    together = model.decoder.sample_each(["the dog", "a cat"], 2, limits=Limits(regex="[a-z]{2,5}"), seed=1)
    assert [text.continuation for text in together[:2]] == [
        text.continuation for text in model.sample("the dog", 2, limits=Limits(regex="[a-z]{2,5}"), seed=1)
    ]


def test_a_grammar_may_be_of_lark_or_gbnf(tmp_path: Path) -> None:
    model = trained("byte", 3)
    lark, gbnf = tmp_path / "a.lark", tmp_path / "a.gbnf"
    lark.write_text('start: "(" start ")" | "no"\n')
    gbnf.write_text('root ::= "(" root ")" | "no"\n')
    for path in (lark, gbnf):
        limits = Limits(grammar=read_grammar(path), max_tokens=300)
        for text in model.sample("", 5, limits=limits, seed=2):
            assert re.fullmatch(r"\(*no\)*", text.text)
            assert text.text.count("(") == text.text.count(")")


def test_a_text_that_is_stuck_is_drawn_again_and_counts_as_outside_the_form() -> None:
    lines = ["the an end", "the cat end", "the an an end"] * 3
    model = chainrule.train(chainrule.Lines(lines), chainrule.NGramConfig(order=2))
    limits = Limits(regex="the [a-z]{3}", max_tokens=4)  # after `an`, no word has one letter more
    drawn = model.sample("", 200, limits=limits, seed=1)
    assert {text.text for text in drawn} == {"the cat", "the end", "the the"}
    estimate, exact = form_probability(drawn), sum(map(math.exp, texts_in(model, limits.regex or "", 3).values()))
    assert any(text.log_mass == -math.inf for text in drawn)
    assert abs(estimate.value - exact) < 5 * estimate.error


def test_what_tokens_add_depends_on_the_token_before_them() -> None:
    tokens = FormTokens(trained("word").tokenizer)
    state = form_of(Limits(regex=r"dog \(the cat, the dog\)"), trained("word").tokenizer, "")
    assert tokens.separates
    assert state is not None
    ids = trained("word").tokenizer.encode_texts(["dog (the cat, the dog)"]).ids.tolist()
    walk = state.begin()
    for token in ids[:-1]:
        assert walk.mask()[token]
        walk.add(token)
    assert walk.mask()[END]
    assert walk.text == "dog (the cat, the dog)"
    copied = walk.copy()
    assert (copied.text, copied.mask().tolist()) == (walk.text, walk.mask().tolist())


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"regex": "a(b"}, r"regex cannot be enforced: unclosed group \(character 2\)"),
        ({"regex": "(?=a)b"}, "look-around"),
        ({"regex": "qqq"}, "no token of the vocabulary can begin a text that fits regex"),
        ({"grammar": "root ::= ("}, r"grammar is not one of GBNF: Expected '\)' \(line 1\)"),
        ({"choices": ["the dog", "the qqq"]}, "'the qqq' has a word that the vocabulary lacks"),
        ({"regex": "the [a-z]{7}"}, "no token of the vocabulary continues the form after 'the'"),
        ({"regex": "the dog", "begin": "cat"}, "begin does not fit regex after ''"),
        ({"regex": "the", "min_tokens": 5}, "after 'the', the form allows only what min_tokens"),
        ({"json_schema": {"x-guidance": {"lenient": True}}}, "x-guidance is no keyword"),
        ({"json_schema": {"type": "object", "maxProperties": 2}}, "maxProperties where keys are open"),
        ({"json_schema": {"enum": {1, 2}}}, "json_schema is not JSON"),
        ({"json_schema": DEEP}, "nested more than 100 deep"),
    ],
)
def test_forms_that_cannot_be_enforced_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        trained("word").sample("", 1, limits=Limits(**limits), seed=1)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"regex": "a", "choices": ["b"]}, "regex and choices both say"),
        ({"choices": "a"}, "choices takes several texts"),
        ({"choices": ["a", ""]}, "there is no choice, or one is empty"),
        ({"choices": []}, "there is no choice"),
        ({"json_schema": True}, "expected an object"),
        ({"regex": "a", "unknown": "spelled"}, "spelled out"),
    ],
)
def test_limits_that_contradict_a_form_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Limits(**limits)


def test_files_of_forms_are_read_with_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    deep = b"[" * 100_000
    for content, message in (
        (b"{", "is not JSON"),
        (b'{"a": NaN}', "NaN"),
        (deep, "nested too deeply"),
        (b"null", "an object"),
    ):
        path.write_bytes(content)
        with pytest.raises(SettingError, match=message):
            read_schema(path)
    path.write_bytes(b"\xff")
    with pytest.raises(SettingError, match="not UTF-8"):
        read_grammar(path)
    with pytest.raises(SettingError, match="name a file"):
        read_grammar(tmp_path / "nowhere")


def test_without_the_library_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained("word")
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(SettingError, match=r"pip install 'chainrule\[form\]'"):
        model.sample("", 1, limits=Limits(regex="the dog"), seed=1)


def test_a_probability_needs_texts_in_a_form() -> None:
    model = trained("word")
    with pytest.raises(SettingError, match="not drawn in a form"):
        form_probability(model.sample("", 2, seed=1))
    hot = model.sample("", 2, SamplingConfig(temperature=0.5), Limits(regex="the dog"), seed=1)
    with pytest.raises(SettingError, match="no temperature"):
        form_probability(hot)
    cut = model.sample("", 3, limits=Limits(regex="the dog said", max_tokens=1), seed=1)
    assert form_probability(cut) == (0.0, math.inf, 0.0)
    rare = [text._replace(log_mass=-600.0 - i, ending="end") for i, text in enumerate(cut)]
    assert 0 < form_probability(rare).error < form_probability(rare).value < 1e-250


def test_thousands_of_choices_are_a_form() -> None:
    choices = [f"no {number}" for number in range(3000)]
    [text] = trained("byte").sample("", 1, limits=Limits(choices=choices), seed=1)
    assert text.text in choices


def test_white_space_in_json_is_little() -> None:
    spaces = chainrule.Lines([" " * 40 + "{}" + " " * 40] * 5)
    model = chainrule.train(spaces, chainrule.NGramConfig(order=3), tokenizer="byte")
    for text in model.sample("", 5, limits=Limits(json_schema=SCHEMA, max_tokens=300), seed=1):
        assert "   " not in text.text.replace("\n" + " " * 3, "\n") or "\n" in text.text
    indented = form_of(Limits(json_schema=SCHEMA), model.tokenizer, "")
    assert indented is not None
    for indent in (None, 1, 4):
        written = json.dumps({"a": 1, "b": "x"}, indent=indent)
        assert indented.after(model.tokenizer.encode_texts([written]).ids[:-1].tolist()) is not None
    with pytest.raises(SettingError, match="no text"):
        form_probability([])
