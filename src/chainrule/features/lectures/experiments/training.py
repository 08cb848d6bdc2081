"""The experiments pretraining, race and forcing: texts without labels, an LSTM and a Transformer, and own guesses.

Pretraining: reviews have opinions in two hundred words, and few of them are labelled, so that most words of a test
review were never seen with a label. The same network starts from random weights, or from what it learned by predicting
the words of reviews without labels: `and` joins opinions that agree (Hatzivassiloglou and McKeown 1997), so that to
predict words is to know which of them mean alike.

Race: an LSTM and a Transformer of about the same size read characters of the built-in text. A step of the Transformer
is worth more and takes longer; so it is ahead by tokens first, and by processor time later.

Forcing: what a decoder reads while it is trained, the right letters before (teacher), its own guesses (student), or
more and more of these (scheduled sampling, Bengio et al. 2015). It then writes letters backwards, and reads its own.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.classify.labelled.texts import Labelled
from chainrule.features.classify.training import finetune
from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.experiments.findings import Findings, in_turn, share_of
from chainrule.features.lectures.experiments.small_models import SMALL as WRITER
from chainrule.features.lectures.experiments.small_models import accuracy, draw_sources, train_on_reversal
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_lines
from chainrule.training.config import FineTuningConfig, Forcing, TrainingConfig
from chainrule.training.job import StreamOptions
from chainrule.training.run import train_network
from chainrule.verbs.training.train import train

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.neural.config import NetworkConfig

WRITER_BY_DOT = replace(WRITER, score="dot")
SMALL = RecurrentConfig(layers=1, width=96, context=64, memory="document", dropout=0.0)


def pretraining(
    *,
    seed: int = 0,
    progress: Progress = silent,
    labels: Sequence[int] = (50, 100, 200, 400),
    config: NetworkConfig = SMALL,
    unlabelled: int = 12_000,
    words: int = 100,
    tested: int = 400,
    epochs: int = 20,
    steps: int = 1000,
) -> Findings:
    """Return the share of right labels by the number of labelled texts, from random weights and from pre-trained ones.

    unlabelled: how many texts are read before. words: with an opinion, of each kind. Raises SettingError.
    """
    chance = Random(seed, "pretraining")
    drawn = dict(draw_review(chance, words) for _ in range(unlabelled + tested + max(labels)))
    examples = [Labelled(text, (label,)) for text, label in drawn.items()]
    test, labelled, rest = examples[:tested], examples[tested : tested + max(labels)], examples[tested + max(labels) :]
    progress("pretraining: without labels", 0, 1 + 2 * len(labels))
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    texts = Lines([example.text for example in rest])
    model = train(texts, config, tokenizer="whitespace", training=training, progress=False)
    lines: list[Line] = []
    for start, is_fresh in (("random weights", True), ("pre-trained", False)):
        shares = []
        for i, count in enumerate(labels):
            progress(f"pretraining: {count} labels, {start}", 1 + i + len(labels) * len(lines), 1 + 2 * len(labels))
            settings = FineTuningConfig(epochs=epochs, learning_rate=5e-3, fresh=is_fresh, seed=seed)
            classifier = finetune(model, labelled[:count], config=settings, progress=False)
            shares.append(classifier.assess(test, progress=False).accuracy.share)
        lines.append(Line(label=start, x=list(labels), y=shares))
    progress("pretraining", 1, 1)
    fresh, pretrained = lines
    gains = [after - before for before, after in zip(fresh.y, pretrained.y, strict=True)]
    at = gains.index(max(gains))
    return Findings(
        title="Reviews with denials, by the number of labels",
        x=Axis(label="labelled reviews"),
        y=Axis(label="share of right labels"),
        lines=lines,
        finding=(
            f"With {labels[at]} labels, {share_of(fresh.y[at], tested)} of the test reviews are right from random "
            f"weights, and {share_of(pretrained.y[at], tested)} after {len(rest):,} reviews without labels."
        ),
    )


_CONTEXT, _BATCH = 128, 16
_HELD_OUT = 0.05  # the share of the text that is predicted
RACERS: dict[str, NetworkConfig] = {
    "LSTM": RecurrentConfig(layers=1, width=192, context=_CONTEXT),
    "Transformer": TransformerConfig(layers=2, heads=4, width=128, context=_CONTEXT),
}


def race(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lines: Sequence[str] | None = None,
    compared: Mapping[str, NetworkConfig] = RACERS,
    steps: Sequence[int] = (50, 150, 450),
) -> Findings:
    """Return the held-out loss of a character by training tokens, with a line for each network, and its processor time.

    lines: a text; by default the built-in one. Raises TextError.
    """
    tokenizer, stream, *_ = tokenize_source(Lines(lines or sample_lines(progress)), "character", progress=silent)
    cut = int((1 - _HELD_OUT) * len(stream))
    heldout = [stream[i : i + _CONTEXT] for i in range(cut, len(stream) - _CONTEXT, 8 * _CONTEXT)][:150]
    curves, says, seconds = [], [], {}
    for label, config in in_turn("race", compared, progress):
        losses, spent = [], []
        for count in steps:
            training = TrainingConfig(steps=count, batch=_BATCH, seed=seed, compile="no")
            began = time.process_time()
            network, _ = train_network(
                stream[:cut], tokenizer.vocabulary_size, config, StreamOptions(training=training)
            )
            spent.append(time.process_time() - began)
            losses.append(-float(np.concatenate(NeuralModel(network).score(heldout, end=False)).mean()))
        seconds[label] = spent
        curves.append(Line(label=label, x=[float(count * _CONTEXT * _BATCH) for count in steps], y=losses))
        says.append(
            f"{label}: {sum(weight.numel() for weight in network.parameters()):,} parameters; "
            + ", ".join(f"{loss:.2f} nats after {taken:.0f} s" for loss, taken in zip(losses, spent, strict=True))
            + " of processor time"
        )
    first, other = curves
    return Findings(
        title="The loss of a character by training",
        x=Axis(label="training tokens", log=True),
        y=Axis(label="loss of a character, nats", log=True),
        lines=curves,
        finding=(
            f"After {first.x[-1]:,.0f} tokens the {other.label} has {other.y[-1]:.2f} nats, the {first.label} "
            f"{first.y[-1]:.2f}; a step of the {other.label} takes "
            f"{seconds[other.label][-1] / seconds[first.label][-1]:.1f} times as long."
        ),
        says=says,
    )


def forcing(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: Sequence[Forcing] = get_args(Forcing),
    config: Seq2SeqConfig = WRITER_BY_DOT,
    trained_to: int = 6,
    sources: int = 4000,
    tested: int = 100,
    steps: Sequence[int] = (100, 200, 300),
) -> Findings:
    """Return the share of right letters by training steps, with a line for each kind of forcing. Raises SettingError.

    trained_to: the length of the longest training source, and of all test sources.
    """
    rng = np.random.default_rng(seed)
    training = draw_sources(rng, rng.integers(1, trained_to + 1, sources).tolist())
    test = draw_sources(rng, [trained_to] * tested)
    lines = []
    for label, kind in in_turn("forcing", {f"{kind} forcing": kind for kind in compared}, progress):
        models = [train_on_reversal(config, training, steps=count, seed=seed, forcing=kind) for count in steps]
        lines.append(Line(label=label, x=list(steps), y=[accuracy(model, test) for model in models]))
    letters = tested * trained_to
    told = "; ".join(f"{line.label} {share_of(line.y[-1], letters)}" for line in lines)
    return Findings(
        title=f"{trained_to} letters written backwards, by what the decoder reads in training",
        x=Axis(label="training steps"),
        y=Axis(label="share of right letters"),
        lines=lines,
        finding=f"After {steps[-1]} steps this share of the letters is right: {told}.",
    )


_KINDS = ("good", "bad")
_THINGS = ("film", "movie", "book", "story", "play", "plot")


def draw_review(chance: Random, words: int) -> tuple[str, str]:
    """Return a review such as the plot was good17 and not bad3 and good92, and its label; words are numbered, as their
    form says nothing.
    """
    label = chance.below(2)
    opinions = []
    for _ in range(2 + chance.below(2)):
        is_denied = chance.below(4) == 0
        word = f"{_KINDS[label != is_denied]}{chance.below(words)}"
        opinions.append(f"not {word}" if is_denied else word)
    return f"the {chance.choice(_THINGS)} was {' and '.join(opinions)}", _KINDS[label]
