"""Correction: the index and the beam against brute force, EM by its likelihood, texts against what was meant."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.correct.channel.character_channel import Channel, Rule, channel_named
from chainrule.features.correct.channel.files import read_channel
from chainrule.features.correct.channel.learning import BEGIN_MARK, END_MARK, learn_channel, mark_ends
from chainrule.features.correct.correct import word_index
from chainrule.features.correct.corrector.config import CorrectionConfig
from chainrule.features.correct.corrector.error_models import WordErrorModel
from chainrule.features.correct.corrector.lattice import Arc, Variant, best_paths
from chainrule.features.correct.corrector.word_index import DeletionIndex, WordIndex, phonetic_key
from chainrule.features.correct.measures import measure_corrections
from chainrule.features.correct.train_channel import marks_around, read_error_pairs, wrong_words
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from chainrule.features.correct.corrector.corrector import Corrector

SENTENCES = [
    "the dog bit the man and ran away from him",
    "a letter came from the man in London",
    "I received the letter from my friend",
    "my friend has a lot of money",
    "sometimes the dog likes to be alone",
    "there is something wrong with the letter",
    "he was walking from the house to the river",
]
TEXT = chainrule.Lines(SENTENCES * 5)


@pytest.fixture(scope="module")
def lm() -> chainrule.Model:
    return chainrule.train(TEXT, chainrule.NGramConfig(order=3))


@pytest.fixture(scope="module")
def corrector(lm: chainrule.Model) -> Corrector:
    return chainrule.corrector(lm)


def osa(a: str, b: str) -> int:
    """The restricted Damerau-Levenshtein distance, by its recurrence."""
    d = {(i, -1): i + 1 for i in range(-1, len(a))} | {(-1, j): j + 1 for j in range(-1, len(b))}
    for i, j in itertools.product(range(len(a)), range(len(b))):
        d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i] != b[j]))
        if i and j and a[i] == b[j - 1] and a[i - 1] == b[j]:
            d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(a) - 1, len(b) - 1]


@pytest.mark.parametrize("distance", [0, 1, 2])
def test_the_index_finds_what_a_scan_of_the_words_finds(distance: int) -> None:
    rng = random.Random(distance)
    words = sorted({"".join(rng.choices("abcé", k=rng.randint(1, 11))) for _ in range(300)})
    texts = ["".join(rng.choices("abcé", k=rng.randint(1, 12))) for _ in range(60)] + words[:20]
    matches = DeletionIndex(words, 2).within(texts, [distance] * len(texts))
    for i, text in enumerate(texts):
        found = zip(matches.words[matches.of(i)].tolist(), matches.distances[matches.of(i)].tolist(), strict=True)
        expected = {(word, osa(text, word)) for word in words if osa(text, word) <= distance}
        assert {(words[word], near) for word, near in found} == expected


def test_the_index_makes_room_for_many_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainrule.features.correct.corrector.word_index._ROOM", 3)
    words = [a + b for a in "abcdef" for b in "abcdef"]
    matches = DeletionIndex(words, 2).within(["aa", "bb", "zzzzz"], [2, 2, 2])
    assert matches.ends.tolist() == [36, 72, 72]


def test_a_distance_beyond_the_index_is_an_error() -> None:
    with pytest.raises(SettingError, match="distance"):
        DeletionIndex(["a"], 1).within(["a"], [2])
    with pytest.raises(SettingError, match="0, 1 or 2"):
        DeletionIndex(["a"], 3)


def test_words_with_equal_consonants_are_candidates_at_any_distance() -> None:
    index = WordIndex({"phenomenon": -9.0, "london": -8.0, "London": -5.0})
    errors = WordErrorModel(learn_channel([("pheenomonan", "phenomenon"), ("londn", "london")]), 0.1)
    assert osa("pheenomonan", "phenomenon") > 2
    [meant, named] = index.candidates_for(["pheenomonan", "londn"], errors, 5)
    assert meant[0].word == "phenomenon"
    assert named[0].word == "london"  # which stands in lower case, too
    assert phonetic_key("phenomenon") == phonetic_key("pheenomonan") == "pnmn"


def test_em_raises_the_likelihood_and_learns_the_ends_of_words() -> None:
    rights = ["make", "take", "note", "home", "came", "dog", "cat", "man", "letter", "better"]
    pairs = [(word[:-1], word) for word in rights if word.endswith("e")] * 3
    pairs += [(word.replace("tt", "t"), word) for word in rights if "tt" in word]
    pairs += [("dgo", "dog"), ("cta", "cat")]
    sums = []
    for rounds in (1, 2, 4, 8):
        channel = learn_channel(pairs, rounds=rounds)
        sums.append(channel.log_probs([mark_ends(a) for a, _ in pairs], [mark_ends(b) for _, b in pairs]).sum())
    assert sums == sorted(sums)
    lost, kept = channel.log_probs([mark_ends("bak"), mark_ends("ake")], [mark_ends("bake"), mark_ends("aake")])
    assert lost > np.log(0.2)  # an e at the end of a word is lost in most of the pairs
    assert kept < lost
    assert f"e{END_MARK}" in {rule.source for rule in channel.rules}
    halved, doubled = channel.log_probs(
        [mark_ends("leter"), mark_ends("dogg")], [mark_ends("letter"), mark_ends("dog")]
    )
    assert halved > np.log(0.2) > doubled > -np.inf  # what no pair shows stays possible
    assert all(BEGIN_MARK not in rule.source[1:] for rule in channel.rules)


def test_learning_takes_counts_and_refuses_pairs_without_an_error() -> None:
    often = learn_channel([("teh", "the"), ("thw", "the")], weights=[9, 1])
    swapped, replaced = often.log_probs([mark_ends("teh"), mark_ends("thw")], [mark_ends("the")] * 2)
    assert swapped > replaced
    for pairs in ([], [("the", "the")], [("", "a")]):
        with pytest.raises(SettingError, match="no pair has an error"):
            learn_channel(pairs)


@pytest.mark.parametrize("name", ["keyboard", "ocr"])
def test_a_prior_helps_where_pairs_are_few(name: str) -> None:
    rng = np.random.default_rng(0)
    slips = channel_named(name, 0.1)
    words = ["house", "street", "window", "garden", "letter", "morning", "river", "mountain", "answer", "question"] * 14
    pairs = [(wrong, word) for word in words if (wrong := slips.corrupted(word, rng)) != word and " " not in wrong]
    few, held_out = pairs[:12], pairs[12:]

    def mean_log_prob(channel: Channel) -> float:
        observed, sources = zip(
            *((mark_ends(wrong.lower()), mark_ends(right)) for wrong, right in held_out), strict=True
        )
        return float(np.maximum(channel.log_probs(observed, sources), -50).mean())

    alone, helped = (chainrule.train_channel(few, prior=prior) for prior in (None, name))
    assert mean_log_prob(helped) > mean_log_prob(alone) + 1


def test_a_prior_counts_as_visits_with_its_errors(tmp_path: Path) -> None:
    # x is visited once and not rewritten, and 20 times more, as the prior says.
    prior = Channel("x", [Rule("x", "o", 0.2), Rule("X", "1", 0.3), Rule(" ", "", 0.5)])
    probs = {(rule.source, rule.observed): rule.prob for rule in learn_channel([("xymc", "xymb")], prior=prior).rules}
    assert probs["x", "o"] == pytest.approx(20 * 0.2 / 21, rel=1e-3)
    assert probs["x", "1"] == pytest.approx(20 * 0.3 / 21, rel=1e-3)  # words are in lower case
    assert (" ", "") not in probs  # and have no spaces
    first = chainrule.train_channel([("teh", "the")], tmp_path / "first.json")
    second = chainrule.train_channel([("frmo", "from")], tmp_path / "second.json", prior=tmp_path / "first.json")
    assert json.loads((tmp_path / "second.json").read_text())["record"]["prior"] == first.name
    swapped = {rule.observed: rule.prob for rule in second.rules if rule.source == "he"}
    assert swapped["eh"] > 0.1  # as the first channel has it; no pair of the second swaps these letters
    with pytest.raises(SettingError, match="no channel called 'mouse'"):
        chainrule.train_channel([("teh", "the")], prior="mouse")


def test_channels_learn_from_the_words_that_differ_in_texts(tmp_path: Path) -> None:
    assert wrong_words("He said: tbe d0g", "he said the dog.") == [("tbe", "the"), ("d0g", "dog")]
    assert wrong_words("he _ saw | dog", "he saw I dog") == [("|", "i")]
    assert marks_around("'It is: _", "it is.") == [("_", ""), ("'", ""), ("", ""), ("", ""), (":", ".")]
    assert wrong_words("he went awayand slept", "he went away and slept") == [("awayand", "away and")]
    assert wrong_words("Tsaw a wind mill", "I saw a windmill") == [("tsaw", "i saw"), ("wind mill", "windmill")]
    assert wrong_words("he xyzzy slept", "he quickly slept") == []  # another word, not its spelling
    (tmp_path / "pairs.tsv").write_text("He saw tbe dog\tHe saw the dog\t3\nthe same\tthe same\nteh\tthe\n")
    read = read_error_pairs(tmp_path / "pairs.tsv")
    assert (read.pairs, read.counts, read.left_out) == ([("tbe", "the"), ("teh", "the")], [3.0, 1.0], 1)
    lines = chainrule.train_channel(tmp_path / "pairs.tsv")
    assert lines.rules == learn_channel(read.pairs, weights=read.counts).rules


def test_the_share_of_lost_spaces_is_learned() -> None:
    channel = learn_channel([("tsaw", "i saw"), ("teh", "the"), ("tit", "iit"), ("frmo", "from")])
    [share] = [rule.prob for rule in channel.rules if rule.source == " "]
    assert share == pytest.approx(1 / 4)
    assert all(" " not in rule.source + rule.observed for rule in channel.rules if rule.source != " ")
    assert [rule.prob for rule in learn_channel([("awayand", "away and")]).rules if rule.source == " "] == [0.95]
    errors = WordErrorModel(channel, 0.1)
    without = WordErrorModel(learn_channel([("tsaw", "isaw"), ("teh", "the"), ("tit", "iit"), ("frmo", "from")]), 0.1)
    gained = errors.log_probs(["awayand"], ["away and"]) - without.log_probs(["awayand"], ["away and"])
    np.testing.assert_allclose(gained, np.log(0.25 / 0.02))  # 2 % of errors where the pairs have none


def test_a_channel_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    channel = chainrule.train_channel([("teh", "The"), ("frend", "friend")], tmp_path / "c.json")
    assert read_channel(tmp_path / "c.json").rules == channel.rules
    whole = (tmp_path / "c.json").read_bytes()
    rng = random.Random(0)
    for _ in range(200):
        broken = bytearray(whole[: rng.randrange(len(whole))])
        for _ in range(rng.randrange(3)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        (tmp_path / "broken.json").write_bytes(broken)
        with pytest.raises(ModelFormatError, match=r"broken\.json"):
            read_channel(tmp_path / "broken.json")
    for rules in ([["a", "b", 2.0]], [["", "b", 0.1]], [["a", "b", "c"]], [["a", "b", 0.9], ["a", "c", 0.9]], [], 5):
        (tmp_path / "broken.json").write_text(json.dumps({"chainrule_channel": 1, "name": "x", "rules": rules}))
        with pytest.raises(ModelFormatError, match=r"broken\.json"):
            read_channel(tmp_path / "broken.json")


def test_a_rate_of_words_is_a_distribution_over_spellings() -> None:
    channel = Channel("x", [Rule("a", "b", 0.2), Rule("b", "a", 0.3)])
    errors = WordErrorModel(channel, 0.1)
    texts = ["".join(letters) for letters in itertools.product("ab", repeat=3)]
    total = np.exp(errors.log_probs(texts, ["aba"] * len(texts))).sum()
    np.testing.assert_allclose(total, 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.exp(errors.log_probs(["aba"], ["aba"])), 0.9)


class Unbounded:
    """A model that does not say how far back it looks."""

    def __init__(self, model) -> None:
        self._model = model

    def score(self, sequences, *, prefixes=None, end=True):
        return self._model.score(sequences, prefixes=prefixes, end=end)


def test_a_wide_beam_finds_the_best_of_all_ways(lm: chainrule.Model) -> None:
    rng = np.random.default_rng(5)
    model, size = lm.language_model, lm.language_model.vocabulary_size

    def arc(chunks: int) -> Arc:
        tokens = tuple(rng.integers(3, size, rng.integers(1, 3)).tolist())
        return Arc(chunks, Variant(str(rng.integers(10**9)), float(rng.normal()), tokens, float(-rng.random())))

    lattices = [
        [
            [arc(1) for _ in range(rng.integers(1, 4))] + ([arc(2)] if i < n - 1 and rng.random() < 0.5 else [])
            for i in range(n)
        ]
        for n in (1, 3, 4, 5)
    ]

    def ways(lattice, position=0):
        if position == len(lattice):
            yield []
            return
        for one in lattice[position]:
            if position + one.chunks <= len(lattice):
                yield from ([one, *rest] for rest in ways(lattice, position + one.chunks))

    def total(arcs) -> float:
        ids = np.array([token for one in arcs for token in one.variant.tokens], np.int32)
        own = sum(one.variant.log_prob + 0.7 * one.variant.surcharge for one in arcs)
        return own + 0.7 * float(model.score([ids])[0].sum(dtype=np.float64))

    for scorer in (model, Unbounded(model)):
        for lattice, paths in zip(lattices, best_paths(scorer, lattices, beam=1000, weight=0.7), strict=True):
            expected = sorted(map(total, ways(lattice)), reverse=True)
            np.testing.assert_allclose([path.log_prob for path in paths], expected, atol=1e-3)
            np.testing.assert_allclose(total(paths[0].arcs()), paths[0].log_prob, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("I recieved teh letter", "I received the letter"),
        ("Teh dog bit the man .", "The dog bit the man ."),
        ("THE DGO BIT THE MAN", "THE DOG BIT THE MAN"),
        ("a letter came form the man in Londn", "a letter came from the man in London"),
        ("my friend has alot of money", "my friend has a lot of money"),
        ("some times the dog likes to be alone", "sometimes the dog likes to be alone"),
        ("the dog bit\t the man", "the dog bit\t the man"),
        ("teh http://a.b/teh teh1 tehX 3.5", "the http://a.b/teh teh1 tehX 3.5"),
        ("", ""),
        ("   ", "   "),
    ],
)
def test_texts_are_corrected(corrector: Corrector, given: str, meant: str) -> None:
    [one] = corrector.correct([given])
    assert one.corrected == meant
    assert one.with_changes(one.changes) == meant
    assert all(given[change.start : change.stop] == change.before for change in one.changes)
    assert all(0.5 <= change.prob <= 1 for change in one.changes)


def test_a_greeting_that_the_model_lacks_is_right(lm: chainrule.Model) -> None:
    [greeting] = chainrule.corrector(lm, rate=0.2).correct(["Hi my friend"])
    assert greeting.changes == ()  # not He, a letter away
    assert chainrule.corrector(lm, rate=0.2, lexicon=word_index(lm)).correct(["Hi my friend"]) == [
        greeting
    ]  # a server's
    words = {word: 1 for sentence in SENTENCES for word in sentence.split()}  # a lexicon stands alone
    [other] = chainrule.corrector(lm, rate=0.2, lexicon=words).correct(["Hi my friend"])
    assert other.corrected == "He my friend"


def test_a_frequent_word_that_is_written_twice_is_one_too_many(lm: chainrule.Model) -> None:
    words = {word: 1 for sentence in SENTENCES for word in sentence.split()} | {"the": 1000}
    sure = chainrule.corrector(lm, lexicon=words, config=CorrectionConfig(weight=3.0))  # as a model of much text is
    texts = ["he was walking from The the house", "friend friend has a lot of money"]
    assert [one.corrected for one in sure.correct(texts)] == ["he was walking from The house", texts[1]]


def test_neighbours_and_other_models_of_the_same_numbers_change_nothing(lm: chainrule.Model) -> None:
    texts = ["I recieved teh letter form my freind", "teh dgo bit the mann", "sometimes teh dog likes too be alone"] * 2
    corrector = chainrule.corrector(lm)
    together = corrector.correct(texts)
    assert together == [one for text in texts for one in corrector.correct([text])]
    corrector._model = Unbounded(lm.language_model)
    for one, other in zip(corrector.correct(texts), together, strict=True):
        assert one.corrected == other.corrected
        np.testing.assert_allclose([c.prob for c in one.changes], [c.prob for c in other.changes], atol=1e-3)


def test_words_to_keep_and_the_least_probability_hold(lm: chainrule.Model) -> None:
    keeping = chainrule.corrector(lm, config=CorrectionConfig(keep=("Teh",)))
    assert keeping.correct(["teh dgo"])[0].corrected == "teh dog"
    named = chainrule.corrector(lm, config=CorrectionConfig(keep=("Pumpernickel",)))
    assert named.correct(["a letter from pumpernikel"])[0].corrected == "a letter from Pumpernickel"
    never = chainrule.corrector(lm, config=CorrectionConfig(at_least=1.0, beam=64))
    assert never.correct(["the dgo bitt him"])[0].corrected == "the dgo bitt him"


def test_a_text_in_another_language_is_left_alone(corrector: Corrector) -> None:
    text = "das ist ein deutscher Satz mit vielen Wörtern darin"
    [one] = corrector.correct([text])
    assert (one.corrected, one.changes) == (text, ())
    assert one.note is not None
    assert "of 9 words" in one.note
    short, shorter, spoilt = corrector.correct(["das ist ein Satz", "tge", "I recieved teh letter form my freind"])
    assert (short.corrected, "0 of 4 words" in str(short.note)) == ("das ist ein Satz", True)
    assert (shorter.corrected, shorter.note) == ("the", None)  # too short to judge
    assert spoilt.corrected == "I received the letter from my friend"  # 3 of 7 are known


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, "собака шла 犬", "\x00\x01\x1b[31m", "ä" * 65 + " \u200d\ud7a3", "", "   ", "\ufeff"]
)
def test_what_is_no_word_of_the_model_stays(corrector: Corrector, text: str) -> None:
    assert corrector.correct([text])[0].corrected == text


def test_words_between_those_of_another_script_are_corrected(corrector: Corrector) -> None:
    assert corrector.correct(["собака I recieved 犬 teh letter"])[0].corrected == "собака I received 犬 the letter"


def test_a_long_line_is_corrected_like_short_ones(corrector: Corrector) -> None:
    line = "I recieved teh letter from my freind . " * 2000
    right = "I received the letter from my friend . " * 2000
    assert corrector.correct([line])[0].corrected == right


def test_a_second_model_with_other_tokens_weighs_the_best(lm: chainrule.Model) -> None:
    given = "I recieved the letter"
    prefers = chainrule.train(
        chainrule.Lines([f"{given} from my freind"] * 9),
        chainrule.NGramConfig(order=5),
        tokenizer=chainrule.TokenizerConfig(kind="character"),
    )

    def corrected(weight: float) -> str:
        config = CorrectionConfig(rescore_weight=weight, at_least=0.0, beam=64)
        return chainrule.corrector(lm, rescore_by=prefers, config=config).correct([given])[0].corrected

    assert corrected(0.0) == "I received the letter"
    assert corrected(10.0) == given
    marked = chainrule.corrector(lm, rescore_by=prefers).correct(["I recieved </s> the letter"])[0]
    assert "</s>" in marked.corrected


def test_a_two_sided_model_rescores_by_pseudo_log_likelihood(lm: chainrule.Model, tmp_path: Path) -> None:
    config = chainrule.MaskedConfig(layers=1, width=8, heads=1, context=16)
    masked = chainrule.train(TEXT, config, training=chainrule.TrainingConfig(steps=2, compile="no"))
    with pytest.raises(SettingError, match="rescore_by"):
        chainrule.corrector(masked)
    masked.save(tmp_path / "masked")
    ready = chainrule.corrector(lm, rescore_by=tmp_path / "masked", config=CorrectionConfig(at_least=0.0))
    known = ["I received the letter", "the dog"]
    rows = masked.require_engine("fill").score(documents_of(masked.tokenizer.encode_texts(known).ids), end=False)
    assert ready._rescorer is not None
    assert ready._rescorer.log_probs(known) == pytest.approx([row.sum() for row in rows], rel=1e-5)
    assert ready.correct(["I recieved the letter"])[0].corrected == "I received the letter"


def test_a_line_whose_known_words_are_rare_is_in_another_language(lm: chainrule.Model) -> None:
    many = ("".join(letters) for letters in itertools.product("bcdfghjklm", repeat=4))
    common = (*many, *" ".join(SENTENCES).split())
    lexicon = dict.fromkeys(["ein", "hund", "lag", "dem", "haus", "am"], 1) | dict.fromkeys(common, 9)
    texts = [
        "ein hund lag in dem haus am flus",
        "ein hund lag inn dem haus am flus",
        "teh dog ran from teh house to him",
    ]
    notes = [one.note for one in chainrule.corrector(lm, lexicon=lexicon).correct(texts)]
    # Of seven unknown or rare words each has -2 - 1.5 nats; "in" and "am" have little, since they are short.
    assert [None if note is None else note.split(",")[0] for note in notes] == [
        "another language: the model knows 7 of 8 words",
        "another language: the model knows 6 of 8 words",
        None,
    ]


def test_short_lines_in_another_script_are_left_alone_with_a_note(corrector: Corrector) -> None:
    lines = ["он был", "他在老房子里，狗也在那里。", "teh он был", "teh dog он был"]
    results = corrector.correct(lines)
    assert [one.corrected for one in results] == [*lines[:3], "the dog он был"]
    assert [(one.note or "").split(" are")[0] for one in results] == [
        "2 of 2 words",
        "2 of 2 words",
        "2 of 3 words",
        "",
    ]


def test_a_model_without_words_needs_a_lexicon(tmp_path: Path) -> None:
    letters = chainrule.train(
        TEXT, chainrule.NGramConfig(order=5), tokenizer=chainrule.TokenizerConfig(kind="character")
    )
    with pytest.raises(SettingError, match="lexicon"):
        chainrule.corrector(letters)
    (tmp_path / "words.txt").write_text("\n".join({word for line in SENTENCES for word in line.split()}))
    [one] = chainrule.corrector(letters, lexicon=tmp_path / "words.txt").correct(["I recieved teh letter"])
    assert one.corrected == "I received the letter"


def test_measures_by_hand() -> None:
    measures = measure_corrections(["teh dog bit"], ["the dgo bit"], ["the dog bit"])
    assert [one.value for one in measures.word_errors] == [1 / 3, 1 / 3]
    assert [one.value for one in measures.character_errors] == [2 / 11, 2 / 11]
    assert (measures.fixed.value, measures.broken.value, measures.words) == (1.0, 0.5, 3)
    nothing_wrong = measure_corrections(["the dog"], ["the dot"], ["the dog"])
    assert (nothing_wrong.fixed, nothing_wrong.broken.value) == (None, 0.5)
    assert ("wrong words fixed", "", "–") in nothing_wrong.rows()
    several = measure_corrections(["teh dog bit"] * 2, ["the dgo bit"] * 2, [["the dog bit"] * 2, ["a dog bit"] * 2])
    assert several.word_errors[1].value == 0.5  # one of three words, two of three: each reference counts alike
    assert several.word_errors[1].interval == (0.5, 0.5)
    with pytest.raises(SettingError, match="1 texts"):
        measure_corrections(["a"], ["a"], [["a"], []])


@pytest.mark.parametrize(
    "arguments", [{"rate": 0.9, "channel": "keyboard"}, {"channel": "radio"}, {"channel": Path("no.json")}]
)
def test_wrong_settings_are_clear_errors(lm: chainrule.Model, arguments) -> None:
    with pytest.raises(chainrule.ChainruleError):
        chainrule.corrector(lm, **arguments)


def test_a_beam_of_nothing_is_an_error() -> None:
    with pytest.raises(SettingError, match="beam is 0"):
        CorrectionConfig(beam=0)


@pytest.mark.parametrize("texts", ["teh cat", [None], None])
def test_what_is_no_list_of_texts_is_refused(corrector: Corrector, texts) -> None:
    with pytest.raises(TypeError, match="this takes"):
        corrector.correct(texts)
