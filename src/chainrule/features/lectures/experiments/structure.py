"""The experiments probes and graphs: what layers know of a sentence's structure, and a graph that attention finds.

Probes: what the layers of a Transformer know is asked of their vectors by linear classifiers. Sentences nest, as in:
the dog that the cats see runs. Every noun is a verb elsewhere, and its plural has the form of the verb's singular, so
that a form alone tells neither the part of speech nor the number. A probe (Alain and Bengio 2016) is a linear
classifier from a layer's vector of a word to one of these: the word itself; its part of speech; how many nouns still
wait for their verb; and, after a verb, the number of the noun whose verb comes next, which stands before all that has
just been closed. The same probes of the network before training (Hewitt and Liang 2019: controls) say how much of it is
the network's, and how much the probe's.

Graphs: every word of a document but the first ones copies, nine times of ten, the word at one place before it, which
is drawn once for each place: a graph that all documents share. A recurrent network is a chain, whatever the graph is;
attention starts with all edges alike and learns which there are (Battaglia et al. 2018). The rival that is told the
graph counts how words follow the words that they are joined to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.lectures.experiments.findings import Findings, in_turn, share_of
from chainrule.features.lectures.experiments.small_models import FIRST_WORD, by_adamw, train_small
from chainrule.neural.build import build
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.embedding import token_vectors
from chainrule.neural.inspection import maps_of_text
from chainrule.neural.language_model import NeuralModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.protocol import LanguageModel

_STEMS = 30
_THE, _THAT, _OFTEN, _STOP = range(FIRST_WORD, FIRST_WORD + 4)
_FIRST_STEM = _STOP + 1
_VOCABULARY = _FIRST_STEM + 2 * _STEMS
_SMALL = TransformerConfig(layers=4, heads=4, width=64, context=64, memory="document", dropout=0.0)
QUESTIONS = ("the word itself", "noun or verb", "the count of open nouns", "the number of the next verb")
_NOT_ASKED = -1


class Sentence(NamedTuple):
    """Token ids, and the answer to each of `QUESTIONS` at each token, or -1 where it is not asked."""

    tokens: list[int]
    answers: list[tuple[int, int, int, int]]


def probes(
    *,
    seed: int = 0,
    progress: Progress = silent,
    config: TransformerConfig = _SMALL,
    sentences: int = 6000,
    asked: int = 600,
    steps: int = 600,
) -> Findings:
    """Return the share of right answers of a linear probe of each layer, with a line for each question.

    Raises SettingError. asked: sentences that train the probes, and half as many that test them; the network has seen
    none of them.
    """
    rng = np.random.default_rng(seed)
    texts = [draw_sentence(rng).tokens for _ in range(sentences)]
    probed = [draw_sentence(rng) for _ in range(asked + asked // 2)]
    layers = list(range(config.layers + 1))
    progress("probes: training", 0, 2)
    torch.manual_seed(seed)
    untrained = build(config, _VOCABULARY).eval()
    model = train_small(texts, _VOCABULARY, config, by_adamw(steps, seed))
    assert isinstance(model, NeuralModel)
    progress("probes: asking", 1, 2)
    shares, chance = (
        [_right_shares(network, probed, asked, layer) for layer in layers] for network in (model.network, untrained)
    )
    progress("probes", 1, 1)
    lines = [Line(label=question, x=layers, y=[row[i] for row in shares]) for i, question in enumerate(QUESTIONS)]
    tested = _asked_of(probed[asked:])
    best = [line.y.index(max(line.y)) for line in lines]
    return Findings(
        title="What a linear probe finds in each layer (0 is the embedding)",
        x=Axis(label="layer"),
        y=Axis(label="share of right answers"),
        lines=lines,
        finding="The probes find most "
        + ", ".join(
            f"of {line.label} in layer {at} ({share_of(line.y[at], count)}; {line.y[0]:.0%} in the embedding)"
            for line, at, count in zip(lines[1:], best[1:], tested[1:], strict=True)
        )
        + f". {QUESTIONS[0].capitalize()} is right in {lines[0].y[-1]:.0%} in the last layer.",
        says=[
            "in the same network before training, the best layer has "
            + ", ".join(f"{max(row[i] for row in chance):.0%} ({question})" for i, question in enumerate(QUESTIONS)),
            "the commonest answer has "
            + ", ".join(
                f"{_commonest(probed[asked:], i):.0%} ({question})" for i, question in enumerate(QUESTIONS) if i
            ),
        ],
    )


_PLACES, _ROOTS, _WORDS, _COPIED = 24, 4, 8, 0.9
_ATTENTION = TransformerConfig(layers=1, heads=4, width=64, context=_PLACES + 2, positions="learned", memory="document")
_CHAIN = RecurrentConfig(layers=1, width=96, context=_PLACES + 2, memory="document")


def graphs(
    *,
    seed: int = 0,
    progress: Progress = silent,
    attention: TransformerConfig = _ATTENTION,
    chain: RecurrentConfig = _CHAIN,
    documents: Sequence[int] = (100, 300, 1000, 5000),
    tested: int = 300,
    steps: int = 1200,
) -> Findings:
    """Return the loss of a word that has an edge, by the number of training documents, with a line for each reader.

    Raises SettingError.
    """
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(place)) for place in range(_ROOTS, _PLACES)]
    train = [draw_copies(rng, parents) for _ in range(max(documents))]
    test = [draw_copies(rng, parents) for _ in range(tested)]
    training = by_adamw(steps, seed)
    found: list[float] = []
    lines = [
        Line(label="told the graph", x=list(documents), y=[_loss_given(parents, train[:n], test) for n in documents])
    ]
    compared: dict[str, NetworkConfig] = {"attention": attention, "LSTM": chain}
    for label, config in in_turn("graphs", compared, progress):
        losses = []
        for count in documents:
            model = train_small(train[:count], FIRST_WORD + _WORDS, config, training)
            scores = np.array([np.asarray(row)[_ROOTS:_PLACES] for row in model.score(test)])
            losses.append(-float(scores.mean()))
            if config is attention:
                found.append(found_edges(model, parents, test))
        lines.append(Line(label=label, x=list(documents), y=losses))
    edges = ", ".join(f"{share:.0%} of {count:,}" for share, count in zip(found, documents, strict=False))
    return Findings(
        title="Words that copy one before them, along a hidden graph",
        x=Axis(label="training documents", log=True),
        y=Axis(label="loss of a word, nats"),
        lines=lines,
        finding=f"With {documents[-1]:,} documents, the loss is "
        + ", ".join(f"{line.y[-1]:.2f} ({line.label})" for line in lines)
        + f"; chance is {np.log(_WORDS):.2f}.",
        says=[f"the largest weight of attention is on the right edge for {edges} documents"] if found else [],
    )


def draw_copies(rng: np.random.Generator, parents: Sequence[int]) -> Int32[ndarray, " places"]:
    """Return a document; each word after the roots is that of its parent, or, one time in ten, a random one."""
    words = rng.integers(_WORDS, size=_PLACES)
    for place, parent in enumerate(parents, _ROOTS):
        if rng.random() < _COPIED:
            words[place] = words[parent]
    return (FIRST_WORD + words).astype(np.int32)


def _loss_given(
    parents: Sequence[int], train: Sequence[Int32[ndarray, " T"]], test: Sequence[Int32[ndarray, " T"]]
) -> float:
    """Return the loss in nats a word, by counts of a word and its parent's, plus one."""
    counts = np.ones((_WORDS, _WORDS))
    ends = np.arange(_ROOTS, _PLACES)
    known, asked = np.array(train) - FIRST_WORD, np.array(test) - FIRST_WORD
    np.add.at(counts, (known[:, parents], known[:, ends]), 1)
    probabilities = counts / counts.sum(1, keepdims=True)
    return -float(np.log(probabilities[asked[:, parents], asked[:, ends]]).mean())


def found_edges(model: LanguageModel[Any], parents: Sequence[int], test: Sequence[Int32[ndarray, " T"]]) -> float:
    """Return the share of places where the parent has the largest weight of all words, as a mean over heads and
    documents.

    The token before all words does not count: a head that has nothing to find at a place looks there.
    """
    assert isinstance(model, NeuralModel)
    weights = np.mean([maps_of_text(model, document)[1][0].weights.mean(0) for document in test], 0)
    of_words = weights[_ROOTS:_PLACES, 1:]  # a place is predicted from the index before its own; the begin is the first
    right = [int(row.argmax()) == parent for row, parent in zip(of_words, parents, strict=True)]
    return float(np.mean(right))


def draw_sentence(rng: np.random.Generator) -> Sentence:
    """Return a sentence such as the 7s that the 2 13s 21s: stems and endings, with clauses within one another up to
    three deep.
    """
    sentence = Sentence([], [])
    _draw_clause(rng, sentence, [], 3)
    _add(sentence, _STOP, waiting=[])
    return sentence


def _draw_clause(rng: np.random.Generator, sentence: Sentence, waiting: list[int], deepest: int) -> None:
    """Add a noun, perhaps with a clause on it, and its verb. waiting: the numbers of the nouns whose verbs are to
    come.
    """
    number = int(rng.integers(2))
    _add(sentence, _THE, waiting)
    _add(sentence, _form(int(rng.integers(_STEMS)), has_s=number == 1), [*waiting, number], is_verb=0)
    if deepest > 1 and rng.random() < 0.6:
        _add(sentence, _THAT, [*waiting, number])
        _draw_clause(rng, sentence, [*waiting, number], deepest - 1)
    if rng.random() < 0.3:
        _add(sentence, _OFTEN, [*waiting, number])
    _add(sentence, _form(int(rng.integers(_STEMS)), has_s=number == 0), waiting, is_verb=1)


def _form(stem: int, *, has_s: bool) -> int:
    return _FIRST_STEM + 2 * stem + has_s


def _add(sentence: Sentence, token: int, waiting: list[int], is_verb: int = _NOT_ASKED) -> None:
    """Add a token, and the answers after it."""
    following = waiting[-1] if is_verb == 1 and waiting else _NOT_ASKED
    sentence.tokens.append(token)
    sentence.answers.append((token, is_verb, len(waiting), following))


def _right_shares(network: Network, probed: Sequence[Sentence], asked: int, layer: int) -> list[float]:
    """Return the share of right answers to each question. Probes learn from the first of the sentences."""
    read = token_vectors(network, [np.array(sentence.tokens, np.int32) for sentence in probed], layer)
    train, test = np.concatenate(read[:asked]), np.concatenate(read[asked:])
    shares = []
    for i in range(len(QUESTIONS)):
        right, wanted = _answers(probed[:asked], i), _answers(probed[asked:], i)
        known = right != _NOT_ASKED
        classes = fit_probe(train[known], right[known])(test[wanted != _NOT_ASKED])
        shares.append(float((classes == wanted[wanted != _NOT_ASKED]).mean()))
    return shares


def _answers(sentences: Sequence[Sentence], question: int) -> Int64[ndarray, " tokens"]:
    return np.array([answers[question] for sentence in sentences for answers in sentence.answers])


def fit_probe(
    vectors: Float[ndarray, "tokens D"], classes: Int64[ndarray, " tokens"], penalty: float = 1e-3
) -> Callable[[Float[ndarray, "tokens D"]], Int64[ndarray, " tokens"]]:
    """Return a linear classifier: least squares for a 1 at the right class and 0 elsewhere, with a ridge penalty a
    vector.
    """
    mean, deviation = vectors.mean(0), vectors.std(0) + 1e-6
    kinds = np.unique(classes)

    def scaled(rows: Float[ndarray, "tokens D"]) -> Float64[ndarray, "tokens D+1"]:
        return np.column_stack([(rows - mean) / deviation, np.ones(len(rows))]).astype(np.float64)

    x = scaled(vectors)
    targets = (classes[:, None] == kinds).astype(np.float64)
    weights = np.linalg.solve(x.T @ x + penalty * len(x) * np.eye(x.shape[1]), x.T @ targets)
    return lambda rows: kinds[(scaled(rows) @ weights).argmax(1)]


def _asked_of(sentences: Sequence[Sentence]) -> list[int]:
    """Return how many words each question is asked of."""
    return [int((_answers(sentences, i) != _NOT_ASKED).sum()) for i in range(len(QUESTIONS))]


def _commonest(sentences: Sequence[Sentence], question: int) -> float:
    answers = _answers(sentences, question)
    return float(np.bincount(answers[answers != _NOT_ASKED]).max() / (answers != _NOT_ASKED).sum())
