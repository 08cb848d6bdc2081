"""The experiments attention (scores, ways of attending), bottleneck (one vector for a source), heads (what each sees).

Attention: six scores, and three ways of attending, after equally many steps on one task. LSTMs write letters backwards,
so that the right place to attend to is known: the one letter that comes next.

Bottleneck: an encoder that hands over one vector, whatever the length of the source, against attention. Two LSTMs write
letters backwards (Cho et al. 2014; Bahdanau et al. 2015, figure 2). Without attention, the decoder has nothing but the
encoder's last state.

Heads: what each head of a small Transformer looks at, after it has learned sentences of two kinds (Clark et al. 2019
ask both of BERT), and what is lost without it (Michel et al. 2019).

    the key near the cars from the houses is lost          when the verb is to be predicted, the subject is what
                                                           matters, and the nouns that stand nearer mislead
    the king said the girl near the boy saw herself        when the reflexive is to be predicted, the person that it
                                                           stands for matters; a nearer one misleads, and the first
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.inspect.intervention import Unit, log_probs_without, units_of
from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.datasets.sentences import LEARNED, agreement_at_a_distance
from chainrule.features.lectures.experiments.findings import Findings, in_turn, share_of
from chainrule.features.lectures.experiments.small_models import (
    FIRST_WORD,
    SMALL,
    accuracy,
    draw_sources,
    train_on_reversal,
    train_small,
)
from chainrule.neural.config import TransformerConfig
from chainrule.neural.inspection import maps_of_text
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtyping import Float, Int32
    from numpy import ndarray

    from chainrule.features.lectures.datasets.sentences import MinimalPair
    from chainrule.features.seq2seq.network.config import Looks, Seq2SeqConfig
    from chainrule.protocol import LanguageModel

COMPARED: dict[str, Seq2SeqConfig] = {
    "none": replace(SMALL, attention="none"),
    "dot": replace(SMALL, score="dot"),
    "scaled dot": replace(SMALL, score="scaled_dot"),
    "general": replace(SMALL, score="general"),
    "additive": replace(SMALL, score="additive"),
    "content": replace(SMALL, score="content"),
    "location": replace(SMALL, score="location"),
    "local": replace(SMALL, attention="local", score="dot", center="predicted", window=3),
    "hard": replace(SMALL, attention="hard", score="dot", estimator="straight_through"),
}


def attention(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: Mapping[str, Seq2SeqConfig] = COMPARED,
    trained_to: int = 10,
    sources: int = 4000,
    tested: int = 100,
    steps: int = 300,
) -> Findings:
    """Return the share of right letters for each kind of attention, after this many steps. Raises SettingError.

    trained_to: the length of the longest training source, and of all test sources.
    """
    rng = np.random.default_rng(seed)
    training = draw_sources(rng, rng.integers(1, trained_to + 1, sources).tolist())
    test = draw_sources(rng, [trained_to] * tested)
    shares = {}
    for label, config in in_turn("attention", compared, progress):
        shares[label] = accuracy(train_on_reversal(config, training, steps=steps, seed=seed), test)
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    return Findings(
        title=f"{trained_to} letters written backwards, after {steps} steps",
        x=Axis(label="attention", categories=list(shares)),
        y=Axis(label="share of right letters"),
        lines=[Line(label="two LSTMs", x=list(range(len(shares))), y=list(shares.values()))],
        finding=f"After {steps} steps {ranked[0]} is best, with {shares[ranked[0]]:.0%} of the letters right; "
        f"{ranked[-1]} is last, with {shares[ranked[-1]]:.0%}.",
    )


_COMPARED: dict[str, Looks] = {"one vector": "none", "attention": "soft"}


def bottleneck(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lengths: Sequence[int] = (2, 4, 6, 8, 10, 12, 16),
    trained_to: int = 12,
    sources: int = 6000,
    tested: int = 50,
    steps: int = 400,
) -> Findings:
    """Return the share of right letters by the length of the source, with and without attention. Raises SettingError.

    trained_to: the length of the longest training source. tested: how many sources to test for each length.
    """
    rng = np.random.default_rng(seed)
    training = draw_sources(rng, rng.integers(1, trained_to + 1, sources).tolist())
    tests = [draw_sources(rng, [length] * tested) for length in lengths]
    lines = []
    for label, attention in in_turn("bottleneck", _COMPARED, progress):
        model = train_on_reversal(
            replace(SMALL, attention=attention, score="additive"), training, steps=steps, seed=seed
        )
        lines.append(Line(label=label, x=list(lengths), y=[accuracy(model, test) for test in tests]))
    at = list(lengths).index(trained_to) if trained_to in lengths else -1
    vector, attention_line = lines
    return Findings(
        title=f"Letters written backwards by two LSTMs; trained to length {trained_to}",
        x=Axis(label="length of the source"),
        y=Axis(label="share of right letters"),
        lines=lines,
        finding=(
            f"At length {lengths[at]}, {vector.y[at]:.0%} of the letters are right where the source is one vector, and "
            f"{attention_line.y[at]:.0%} with attention."
        ),
    )


_FORMS = (("is", "are"), ("was", "were"), ("has", "have"), ("himself", "herself"))
_OTHER_FORM = {one: other for forms in _FORMS for one, other in (forms, forms[::-1])}
_VERBS = {verb for forms in _FORMS[:-1] for verb in forms}
_SUBJECT = 2  # its position, after </s> and `the`
_PEOPLE = {"himself": ("boy", "king", "man"), "herself": ("girl", "queen", "woman")}
_PREPOSITIONS = ("near", "behind", "from")
_PLACES = ("house", "city", "garden")
_ACTIONS = ("saw", "helped", "hurt", "praised")


class HeadStatistics(NamedTuple):
    """Mean weights of a head: the largest of each query; on the query's own word, the word before it and the first
    token. distance: the mean distance in words.
    """

    largest: float
    own: float
    previous: float
    first: float
    distance: float


class Reflexive(NamedTuple):
    """A sentence that ends with himself or herself, and the position of the word that this stands for, after </s>."""

    words: list[str]
    antecedent: int


def heads(
    *,
    seed: int = 0,
    progress: Progress = silent,
    layers: int = 2,
    width: int = 64,
    sentences: int = 4000,
    tested: int = 200,
    steps: int = 400,
) -> Findings:
    """Return the habits of each head, and the share of right words without it, with a line for each.

    Raises SettingError.
    """
    chance = Random(seed, "heads")
    texts = [chance.choice(LEARNED)(chance).good.split() for _ in range(sentences)]
    texts += [draw_reflexive(chance).words for _ in range(sentences)]
    verbs = [_to_verb(agreement_at_a_distance(chance)) for _ in range(tested)]
    reflexives = [draw_reflexive(chance, has_rival=True) for _ in range(tested)]
    words = sorted({word for text in (*texts, *verbs) for word in text} | _VERBS)
    ids = {word: FIRST_WORD + i for i, word in enumerate(words)}
    config = TransformerConfig(layers=layers, heads=4, width=width, context=32, memory="document")
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    progress("heads: training", 0, 3)
    order = np.random.default_rng(seed).permutation(len(texts))
    documents = [[ids[word] for word in texts[i]] for i in order.tolist()]
    model = train_small(documents, FIRST_WORD + len(words), config, training)
    progress("heads: looking", 1, 3)

    def ids_of(text: Sequence[str]) -> Int32[ndarray, " T"]:
        return np.array([ids[word] for word in text], np.int32)

    def maps_before(text: list[str]) -> dict[str, Float[ndarray, "T T"]]:
        """Return the weights of each head over a text, whose last query predicts the next word."""
        _, maps = maps_of_text(model, ids_of(text))
        return {
            f"layer {layer.layer}, head {head + 1}": np.asarray(weights)
            for layer in maps
            for head, weights in enumerate(layer.weights)
        }

    before_verbs = [maps_before(text[:-1]) for text in verbs]
    before_reflexives = [(maps_before(reflexive.words[:-1]), reflexive.antecedent) for reflexive in reflexives]
    progress("heads: removing", 2, 3)
    units = [unit for layer in units_of(model) for unit in layer if isinstance(unit.part, int)]
    right_verbs = _right_without(model, units, [(ids_of(text), ids[_OTHER_FORM[text[-1]]]) for text in verbs])
    right_reflexives = _right_without(
        model, units, [(ids_of(words), ids[_OTHER_FORM[words[-1]]]) for words, _ in reflexives]
    )
    progress("heads", 3, 3)
    means = {
        head: HeadStatistics(*np.mean([habits(maps[head]) for maps in before_verbs], 0)) for head in before_verbs[0]
    }
    subject = {head: _mean(maps[head][-1, _SUBJECT] for maps in before_verbs) for head in means}
    antecedent = {head: _mean(maps[head][-1, place] for maps, place in before_reflexives) for head in means}
    rows = [
        [*own[:4], subject[head], antecedent[head], verb, reflexive]
        for (head, own), verb, reflexive in zip(means.items(), right_verbs[1:], right_reflexives[1:], strict=True)
    ]
    return Findings(
        title="What heads look at, and what is lost without them",
        x=Axis(
            label="attention",
            categories=[
                *("largest weight", "own word", "word before", "first token"),
                *("verb to subject", "reflexive to person", "right verbs without", "right reflexives without"),
            ],
        ),
        y=Axis(label="mean weight, or share"),
        lines=[
            Line(label=head, x=list(range(len(row))), y=[float(value) for value in row])
            for head, row in zip(means, rows, strict=True)
        ],
        finding=(
            f"{_told('The verb', 'the subject', subject, right_verbs, tested)} "
            f"{_told('The reflexive', 'the person meant', antecedent, right_reflexives, tested)}"
        ),
        says=[f"{head}: looks back {own.distance:.1f} words on average" for head, own in means.items()],
    )


def draw_reflexive(chance: Random, *, has_rival: bool = False) -> Reflexive:
    """Return a sentence such as the king said the girl near the boy saw herself: half of the sentences begin with
    another person.

    has_rival: whether a person of the other gender stands nearer than the one that is meant; if not, a person of either
    gender, a place or nothing does.
    """
    pronoun = chance.choice(tuple(_PEOPLE))
    start = ["the", chance.choice(_PEOPLE[chance.choice(tuple(_PEOPLE))]), "said"] if chance.below(2) else []
    near: list[str] = []
    if has_rival:
        near = [chance.choice(_PREPOSITIONS), "the", chance.choice(_PEOPLE[_OTHER_FORM[pronoun]])]
    elif kind := chance.below(3):
        nouns = _PLACES if kind == 1 else _PEOPLE[chance.choice(tuple(_PEOPLE))]
        near = [chance.choice(_PREPOSITIONS), "the", chance.choice(nouns)]
    words = [*start, "the", chance.choice(_PEOPLE[pronoun]), *near, chance.choice(_ACTIONS), pronoun]
    return Reflexive(words, len(start) + 2)


def _to_verb(pair: MinimalPair) -> list[str]:
    """Return the right sentence, up to its verb."""
    words = pair.good.split()
    return words[: 1 + next(i for i, word in enumerate(words) if word in _VERBS)]


def _right_without(
    model: LanguageModel[Any], units: Sequence[Unit], texts: Sequence[tuple[Int32[ndarray, " T"], int]]
) -> list[float]:
    """Return the share of the texts whose last token is likelier than another one, of the whole model and without each
    unit.
    """
    groups = [[], *([unit] for unit in units)]
    right = []
    for tokens, other in texts:
        wrong = np.append(tokens[:-1], np.int32(other))
        own, others = (log_probs_without(model, row, groups, "zero", silent)[:, -1] for row in (tokens, wrong))
        right.append(own > others)
    return [float(share) for share in np.mean(right, 0)]


def _told(what: str, on: str, weights: Mapping[str, float], right: Sequence[float], tested: int) -> str:
    """Say what a head looks at most, and how much is right with it, without it, and without the head that matters
    most.
    """
    names = list(weights)
    looks, share = max(weights.items(), key=lambda item: item[1])
    needed = int(np.argmin(right[1:]))
    without = right[1 + names.index(looks)]
    own = "" if right[1 + needed] >= without else f", and without {names[needed]} {share_of(right[1 + needed], tested)}"
    return (
        f"{what} is right in {share_of(right[0], tested)}, against misleading nouns that stand nearer: {looks} puts "
        f"{share:.0%} of its weight on {on}, and without it {share_of(without, tested)} are right{own}."
    )


def _mean(weights: Iterable[float]) -> float:
    return float(np.mean(list(weights)))


def habits(weights: Float[ndarray, "T T"]) -> HeadStatistics:
    """Return the statistics of one head, for one text that ends before its verb.

    The first query, which has no choice, does not count.
    """
    positions = np.arange(len(weights))
    later = weights[1:]
    distances = positions[1:, None] - positions[None, :]
    return HeadStatistics(
        largest=float(later.max(axis=1).mean()),
        own=float(np.diagonal(weights)[1:].mean()),
        previous=float(np.diagonal(weights, -1).mean()),
        first=float(later[:, 0].mean()),
        distance=float((later * distances).sum(axis=1).mean()),
    )
