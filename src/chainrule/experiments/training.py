"""The experiments pretraining and forcing: what a network learns from texts without labels, and from its own guesses.

Pretraining: reviews have opinions in two hundred words, and few of them are labelled, so that most words of a test
review were never seen with a label. The same network starts from random weights, or from what it learned by predicting
the words of reviews without labels: `and` joins opinions that agree (Hatzivassiloglou and McKeown 1997), so that to
predict words is to know which of them mean alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.api.training.classifier import finetune
from chainrule.api.training.train import train
from chainrule.base.progress import Progress, silent
from chainrule.datasets.random import Random
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings, share_of
from chainrule.neural.config import RecurrentConfig
from chainrule.text.corpus.corpus import Lines
from chainrule.text.labelled import Labelled
from chainrule.training.config import FineTuningConfig, TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.neural.config import NetworkConfig

SMALL = RecurrentConfig(layers=1, width=96, context=64, memory="document", dropout=0.0)


def pretraining(
    *,
    seed: int = 0,
    progress: Progress = silent,
    labels: Sequence[int] = (50, 100, 200, 400),
    config: NetworkConfig = SMALL,
    unlabelled: int = 12_000,
    tested: int = 400,
    epochs: int = 20,
    steps: int = 1000,
) -> Findings:
    """The share of right labels by the number of labelled texts, from random weights and from pre-trained ones.

    unlabelled: how many texts are read before. Raises SettingError.
    """
    chance = Random(seed, "pretraining")
    drawn = dict(draw_review(chance) for _ in range(unlabelled + tested + max(labels)))
    examples = [Labelled(text, (label,)) for text, label in drawn.items()]
    test, labelled, rest = examples[:tested], examples[tested : tested + max(labels)], examples[tested + max(labels) :]
    progress("pretraining: without labels", 0, 1 + 2 * len(labels))
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    texts = Lines([example.text for example in rest])
    model = train(texts, config, tokenizer="whitespace", training=training, progress=False)
    lines = []
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


_KINDS = ("good", "bad")
_WORDS = 100  # of each kind
_THINGS = ("film", "movie", "book", "story", "play", "plot")


def draw_review(chance: Random) -> tuple[str, str]:
    """the plot was good17 and not bad3 and good92, and its label; words are numbered, as their form tells nothing."""
    label = chance.below(2)
    opinions = []
    for _ in range(2 + chance.below(2)):
        is_denied = chance.below(4) == 0
        word = f"{_KINDS[label != is_denied]}{chance.below(_WORDS)}"
        opinions.append(f"not {word}" if is_denied else word)
    return f"the {chance.choice(_THINGS)} was {' and '.join(opinions)}", _KINDS[label]
