"""Lattices: the best texts against all paths, what the formats hold, and what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.base.progress import silent
from chainrule.errors import TextError
from chainrule.features.rescore.lattice_formats import read_kaldi_lattices, read_slf_lattices
from chainrule.features.rescore.lattice_search import LatticeSearch, best_paths
from chainrule.features.rescore.lattices import Lattice, Unreadable
from chainrule.features.rescore.lists.nbest_files import format_of
from chainrule.features.rescore.rescore import scorer_of
from chainrule.features.rescore.tuning import Weights

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.rescore.features import SpelledScorer

LINES = ["so it goes", "it goes so on", "don't go", "so don't it", "on it goes it", "go on so it goes"] * 2
WORDS = ["so", "it", "goes", "don't", "on", "zebra"]
SCALES = (0.3, 0.7)


@pytest.fixture(scope="module")
def scorers() -> dict[str, SpelledScorer]:
    """By tokenizer, and by order: one that knows the words, one whose words have parts, characters, single tokens."""
    models = {
        "whitespace": chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3), tokenizer="whitespace"),
        "word": chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=4), tokenizer="word"),
        "character": chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=5), tokenizer="character"),
        "unigrams": chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=1), tokenizer="whitespace"),
    }
    models["compact"] = models["whitespace"].compact()
    return {name: scorer_of(model) for name, model in models.items()}


@st.composite
def archives(draw: st.DrawFn) -> str:
    """A lattice of up to five nodes in Kaldi's format, with words, arcs without words, and one or two final nodes."""
    nodes = draw(st.integers(2, 5))
    cost = st.floats(-9, 9).map(lambda x: round(x, 2))
    lines = []
    for node in range(nodes - 1):
        targets = draw(st.lists(st.integers(node + 1, nodes - 1), max_size=2))
        for target in [node + 1, *targets]:
            word = draw(st.sampled_from([*WORDS, "<eps>"]))
            lines.append(f"{node} {target} {word} {draw(cost)},{draw(cost)},1_2")
    lines += [f"{nodes - 1} {draw(cost)},{draw(cost)},", *(["0"] if draw(st.booleans()) else [])]
    return "\n".join(["utt", *lines, "", ""])


def by_hand(archive: str) -> dict[str, tuple[float, float]]:
    """The scores of sound and graph of each text's best path, by walking all paths of the archive's lines."""
    arcs, finals = [], {}
    for line in archive.splitlines()[1:]:
        fields = line.split()
        if len(fields) == 4:
            graph, sound = map(float, fields[3].split(",")[:2])
            arcs.append((int(fields[0]), int(fields[1]), fields[2], sound, graph))
        elif fields:
            graph, sound = map(float, fields[1].split(",")[:2]) if len(fields) > 1 else (0.0, 0.0)
            finals[int(fields[0])] = sound, graph
    texts: dict[str, tuple[float, float]] = {}

    def walk(node: int, words: list[str], sound: float, graph: float) -> None:
        if node in finals:
            scores = -sound - finals[node][0], -graph - finals[node][1]
            text = " ".join(words)
            texts[text] = max(texts.get(text, scores), scores, key=lambda pair: np.dot(SCALES, pair))
        for source, target, word, own_sound, own_graph in arcs:
            if source == node:
                walk(target, words + [word] * (word != "<eps>"), sound + own_sound, graph + own_graph)

    walk(0, [], 0.0, 0.0)
    return texts


@given(archives(), st.sampled_from(["whitespace", "word", "character", "unigrams", "compact"]))
def test_the_best_texts_are_those_of_all_paths(scorers, tmp_path_factory, archive: str, name: str) -> None:
    """The total of every text is the weighted sum of its own scores, log P by the model, and 0.5 for each word."""
    path = tmp_path_factory.mktemp("lattice") / "lat.txt"
    path.write_text(archive)
    [lattice] = read_kaldi_lattices(str(path), None, silent)
    assert isinstance(lattice, Lattice)
    expected = by_hand(archive)
    texts = list(expected)
    log_probs = scorers[name].log_probs(texts)
    totals = {
        text: np.dot(SCALES, expected[text]) + 1.5 * log_prob + 0.5 * len(text.split())
        for text, log_prob in zip(texts, log_probs, strict=True)
    }
    found = best_paths(lattice, SCALES, [(1.5, scorers[name])], 0.5, 1000)
    assert {path.text for path in found} == set(texts)
    for path in found:
        assert path.total == pytest.approx(totals[path.text], abs=1e-4)
        assert np.dot(SCALES, path.scores) == pytest.approx(np.dot(SCALES, expected[path.text]))
    assert [path.total for path in found] == sorted((path.total for path in found), reverse=True)
    few = best_paths(lattice, SCALES, [(1.5, scorers[name])], 0.5, 3)
    assert few == found[:3]


def test_two_models_one_with_a_negative_weight(scorers, tmp_path: Path) -> None:
    """As the old model's part is taken out of a lattice's scores."""
    archive = "utt\n0 1 so 1,2\n0 1 it 2,1\n1 2 goes 1,1\n1 2 on 0.5,1\n2\n\n"
    lattice = read_one(tmp_path, archive)
    models = [(1.0, scorers["word"]), (-0.5, scorers["unigrams"])]
    own = by_hand(archive)
    totals = [
        -0.0 + np.dot(SCALES, own[text]) + new - 0.5 * old
        for text, new, old in zip(own, *(scorer.log_probs(list(own)) for _, scorer in models), strict=True)
    ]
    [best] = best_paths(lattice, SCALES, models, 0.0, 1)
    assert (best.text, best.total) == (list(own)[int(np.argmax(totals))], pytest.approx(max(totals), abs=1e-5))


def read_one(folder: Path, archive: str, symbols: dict[int, str] | None = None) -> Lattice:
    path = folder / "one.lat"
    path.write_text(archive)
    reader = (
        read_slf_lattices(str(path), silent) if "N=" in archive else read_kaldi_lattices(str(path), symbols, silent)
    )
    [lattice] = reader
    assert isinstance(lattice, Lattice), lattice
    return lattice


def texts_of(lattice: Lattice) -> dict[str, tuple[float, ...]]:
    return {path.text: path.scores for path in best_paths(lattice, (1.0, 1.0), [], 0.0, 100)}


def test_what_kaldi_writes(tmp_path: Path) -> None:
    """Words, numbers of words, labels of both sides (a Lattice), missing weights and alignments."""
    expected = {"a b": (-4.0, -1.5), "a": (-3.0, -1.0)}
    words = "u\n0 1 a 1,3,4_4\n1 2 b 0.5,1,\n1 2 <eps>\n2\n\n"
    assert texts_of(read_one(tmp_path, words)) == expected
    numbers = "u\n0 1 7 1,3,4_4\n1 2 8 0.5,1,\n1 2 0\n2\n\n"
    symbols = {0: "<eps>", 7: "a", 8: "b"}
    assert texts_of(read_one(tmp_path, numbers, symbols)) == expected
    labels = "u\n0 3 12 7 1,2\n3 1 12 0 0,1\n1 2 3 8 0.5,1\n1 2 3 0\n2\n\n"
    assert texts_of(read_one(tmp_path, labels, symbols)) == expected


NODES = """VERSION=1.0
UTTERANCE=u1
# words on nodes
lmscale=2.0 wdpenalty=-1.0
N=4 L=4
I=0 t=0.00 W=!NULL
I=1 t=0.10 W=a v=1
I=2 t=0.10 W="it's"
I=3 t=0.30 W=\\'b\\303\\244
J=0 S=0 E=1 a=-10.0 l=-1.0
J=1 S=0 E=2 a=-12.0 l=-0.5
J=2 S=1 E=3 a=-4.0 l=-2.0
J=3 S=2 E=3 a=-4.0 l=-3.0
"""
LINKS = """VERSION=1.1
base=10
NODES=3 LINKS=3
I=0
I=1
I=2
J=0 START=0 END=1 WORD=a acoustic=-2 language=-1 r=-0.5
J=1 S=0 E=1 W=b a=-3 l=-0.5
J=2 S=1 E=2 W=!NULL a=-1
"""


def test_what_htk_writes(tmp_path: Path) -> None:
    """Scores by hand: (a + wdpenalty for each word) / lmscale, and l; of the second with base 10."""
    assert texts_of(read_one(tmp_path, NODES)) == {"a 'bä": (-8.0, -3.0), "it's 'bä": (-9.0, -3.5)}
    ln_10 = math.log(10)
    found = texts_of(read_one(tmp_path, LINKS))
    assert found["a"] == pytest.approx((-3.5 * ln_10, -ln_10))
    assert found["b"] == pytest.approx((-4 * ln_10, -0.5 * ln_10))


def test_scores_on_nodes_and_no_scale_of_language(tmp_path: Path) -> None:
    on_nodes = NODES.replace("W=a v=1", "W=a v=1 a=-10.0").replace("J=0 S=0 E=1 a=-10.0", "J=0 S=0 E=1")
    assert on_nodes != NODES
    assert texts_of(read_one(tmp_path, on_nodes)) == texts_of(read_one(tmp_path, NODES))
    without = NODES.replace("lmscale=2.0", "lmscale=0")
    assert texts_of(read_one(tmp_path, without)) == {"a 'bä": (-16.0, 0.0), "it's 'bä": (-18.0, 0.0)}


def test_formats_are_recognised(tmp_path: Path) -> None:
    for name, content in (("a", NODES), ("b", LINKS)):
        (tmp_path / "slf").mkdir(exist_ok=True)
        (tmp_path / "slf" / f"{name}.slf").write_text(content)
        assert format_of(str(tmp_path / "slf" / f"{name}.slf")) == "slf"
    assert format_of(str(tmp_path / "slf")) == "slf"
    assert [lattice.id for lattice in read_slf_lattices(str(tmp_path / "slf"), silent)] == ["a", "b"]
    kaldi = tmp_path / "lat.txt"
    for content in (
        "utt-1\n0 1 a 1,2,3\n1\n\n",
        "\nutt-1\n0 1 12 7\n1 2,3\n\n",
        "utt\n0 1.5,2,\n\n",
        "u1\n\n7\n\nu3\n0 1 a 1,2\n1\n\n",
    ):
        kaldi.write_text(content)
        assert format_of(str(kaldi)) == "kaldi-lattice"
    first, second, third = read_kaldi_lattices(str(kaldi), None, silent)
    assert isinstance(first, Unreadable)
    assert isinstance(second, Unreadable)
    assert third.id == "u3"
    (tmp_path / "slf" / "0.slf").write_text("")
    assert format_of(str(tmp_path / "slf")) == "slf"  # whose first file is empty
    kaldi.write_text("utt-1\nutt-2 so it goes\n")  # a Kaldi text whose first hypothesis is empty
    assert format_of(str(kaldi)) == "kaldi"


@pytest.mark.parametrize(
    ("archive", "line", "message"),
    [
        ("u\n0 1 a 1,2\n1 2 b 1,2\n2 1 c 1,2\n2\n\n", 3, "the lattice of u has a cycle through node"),
        ("u\n0 0 a 1,2\n0\n\n", 2, "has a cycle through node 0"),
        ("u\n0 1 a 1,2\n0 2 b 1,2\n1\n\n", 3, "node 2 leads to no final node; was the lattice cut short?"),
        ("u\n0 1 a 1,2\n\n", 1, "the lattice of u has no final node; was it cut short?"),
        ("u\n\n", 1, "the lattice of u has no final node"),
        ("u\n0 1 a 1,2\n5 1 b 1,2\n1\n\n", 3, "nothing leads to node 5"),
        ("u\n0 1 a 1,2\n1\n7 1,2\n\n", 1, "nothing leads to the final node 7"),
        ("u\n0 1 a 1,x\n1\n\n", 2, "a cost of u is 'x'; expected a number"),
        ("u\n0 1 a inf,1\n1\n\n", 2, "expected a finite number"),
        ("u\n0 1 a b c d\n1\n\n", 2, "in the lattice of u, expected from, to, word and costs"),
        ("u\n0 one a\n1\n\n", 2, "in the lattice of u, expected from, to, word and costs"),
        ("u v\n0 1 a 1,2\n1\n\n", 1, "expected the id of an utterance alone"),
        ("u\n0 1 7 1,2\n1\n\n", 1, "the words of u are numbers; name the table of their symbols"),
        ("u\n0 1 a 1,2\n1", 3, "the lattice of u ends without an empty line; was the file cut short?"),
    ],
)
def test_a_wrong_lattice_of_kaldi_is_named_and_the_next_one_read(
    archive: str, line: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "lat.txt"
    path.write_text(archive if not archive.endswith("\n") else archive + "good\n0 1 a 1,2\n1\n\n")
    wrong, *good = read_kaldi_lattices(str(path), None, silent)
    assert isinstance(wrong, Unreadable)
    assert str(wrong.error).startswith(f"{path}, line {line}: ")
    assert message in str(wrong.error)
    assert [lattice.id for lattice in good] == ["good"] * archive.endswith("\n")


def test_a_number_without_a_word_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lat.txt").write_text("u\n0 1 7 1,2\n1 2 9 1,2\n2\n\n")
    [wrong] = read_kaldi_lattices(str(tmp_path / "lat.txt"), {0: "<eps>", 7: "a"}, silent)
    assert isinstance(wrong, Unreadable)
    assert str(wrong.error).endswith("line 3: in the lattice of u, 9 is not a number of the table of symbols")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("J=3 S=2 E=3 a=-4.0 l=-3.0\n", "", "line 5: the lattice of one has 3 of 4 links; was the file cut short?"),
        ("I=3 t=0.30", "# I=3", "line 5: the lattice of one has 3 of 4 nodes"),
        ("N=4 L=4\n", "", "has no numbers of nodes and links"),
        ("J=0 S=0 E=1", "J=0 S=0 E=1 W", "expected fields such as W=word, not 'W a=-10.0 l=-1.0'"),
        ("J=3 S=2 E=3", "J=3 S=3 E=0", "nodes to start from; expected one"),
        ("J=1 S=0 E=2", "J=1 S=3 E=2", "the lattice of one has no final node"),
        ("a=-12.0", "a=x", "line 11: a of one is 'x'; expected a number"),
        ("lmscale=2.0", "base=1", "the base of one is 1; expected one of logarithms, or 0"),
        ("lmscale=2.0", "lmscale=-2", "the lmscale of one is -2; expected 0 or more"),
        ("lmscale=2.0", "base=0", "line 10: a of one is -10; with base=0, expected a probability above 0"),
        ("J=0 S=0 E=1", "J=0 S=0 E=9", "has a node 9, but only 4 nodes"),
        ("I=2 t=0.10", "I=2 L=sub", "has sub-lattices, which are not read"),
        ("\\303\\244", "\\377", "are not UTF-8"),
        ("it's", "it is", "the word 'it is' has a space"),
    ],
)
def test_a_wrong_lattice_of_htk_is_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "one.lat"
    path.write_text(NODES.replace(old, new))
    [wrong] = read_slf_lattices(str(path), silent)
    assert isinstance(wrong, Unreadable)
    assert message in str(wrong.error)


@given(st.data())
def test_damaged_lattices_are_read_or_refused(tmp_path_factory, data: st.DataObject) -> None:
    """Cut short, or with a few characters changed: a lattice, or an error in one line; never another exception."""
    text = data.draw(st.sampled_from([NODES, LINKS, "u\n0 1 a 1,3,4_4\n1 2 b 0.5,1,\n1 2 <eps>\n2 1,1,\n\n"]))
    characters = list(text[: data.draw(st.integers(1, len(text)))])
    for at in data.draw(st.lists(st.integers(0, len(characters) - 1), max_size=4)):
        characters[at] = data.draw(st.sampled_from("019=-. \n\\\"'#,INJSEWx_é"))
    path = tmp_path_factory.mktemp("damaged") / "x.lat"
    path.write_text("".join(characters))
    reader = read_slf_lattices(str(path), silent) if "N=" in text or "NODES" in text else None
    for lattice in reader or read_kaldi_lattices(str(path), None, silent):
        if isinstance(lattice, Unreadable):
            assert "\n" not in str(lattice.error)
        else:
            assert texts_of(lattice)


def test_lists_of_lattices(tmp_path: Path, scorers) -> None:
    """The best texts, and the first by its own scores alone; what is wrong goes to a callback, unless all is wrong."""
    (tmp_path / "lat.txt").write_text("u1\n0 1 zebra 9,0\n0 1 so 1,2\n0 1 it 0.5,2.5\n1\n\nu2\n0 1 a 1,2\n\n")
    lattices = list(read_kaldi_lattices(str(tmp_path / "lat.txt"), None, silent))
    search = LatticeSearch({"lm": scorers["word"]}, Weights({"acoustic": 0.1}), 1)
    wrong: list[Unreadable] = []
    assert search.left_out == []
    [found] = search.lists(lattices, wrong.append)
    assert (found.id, found.texts) == ("u1", ("so", "it"))  # own scores: -0.2 - 1, -0.25 - 0.5, -0 - 9
    assert found.scores == {"acoustic": (-2.0, -2.5), "graph": (-1.0, -0.5)}
    assert [unreadable.id for unreadable in wrong] == ["u2"]
    with pytest.raises(TextError, match="u2 has no final node"):
        list(search.lists(lattices[1:], wrong.append))


class TextLength:
    """A scorer of whole texts, as a network is one."""

    def log_probs(self, texts, sources=()) -> np.ndarray:
        return -np.array([len(text) for text in texts], float)


def test_other_models_choose_among_the_best_texts(tmp_path: Path, scorers) -> None:
    lattice = read_one(tmp_path, "u\n0 1 so 0,1\n0 1 on 0,2\n0 1 zebra 0,3\n1\n\n")
    search = LatticeSearch({"lm": scorers["word"], "length": TextLength()}, Weights({}), 2)
    assert search.left_out == ["length"]
    own = dict(zip(("so", "on", "zebra"), scorers["word"].log_probs(["so", "on", "zebra"]), strict=True))
    assert own["so"] - 1 > own["on"] - 2 > own["zebra"] - 3
    assert search.nbest(lattice).texts == ("so", "on")
    alone = LatticeSearch({"length": TextLength()}, Weights({}), 1)  # the old language model's score leads the search
    assert alone.nbest(read_one(tmp_path, "u\n0 1 so 5,1\n0 1 on 0,2\n1\n\n")).texts == ("on",)
