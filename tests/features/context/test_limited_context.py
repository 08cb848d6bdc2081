"""Networks that see at most so many words or tokens before each, against naive loops that read just these."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from samples import sampled
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import BEGIN, END, begun, byte_level

import chainrule as library
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

TEXTS = ["the cat sat on the mat", "the unfit dog  bit the mats and man", "man"]
TRAINING = library.TrainingConfig(steps=1, compile="no")


class Theirs:
    """A tiny model of transformers, as log-probabilities of what comes after what is read; and ours of its files."""

    def __init__(self, name: str, folder: Path, *, adds_begin: bool) -> None:
        self.tokenizer = begun(byte_level()) if adds_begin else byte_level()
        self.model, self.adds_begin = shaken(CAUSAL[name]), adds_begin
        self.ours = library.load(save(self.model, folder, self.tokenizer), library.CausalModel)
        self.numbering = TokenIdMap(**self.ours.record["hugging_face"]["tokens"])
        self.first = BEGIN if adds_begin else END
        shown = [self.tokenizer.id_to_token(i) or "" for i in range(self.numbering.rows)]
        self.borders = np.array([token[:1] in "ĠĊĉčĀ" and token != "" for token in shown])
        self.borders[END] = True

    @torch.inference_mode()
    def log_probs(self, read: list[int]) -> ndarray:
        """After each id that is read: (T, V)."""
        logits = self.model(torch.tensor([read])).logits[0].double()
        if self.numbering.begin is not None:
            logits[:, self.numbering.begin] = -torch.inf
        return logits.log_softmax(-1).numpy()

    def words(self, text: str) -> list[list[int]]:
        """The ids of each word, with its space, and of the end."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        starts = [i for i, own in enumerate(ids) if i == 0 or (self.borders[own] and not self._is_white(ids[i - 1]))]
        return [ids[start:stop] for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)] + [[END]]

    def _is_white(self, number: int) -> bool:
        return set(self.tokenizer.id_to_token(number)) <= {"Ġ"}

    def window(self, units: list[list[int]], i: int, most: int) -> list[int]:
        """What is read before a unit: the beginning is one more of them, unless the tokenizer adds it."""
        if self.adds_begin:
            return [self.first, *itertools.chain(*units[max(0, i - most) : i])]
        return [*itertools.chain(*[[self.first], *units[:i]][max(0, i + 1 - most) :])]


@pytest.fixture(scope="module", params=[("gpt2", False), ("llama", True)], ids=["gpt2", "llama, begun"])
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    name, adds_begin = request.param
    return Theirs(name, tmp_path_factory.mktemp("hf"), adds_begin=adds_begin)


@pytest.mark.parametrize("most", sampled([1, 2, 4], [2]))
def test_each_word_has_what_transformers_gives_after_exactly_so_many_words(theirs: Theirs, most: int) -> None:
    rows = library.surprisal(library.Lines(TEXTS), theirs.ours.limited(context_words=most), ends=True, entropy=True)
    found = iter(rows.to_records())
    total = 0.0
    for text in TEXTS:
        words = theirs.words(text)
        for i, word in enumerate(words):
            before = theirs.window(words, i, most)
            log_probs = theirs.log_probs([*before, *word])[len(before) - 1 :]
            row = next(found)
            nats = -log_probs[np.arange(len(word)), word].sum()
            assert row["uncorrected_bits"] == pytest.approx(nats / math.log(2), rel=1e-4)
            begins = 0.0 if i == 0 else np.logaddexp.reduce(log_probs[0, theirs.borders])
            ends = 0.0 if word == [END] else np.logaddexp.reduce(log_probs[-1, theirs.borders])
            assert row["surprisal_bits"] == pytest.approx((nats + begins - ends) / math.log(2), rel=1e-4)
            probs = np.exp(log_probs[0])
            entropy = -(probs[probs > 0] * np.log2(probs[probs > 0])).sum()
            assert row["entropy_bits"] == pytest.approx(entropy, rel=1e-4)
            total += nats + begins - ends
    assert next(found, None) is None
    limited = theirs.ours.limited(context_words=most)
    assert -limited.score(TEXTS).sum() == pytest.approx(total, rel=1e-4)
    measured = limited.evaluate(library.Lines(TEXTS))
    assert -measured.log_prob == pytest.approx(total, rel=1e-4)
    assert measured.signature.endswith(f"|sees:{most} words")
    texts = library.surprisal(library.Lines(TEXTS), limited, by="texts", nats=True)
    assert sum(row["surprisal_nats"] for row in texts) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("most", sampled([1, 5], [5]))
def test_each_token_has_what_transformers_gives_after_exactly_so_many_tokens(theirs: Theirs, most: int) -> None:
    limited = theirs.ours.limited(context_tokens=most)
    found = library.surprisal(library.Lines(TEXTS), limited, by="tokens", ends=True, nats=True)
    expected = []
    for text in TEXTS:
        units = [[number] for word in theirs.words(text) for number in word]
        for i, [number] in enumerate(units):
            expected.append(-theirs.log_probs(theirs.window(units, i, most))[-1, number])
    assert [row["surprisal_nats"] for row in found] == pytest.approx(expected, rel=1e-4)
    assert -limited.evaluate(library.Lines(TEXTS)).log_prob == pytest.approx(sum(expected), rel=1e-4)
    uncorrected = library.surprisal(library.Lines(TEXTS), limited, ends=True, nats=True)
    assert sum(row["uncorrected_nats"] for row in uncorrected) == pytest.approx(sum(expected), rel=1e-4)
    assert sum(row["surprisal_nats"] for row in uncorrected) == pytest.approx(sum(expected), rel=1e-4)


def test_texts_have_probabilities_that_sum_to_one(theirs: Theirs) -> None:
    """At the border of words, where two windows meet, and inside of a word."""
    engine = theirs.ours.limited(context_words=1).engine
    size = theirs.ours.vocabulary_size
    for text in ("the cat sat", "the cat s"):
        ids = theirs.numbering.ours()[[*itertools.chain(*theirs.words(text)[:-1])]].astype(np.int32)
        last = [np.array([token], np.int32) for token in range(size)]
        log_probs = engine.score(last, prefixes=[ids] * size, end=False)
        assert np.exp(np.concatenate(log_probs, dtype=np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_a_text_has_the_same_bits_whatever_stands_beside_it(theirs: Theirs) -> None:
    limited = theirs.ours.limited(context_words=2)
    rows = library.surprisal(library.Lines(TEXTS), limited, entropy=True).to_records()
    for number, text in enumerate(TEXTS, 1):
        alone = library.surprisal(library.Lines([text]), limited, entropy=True)
        assert [row for row in rows if row["sentence"] == number] == [row | {"sentence": number} for row in alone]


def test_a_limit_that_no_text_reaches_changes_nothing(theirs: Theirs) -> None:
    """Nor does one of more words than the network reads at once."""
    whole = theirs.ours.score(TEXTS)
    for limit in ({"context_words": 9}, {"context_tokens": 60}):
        assert theirs.ours.limited(**limit).score(TEXTS) == pytest.approx(whole, rel=1e-6)
    long = library.Lines(["unfit dogs " * 40])  # 50 of these words are some 200 tokens
    every = theirs.ours.limited(context_tokens=64 - theirs.adds_begin)
    tables = [library.surprisal(long, limited, nats=True) for limited in (theirs.ours.limited(context_words=50), every)]
    words, tokens = ([row["uncorrected_nats"] for row in table] for table in tables)
    assert words == pytest.approx(tokens, rel=1e-5)


@pytest.mark.parametrize("memory", ["document", "stream"])
@pytest.mark.parametrize("unit", ["context_words", "context_tokens"])
def test_a_recurrent_network_reads_only_its_window(memory: Any, unit: str) -> None:
    """A naive loop over the module; words of the tokenizer `whitespace` are tokens, and so both limits are one."""
    lines = ["a bb c", "bb", "c c a bb a c"]
    config = library.RecurrentConfig(width=8, layers=1, memory=memory)
    model = library.train(library.Lines(lines * 9), config, tokenizer="whitespace", training=TRAINING)
    network = model.engine.network
    ids = model.tokenizer.encode_texts(lines).ids
    expected = 0.0
    for number, target in enumerate(ids.tolist()):
        read = [2, *ids[:number].tolist()]
        if memory == "document":
            read = read[max(i for i, token in enumerate(read) if token == 2) :]
        with torch.inference_mode():
            hidden, _ = network.read(torch.tensor([read[-2:]]))
            expected += float(network.output.log_probs(hidden[0, -1:])[0, target])
    measured = model.limited(**{unit: 2}).evaluate(library.Lines(lines))
    assert measured.log_prob == pytest.approx(expected, rel=1e-5)


def test_the_reach_of_a_feedforward_network_is_a_limit_that_changes_nothing() -> None:
    lines = ["a bb c", "bb", "c c a bb a c a a bb"]
    config = library.FeedforwardConfig(window=3, width=8)
    model = library.train(library.Lines(lines * 9), config, tokenizer="whitespace", training=TRAINING)
    reach = model.engine.network.reach
    assert model.limited(context_tokens=reach).score(lines) == pytest.approx(model.score(lines), rel=1e-6)
    assert model.limited(context_tokens=reach - 1).score(lines) != pytest.approx(model.score(lines), rel=1e-6)
    with pytest.raises(library.SettingError, match=f"context_words is 9; expected 1 to {reach}, the tokens"):
        model.limited(context_words=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_words": 0}, "context_words is 0; expected 1 or more"),
        ({"context_words": 1, "context_tokens": 1}, "are both given; choose one"),
        ({"context_tokens": 65}, "context_tokens is 65; expected 1 to 6[34], the tokens that the network sees"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, int], message: str, theirs: Theirs) -> None:
    with pytest.raises(library.SettingError, match=message):
        theirs.ours.limited(**options)


def test_models_without_a_limit_say_why() -> None:
    lines = library.Lines(["a bb c", "bb"] * 9)
    lm = library.train(lines, library.NGramConfig(order=3))
    with pytest.raises(library.SettingError, match="an n-gram model of order 3 sees 2 tokens before each"):
        lm.limited(context_words=2)
    network = library.train(lines, library.RecurrentConfig(width=8, layers=1), training=TRAINING)
    with pytest.raises(library.SettingError, match="family 'mixture'; limit its networks one by one"):
        library.mix([lm, network]).limited(context_words=2)
    with pytest.raises(library.SettingError, match="a limited context has no entropy of the next word"):
        library.surprisal(lines, network.limited(context_words=2), word_entropy=2)
    assert network.limited() is network


def test_the_shell_has_a_model_for_each_size(chainrule: Any, theirs: Theirs, tmp_path: Path) -> None:
    theirs.ours.save(tmp_path / "net")
    (tmp_path / "t.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    say = ["score", tmp_path / "net", tmp_path / "t.txt", "--words", "--context-words", "1", "3"]
    assert chainrule(*say, "-o", tmp_path / "t.jsonl").status == 0
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    for most in (1, 3):
        alone = library.surprisal(tmp_path / "t.txt", theirs.ours.limited(context_words=most))
        expected = [row["surprisal_bits"] for row in alone]
        assert [row[f"surprisal_bits_net-words-{most}"] for row in rows] == pytest.approx(expected)
    assert chainrule(*say, "--long", "-o", tmp_path / "long.jsonl").status == 0
    long = [json.loads(line) for line in (tmp_path / "long.jsonl").read_text().splitlines()]
    assert [row["model"] for row in long if row["sentence"] == 3] == ["net-words-1", "net-words-3"]
    assert "Several sizes of context are for tables" in chainrule(*say).error
    lines = [line.split("\t") for line in chainrule(*say[:4], "--context-words", "3").lines if line]
    assert sum(float(row[0]) for row in lines) == pytest.approx(theirs.ours.limited(context_words=3).score(TEXTS).sum())
    found = chainrule("evaluate", *say[1:3], *say[4:], "--json")
    assert ["sees:1 words" in line for line in found.lines] == [True, False]


def test_a_note_says_where_lines_are_far_shorter_than_the_context(
    chainrule: Any, theirs: Theirs, tmp_path: Path, fixtures: Path
) -> None:
    """The context is 64: lines of 4.5 tokens on average are, and lines of 13 are not."""
    short, whole = tmp_path / "short.txt", tmp_path / "whole.txt"
    short.write_text("the cat sat\nman\n")
    whole.write_text("the unfit dog bit the mats\n" * 2)
    note = "each line is a document, of 4 tokens on average, and the model reads up to 64"
    theirs.ours.save(tmp_path / "net")
    assert note in chainrule("evaluate", tmp_path / "net", short).err
    for options in ([whole], [short, "--document", "file"], [short, "--context-words", "2"]):
        assert "is a document" not in chainrule("evaluate", tmp_path / "net", *options).err
    lm = library.train(fixtures / "train.txt", library.NGramConfig(order=2))
    lm.save(tmp_path / "lm")
    table = chainrule("compare", tmp_path / "net", tmp_path / "lm", "--text", short).out
    assert f"{tmp_path / 'net'}: {note}" in table
    assert f"{tmp_path / 'lm'}: each line" not in table
