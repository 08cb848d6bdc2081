"""The stand-in for KenLM's module, held to what that module said of the files in fixtures/kenlm."""

from __future__ import annotations

import copy
import ctypes
import inspect
import math
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule import kenlm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BINARIES = ("probing", "rest", "bigrams", "trie", "array", "quantised", "quantised-array")


@pytest.fixture(scope="module")
def models(fixtures: Path) -> dict[str, kenlm.Model]:
    return {name: kenlm.Model(str(fixtures / f"kenlm/{name}.binary")) for name in BINARIES}


@pytest.fixture(scope="module")
def model(fixtures: Path) -> kenlm.Model:
    return kenlm.Model(str(fixtures / "kenlm/small.arpa"))


def expected(fixtures: Path) -> Iterator[tuple[str, str, bool, bool, float, list[tuple[float, int, bool]]]]:
    for line in (fixtures / "kenlm/expected.tsv").read_text().splitlines():
        name, sentence, bos, eos, score, *parts = line.split("\t")
        words = [(float(p), int(n), oov == "1") for p, n, oov in (part.split() for part in parts)]
        text = sentence.encode().decode("unicode_escape")
        yield name, text, bos == "1", eos == "1", float(score), words


def test_scores_are_those_of_kenlm(models: dict[str, kenlm.Model], fixtures: Path) -> None:
    cases = 0
    for name, sentence, bos, eos, score, words in expected(fixtures):
        model = models[name]
        assert model.score(sentence, bos, eos) == pytest.approx(score, abs=2e-5)
        assert model.score(sentence.encode(), bos=bos, eos=eos) == model.score(sentence, bos, eos)
        assert model.scores([sentence, "ka", sentence], bos, eos)[2] == pytest.approx(score, abs=2e-5)
        actual = list(model.full_scores(sentence, bos, eos))
        assert [(n, oov) for _, n, oov in actual] == [(n, oov) for _, n, oov in words]
        assert [p for p, _, _ in actual] == pytest.approx([p for p, _, _ in words], abs=1e-6)
        cases += 1
    assert cases == 336


def test_states_are_equal_where_those_of_kenlm_are(models: dict[str, kenlm.Model], fixtures: Path) -> None:
    words = (fixtures / "kenlm/small.txt").read_text().split()
    for line in (fixtures / "kenlm/states.tsv").read_text().splitlines():
        name, *classes = line.split("\t")
        states = [state_after(models[name], words[i : i + 3]) for i in range(len(words) - 3)]
        assert [states.index(state) for state in states] == [int(first) for first in classes]
        assert len({*states}) == len({*classes})


def state_after(model: kenlm.Model, words: list[str], state: kenlm.State | None = None) -> kenlm.State:
    state = state or kenlm.State()
    for word in words:
        after = kenlm.State()
        model.BaseScore(state, word, after)
        state = after
    return state


def test_an_arpa_file_a_folder_and_a_binary_say_the_same(model: kenlm.Model, fixtures: Path, tmp_path: Path) -> None:
    arpa = fixtures / "kenlm/small.arpa"
    chainrule.load(arpa).save(tmp_path / "lm")
    (tmp_path / "any-name").write_bytes(arpa.read_bytes())
    chainrule.load(fixtures / "kenlm/trie.binary").save(tmp_path / "from-trie")
    others = [kenlm.Model(str(tmp_path / name)) for name in ("lm", "any-name", "from-trie")]
    for line in (fixtures / "heldout.txt").read_text().splitlines()[:20]:
        for other in others:
            assert other.score(line) == pytest.approx(model.score(line), abs=1e-5)


@given(st.lists(st.sampled_from(["ka", "vi", "nin", "bu", "zzz", "</s>", "<s>", "<unk>"]), max_size=12), st.booleans())
def test_words_one_by_one_are_the_sentence(fixtures: Path, model: kenlm.Model, words: list[str], begins: bool) -> None:
    for each in (model, kenlm.Model(str(fixtures / "kenlm/probing.binary"))):
        state, total = kenlm.State(), 0.0
        (each.BeginSentenceWrite if begins else each.NullContextWrite)(state)
        for word, (log_prob, length, oov) in zip(words, each.full_scores(" ".join(words), begins, False), strict=True):
            after = kenlm.State()
            actual = each.BaseFullScore(state, word, after)
            assert actual == (log_prob, length, oov)
            assert each.BaseScore(state, word, state) == actual.log_prob  # into the very state that it began from
            assert state == after
            assert (word in each) == (not oov)
            total += actual.log_prob
        assert each.score(" ".join(words), begins, False) == pytest.approx(total)


def test_perplexity_is_per_word_with_the_end(model: kenlm.Model) -> None:
    log_probs = [log_prob for log_prob, _, _ in model.full_scores("ka vi nin")]
    assert model.perplexity("ka vi nin") == pytest.approx(10 ** (-sum(log_probs) / 4))
    assert model.perplexity(b"") == pytest.approx(10 ** -model.score(""))


def test_a_perplexity_that_no_float_holds_is_infinite(tmp_path: Path) -> None:
    numbers = "\\data\\\nngram 1=4\n\n\\1-grams:\n-2000 <unk>\n-99 <s>\n-1 </s>\n-1 a\n\n\\end\\\n"
    (tmp_path / "steep.arpa").write_text(numbers)
    steep = kenlm.Model(str(tmp_path / "steep.arpa"))
    assert steep.perplexity("a a") == pytest.approx(10)
    assert steep.perplexity("unheard of") == math.inf


def test_many_sentences_at_once_are_each_of_them(model: kenlm.Model, fixtures: Path) -> None:
    lines = [*(fixtures / "heldout.txt").read_text().splitlines() * 20, "", "ka </s> vi", "ka\0vi", "日本 \udcff"[:2]]
    for bos, eos in ((True, True), (True, False), (False, True), (False, False)):
        actual = model.scores(iter(lines), bos, eos)
        assert actual == pytest.approx([model.score(line, bos, eos) for line in lines], abs=1e-4)
    assert model.scores([]).shape == (0,)


def test_begin_has_no_cost_and_leads_to_the_state_of_a_beginning(model: kenlm.Model) -> None:
    after, begun = kenlm.State(), kenlm.State()
    assert model.BaseScore(kenlm.State(), "<s>", after) == 0
    model.BeginSentenceWrite(begun)
    assert after == begun != kenlm.State()
    model.NullContextWrite(after)
    assert after == kenlm.State()


def test_states_are_ordered_hashed_copied_and_pickled(model: kenlm.Model) -> None:
    short, long = state_after(model, ["ka"]), state_after(model, ["ka", "vi"])
    assert kenlm.State() < short < long
    assert long > short
    assert short <= copy.copy(short) >= short
    assert short != long
    assert short != "ka"
    for twin in (
        copy.copy(long),
        copy.deepcopy([long])[0],
        pickle.loads(pickle.dumps(long)),
        state_after(model, ["ka", "vi"]),
    ):
        assert twin == long
        assert hash(twin) == hash(long)
        model.BaseScore(twin, "nin", twin)
        assert twin != long
    with pytest.raises(TypeError):
        assert short < 3  # type: ignore[operator]


@given(st.binary(min_size=192, max_size=192), st.sampled_from(["ka", "vi", "</s>", "zzz"]))
def test_any_bytes_are_a_state_that_does_no_harm(models: dict[str, kenlm.Model], garbage: bytes, word: str) -> None:
    for model in models.values():
        state, after = kenlm.State.from_buffer_copy(garbage), kenlm.State()
        assert ctypes.sizeof(state) == len(garbage)
        assert isinstance(model.BaseScore(state, word, after), float)
        assert 0 <= after[0] < model.order
        assert hash(state) == hash(kenlm.State.from_buffer_copy(garbage))


def test_a_model_has_its_path_and_can_be_pickled(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fixtures / "kenlm")
    model = kenlm.Model("small.arpa", kenlm.Config())
    assert model.path == os.fsencode(fixtures / "kenlm/small.arpa")
    assert model.order == 4
    assert repr(model) == "<Model from b'small.arpa'>"
    twin = pickle.loads(pickle.dumps(model))
    assert twin.score("ka vi") == model.score("ka vi")
    assert isinstance(kenlm.LanguageModel(b"small.arpa"), kenlm.Model)
    assert repr(model.BaseFullScore(kenlm.State(), "zzz", kenlm.State())).startswith("FullScoreReturn(-2.16")


def test_configurations_are_accepted() -> None:
    config = kenlm.Config()
    assert (config.load_method, config.show_progress, config.arpa_complain) == (2, True, 0)
    config.load_method, config.arpa_complain = kenlm.LoadMethod.LAZY, kenlm.ARPALoadComplain.NONE
    assert [kenlm.LoadMethod.READ, kenlm.LoadMethod.PARALLEL_READ, kenlm.ARPALoadComplain.EXPENSIVE] == [3, 4, 1]


def test_what_cannot_be_read_is_an_os_error(fixtures: Path, tmp_path: Path) -> None:
    chainrule.train(chainrule.Lines(["a b"]), chainrule.UniformConfig()).save(tmp_path / "uniform")
    for path in (tmp_path / "none", tmp_path, tmp_path / "uniform", fixtures / "train.txt"):
        with pytest.raises(OSError, match=f"Cannot read model '{path}' .+{path.name}") as raised:
            kenlm.Model(str(path))
        assert raised.value.__cause__ is not None


def test_wrong_types_are_type_errors(model: kenlm.Model, tmp_path: Path) -> None:
    state = kenlm.State()
    for call in (
        lambda: kenlm.Model(tmp_path),  # type: ignore[arg-type]
        lambda: kenlm.Model("x", 3),  # type: ignore[arg-type]
        lambda: model.BaseScore(state, b"ka", state),  # type: ignore[arg-type]
        lambda: model.BaseFullScore(state, None, state),  # type: ignore[arg-type]
        lambda: model.BaseScore(state, ["ka"], state),  # type: ignore[arg-type]
        lambda: model.BaseScore(3, "ka", state),  # type: ignore[arg-type]
        lambda: model.BaseScore(state, "ka", ctypes.c_int(3)),  # type: ignore[arg-type]
        lambda: model.BeginSentenceWrite(None),  # type: ignore[arg-type]
        lambda: model.NullContextWrite(None),  # type: ignore[arg-type]
        lambda: model.score(3),  # type: ignore[arg-type]
        lambda: model.perplexity(None),  # type: ignore[arg-type]
        lambda: 3 in model,  # type: ignore[operator]
        lambda: list(model.full_scores(3)),  # type: ignore[arg-type]
        lambda: model.scores([3]),  # type: ignore[list-item]
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(UnicodeEncodeError):
        model.score("\ud800")


def test_compiled_methods_are_those_in_python(models: dict[str, kenlm.Model], fixtures: Path) -> None:
    lines = (fixtures / "kenlm/small.txt").read_text().splitlines()
    for model in models.values():
        states = [kenlm.State() for _ in range(4)]
        for word in ["", "a b", "ka\0zzz", "é", "<unk>", "<s>", "</s>", *" ".join(lines).split()]:
            actual = model.BaseFullScore(states[0], word, states[1])
            assert actual == kenlm.Model._BaseFullScore(model, states[2], word, states[3])
            assert model.BaseScore(states[0], word, states[1]) == actual.log_prob
            assert type(actual) is kenlm.FullScoreReturn
            assert states[1] == states[3]
            states = [states[1], states[0], states[3], states[2]]
        for line in lines:
            assert model.score(line) == kenlm.Model._score(model, line)


def test_unusual_calls_go_to_the_method_in_python(model: kenlm.Model) -> None:
    state, after = kenlm.State(), kenlm.State()
    assert model.BaseScore(in_state=state, word="ka", out_state=after) == model.BaseScore(state, "ka", after)
    assert "in_state" in str(inspect.signature(model.BaseScore))
    assert kenlm.Model.score.__doc__.startswith("Return log10 P of a sentence.")
    with pytest.raises(TypeError, match="word"):
        model.BaseScore(state)  # type: ignore[call-arg]
    with pytest.raises(UnicodeEncodeError):
        model.BaseScore(state, "\ud800", after)
    with pytest.raises(SystemError):
        kenlm.Model.__new__(kenlm.Model).score("ka")  # never opened


def test_endless_new_words_fill_no_memory(model: kenlm.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kenlm, "_CACHED_WORDS", 10)
    state = kenlm.State()
    known = model.BaseScore(state, "ka", state)
    for i in range(50):
        model.BaseScore(state, f"new{i}", state)
    assert len(model._ids) <= 10
    assert model.BaseScore(kenlm.State(), "ka", state) == known


def test_unknown_and_odd_words(model: kenlm.Model) -> None:
    assert "ka" in model
    assert b"ka" in model
    for word in ("zzz", "<unk>", "", "ka vi", "ka\n", b"\xff", "ka\u00a0"):
        assert word not in model
    state = kenlm.State()
    assert model.BaseScore(state, "ka\0zzz", state) == model.BaseScore(kenlm.State(), "ka", state)


def test_an_unchanged_import_finds_the_stand_in() -> None:
    code = "import chainrule.kenlm; chainrule.kenlm.install(); import kenlm; print(kenlm.Model.__module__)"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "chainrule.features.kenlm.stand_in\n"


def test_texts_in_buckets_by_perplexity_as_ccnet_does(fixtures: Path, tmp_path: Path) -> None:
    """The loop of CCNet: log10 P of each line and its words with the end, to a perplexity, to head, middle and tail."""
    train = (fixtures / "train.txt").read_text().splitlines()
    chainrule.train(chainrule.Lines(train[:400]), chainrule.NGramConfig(order=3), tokenizer="whitespace").save(
        tmp_path / "lm"
    )
    model = kenlm.Model(str(tmp_path / "lm"), kenlm.Config())
    random = np.random.default_rng(5)
    likely, unlikely = train[:50], [" ".join(random.permutation(line.split() + ["q"] * 8)) for line in train[:50]]
    perplexities = {}
    for lines in (likely, unlikely):
        for line in lines:
            log_score, length = 0.0, 0
            for part in line.split("\n"):
                log_score += model.score(part)
                length += len(part.split()) + 1
            perplexities[line] = 10.0 ** (-log_score / length)
    low, high = np.percentile([*perplexities.values()], [33, 66])
    buckets = {
        line: "head" if value < low else "middle" if value < high else "tail" for line, value in perplexities.items()
    }
    assert not {buckets[line] for line in likely} & {"tail"}
    assert not {buckets[line] for line in unlikely} & {"head"}
    assert all(math.isclose(perplexities[line], model.perplexity(line), rel_tol=1e-9) for line in perplexities)
