"""N-gram models as files of other programs: automata, ARPA files for NeMo, word lists of keyboards."""

from __future__ import annotations

import gzip
import math
import random
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import OutputError, SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "and", "it", "goes", "so"]


def sentences(seed: int, size: int, words: Sequence[str] = WORDS) -> list[str]:
    chance = random.Random(seed)
    weights = [1 / (1 + i) for i in range(len(words))]
    return [" ".join(chance.choices(words, weights, k=chance.randint(0, 9))) for _ in range(size)]


class Automaton:
    """What a file says, read line by line: arcs by state and word, the arc #0, final weights."""

    def __init__(self, path: Path) -> None:
        content = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
        lines = [line.split("\t") for line in content.decode().splitlines()]
        self.arcs: dict[str, dict[str, tuple[str, float]]] = defaultdict(dict)
        self.final: dict[str, float] = {}
        self.start = lines[0][0]
        for fields in lines:
            if len(fields) == 2:
                self.final[fields[0]] = float(fields[1])
                continue
            source, target, label, output, cost = fields
            assert output == ("<eps>" if label == "#0" else label)
            assert label not in self.arcs[source], "two arcs with one label"
            self.arcs[source][label] = target, float(cost)

    def cost(self, words: list[str]) -> float:
        """The cost of a sentence: #0 is taken where a word, or the end, is not there."""
        state, total = self.start, 0.0
        for word in words:
            while word not in self.arcs[state]:
                state, cost = self.arcs[state]["#0"]
                total += cost
            state, cost = self.arcs[state][word]
            total += cost
        while state not in self.final:
            state, cost = self.arcs[state]["#0"]
            total += cost
        return total + self.final[state]


SETTINGS = {
    "unigrams": {"order": 1},
    "bigrams": {"order": 2},
    "pruned": {"order": 4, "prune": (0, 1, 2)},
    "backing off": {"order": 3, "smoothing": "good-turing"},
    "several begins": {"order": 4, "begins": "all"},
    "maximum likelihood": {"order": 2, "smoothing": "maximum-likelihood"},
}


@pytest.mark.parametrize("name", [*SETTINGS, "compact", "merged"])
def test_walking_the_automaton_gives_log_p_of_sentences(name: str, tmp_path: Path) -> None:
    """Of 1,000 sentences, a third with an unknown word."""
    settings = SETTINGS.get(name, {"order": 3})
    text = chainrule.Lines(sentences(1, 120))
    model = chainrule.train(text, chainrule.NGramConfig(**settings), tokenizer="whitespace")  # type: ignore[arg-type]
    if name == "compact":
        model = model.compact()
    if name == "merged":  # n-grams of either model, whose suffixes the other may have pruned
        other = chainrule.train(
            chainrule.Lines(sentences(2, 200)), chainrule.NGramConfig(order=3, prune=(0, 2)), tokenizer="whitespace"
        )
        model = chainrule.merge([model, other])
    model.save(tmp_path / "lm.fst.txt.gz")
    automaton = Automaton(tmp_path / "lm.fst.txt.gz")
    tried = [*sentences(3, 650), *sentences(4, 350, [*WORDS, "zebra"])]
    known = {token.decode() for token in model.tokenizer.vocabulary.tokens()}
    expected = model.score(tried)
    for sentence, log_prob in zip(tried, expected, strict=True):
        words = [word if word in known else "<unk>" for word in sentence.split()]
        if math.isinf(log_prob):
            with pytest.raises(KeyError):
                automaton.cost(words)
        else:
            assert automaton.cost(words) == pytest.approx(-log_prob, rel=1e-6, abs=1e-5)
    symbols = dict(line.split("\t") for line in (tmp_path / "lm.syms").read_text().splitlines())
    assert sorted(map(int, symbols.values())) == list(range(len(symbols)))
    assert symbols["<eps>"] == "0"
    assert int(symbols["#0"]) < int(symbols["<s>"]) < int(symbols["</s>"])
    assert {label for arcs in automaton.arcs.values() for label in arcs} <= symbols.keys()


def test_an_automaton_is_refused_where_it_could_not_be_right(tmp_path: Path) -> None:
    train = chainrule.train
    odd = train(chainrule.Lines(["a <eps> b"]), chainrule.NGramConfig(order=2), tokenizer="whitespace")
    with pytest.raises(SettingError, match="the vocabulary has the word <eps>, which is a symbol of automata"):
        odd.save(tmp_path / "lm.fst.txt")
    stupid = train(
        chainrule.Lines(["a b"]), chainrule.NGramConfig(order=2, smoothing="stupid-backoff"), tokenizer="whitespace"
    )
    for name in ("lm.fst.txt", "lm.combined"):
        with pytest.raises(SettingError, match="stupid backoff"):
            stupid.save(tmp_path / name)
        with pytest.raises(SettingError, match="a model of family 'uniform' cannot be written as"):
            train(chainrule.Lines(["a b"]), chainrule.UniformConfig()).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lm.syms").write_text("mine")
    with pytest.raises(OutputError, match=r"lm\.syms: exists already"):
        train(chainrule.Lines(["a b"]), chainrule.NGramConfig(order=2)).save(tmp_path / "lm.fst.txt")


SPECIAL = {"<s>": -1, "</s>": -2, "<unk>": -3}


def read_like_nemo(path: Path, offset: int = 100) -> dict[tuple[int, ...], tuple[float, float]]:
    """An ARPA file by the rules of NeMo's NGPU-LM (ngram_lm_batched.py), each rule asserted."""
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "\\data\\"
    counts = {}
    at = 1
    while lines[at].strip().startswith("ngram"):
        order, size = lines[at].split("=")
        counts[int(order.split()[-1])] = int(size)
        at += 1
    assert not lines[at].strip()
    symbol = re.compile(rf"({'|'.join(map(re.escape, SPECIAL))}|.)\s?")
    ngrams = {}
    for line in lines[at:]:
        if line.startswith("\\end\\"):
            break
        if not line or line.startswith("\\"):
            continue
        weight, symbols, *backoff = line.split("\t")
        assert len(backoff) <= 1
        key = tuple(SPECIAL[found] if found in SPECIAL else ord(found) - offset for found in symbol.findall(symbols))
        ngrams[key] = float(weight), float(backoff[0]) if backoff else 0.0
    assert {order: sum(len(key) == order for key in ngrams) for order in counts} == counts
    assert max(counts) >= 2
    assert (-1,) in ngrams
    for key in ngrams:
        assert all(id >= 0 for id in key[1:-1])
        assert len(key) == 1 or (key[0] >= -1 and (key[-1] >= 0 or key[-1] == -2))
        if len(key) > 1:
            assert key[:-1] in ngrams
            assert key[-1] == -2 or key[1:] in ngrams
    return ngrams


def test_nemo_reads_the_arpa_file_of_a_text_of_its_tokens(tmp_path: Path) -> None:
    """Tokens are chr(id + 100); those of ids 33 and 60 are Unicode's spaces, which are tokens here as well."""
    chance = random.Random(5)
    rows = [[chance.choice([0, 1, 2, 33, 60, 900]) for _ in range(chance.randint(1, 8))] for _ in range(200)]
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(chr(id + 100) for id in row) + "\n" for row in rows), encoding="utf-8")
    chainrule.train(text, chainrule.NGramConfig(order=3), tokenizer="whitespace").save(tmp_path / "nemo.arpa")
    ngrams = read_like_nemo(tmp_path / "nemo.arpa")
    assert {key[0] for key in ngrams if len(key) == 1} == {-1, -2, -3, 0, 1, 2, 33, 60, 900}
    tried = rows[:20]
    texts = [" ".join(chr(id + 100) for id in row) for row in tried]
    model = chainrule.load(tmp_path / "nemo.arpa")
    for row, log_prob in zip(tried, model.score(texts), strict=True):
        total, history = 0.0, [-1]
        for id in [*row, -2]:
            context = tuple(history[-2:])
            while (*context, id) not in ngrams:
                total += ngrams.get(context, (0.0, 0.0))[1]
                context = context[1:]
            total += ngrams[*context, id][0]
            history.append(id)
        assert total * math.log(10) == pytest.approx(log_prob, abs=1e-4)


def read_combined(path: Path) -> tuple[dict[str, str], dict[str, dict[str, list[str]]]]:
    """The header, and the attributes of each word with the lines below it; each rule of the format asserted."""
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    words: dict[str, dict[str, list[str]]] = {}
    word = ""
    for line in lines:
        fields = dict(field.split("=") for field in line.strip().split(","))
        if line.startswith("  "):
            kind = "bigram" if "bigram" in fields else "shortcut"
            words[word].setdefault(kind, []).append(f"{fields[kind]} {fields['f']}")
        else:
            assert re.fullmatch(r" word=[^,=\s]+,f=\d+(,not_a_word=true)?", line)
            word = fields["word"]
            assert word not in words
            words[word] = {"f": [fields["f"]]}
    return dict(field.split("=") for field in header.split(",")), words


def test_a_word_list(tmp_path: Path) -> None:
    text = ["the cat sat on the mat", "The cat, in 1984, isn't the dog", "the dog sat"] * 5
    model = chainrule.train(chainrule.Lines(text), chainrule.NGramConfig(order=2))
    shortcuts = tmp_path / "shortcuts.txt"
    shortcuts.write_text("isnt\tisn't\nmat\tthe mat\n")
    config = chainrule.WordListConfig(locale="en_GB", bigrams=1, shortcuts=shortcuts)
    chainrule.convert(saved(model, tmp_path), tmp_path / "en.combined", settings=config)
    header, words = read_combined(tmp_path / "en.combined")
    assert (header["dictionary"], header["locale"], header["version"]) == ("main:en_gb", "en_GB", "54")
    assert int(header["date"]) > 1_500_000_000
    assert set(words) == {"the", "cat", "sat", "on", "mat", "in", "isn't", "dog", "isnt"}  # The, 1984, "," are not
    assert words["isnt"] == {"f": ["0"], "shortcut": ["isn't whitelist"]}
    assert words["mat"]["shortcut"] == ["the mat 14"]
    frequencies = [int(words[word]["f"][0]) for word in words if word != "isnt"]
    assert frequencies == sorted(frequencies, reverse=True)
    assert next(iter(words)) == "the"
    log_prob = model.language_model.score([model.tokenizer.encode_texts(["on the"]).ids[:-1]], end=False)[0][1]
    assert words["on"]["bigram"] == [f"the {round(255 + 11 * log_prob)}"]
    for word, fields in words.items():
        for bigram in fields.get("bigram", ()):
            following, frequency = bigram.split()
            assert int(frequency) >= int(words[following]["f"][0]), word


def saved(model, folder: Path) -> Path:
    model.save(folder / "lm", overwrite=True)
    return folder / "lm"


def test_frequencies_are_those_of_running_text(tmp_path: Path) -> None:
    """The bigrams' stationary distribution is the share of each word in the text, which maximum likelihood keeps."""
    from chainrule.features.exports.word_list import word_log_probs

    text = sentences(6, 300)
    config = chainrule.NGramConfig(order=2, smoothing="maximum-likelihood")
    model = chainrule.train(chainrule.Lines(text), config, tokenizer="whitespace")
    tokens = [token for line in text for token in [*line.split(), "</s>"]]
    shares = np.exp(word_log_probs(model.language_model.table))
    for id, token in enumerate(model.tokenizer.vocabulary.tokens()):
        assert shares[id] == pytest.approx(tokens.count(token.decode()) / len(tokens), abs=1e-6)


def test_word_lists_that_cannot_be(tmp_path: Path) -> None:
    text = chainrule.Lines(["a b c"] * 3)
    characters = chainrule.train(text, chainrule.NGramConfig(order=2), tokenizer="character")
    with pytest.raises(SettingError, match="the model's tokens are those of character, of which a word list cannot"):
        characters.save(tmp_path / "x.combined")
    numbers = chainrule.train(chainrule.Lines(["1 2 3"] * 3), chainrule.NGramConfig(order=2), tokenizer="whitespace")
    with pytest.raises(SettingError, match="none of the model's tokens is a word"):
        numbers.save(tmp_path / "x.combined")
    with pytest.raises(SettingError, match="locale is 'e'; expected one such as en or en_US"):
        chainrule.WordListConfig(locale="e")
    folder = saved(chainrule.train(text, chainrule.NGramConfig(order=2)), tmp_path)
    with pytest.raises(SettingError, match="WordListConfig is for another kind of file"):
        chainrule.convert(folder, tmp_path / "x.arpa", settings=chainrule.WordListConfig())
    wrong = tmp_path / "shortcuts"
    for content, message in (("ab\n", "line 1: expected a shortcut, a tab"), ("a\tb,c\n", "without commas")):
        wrong.write_text(content)
        with pytest.raises(TextError, match=message):
            chainrule.convert(folder, tmp_path / "x.combined", settings=chainrule.WordListConfig(shortcuts=wrong))
    assert not (tmp_path / "x.combined").exists()
