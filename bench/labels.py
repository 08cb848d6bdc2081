"""What the default command of `train classifier` learns: ratings and labels of pairs, and labels of questions.

    python bench/labels.py --sick TRAIN TEST --trec FILE [--seeds 3]

SICK's files as published (sentence_A, sentence_B, relatedness_score and entailment_judgment in the first line); FILE
has questions, a line each: `LOC:city What county is ...`, of which 500, drawn at random, are for testing. Nothing is
set but the seed.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from machine import circumstances

import chainrule
from chainrule import ClassifierTrainingConfig, Labelled


def trained(examples: list[Any], seed: int, unit: str | None) -> chainrule.ClassifierModel:
    training = ClassifierTrainingConfig(seed=seed)
    return chainrule.train_classifier(examples, unit=unit, training=training, progress=False)


def questions(path: Path) -> tuple[list[Labelled], list[Labelled]]:
    """To learn from, and to test on."""
    lines = [line.split(" ", 1) for line in path.read_text(encoding="latin-1").splitlines() if line.strip()]
    examples = [Labelled(text.strip(), (label.partition(":")[0],)) for label, text in lines]
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    return [examples[i] for i in order[500:]], [examples[i] for i in order[:500]]


def show(task: str, figure: str, values: list[float], models: list[chainrule.ClassifierModel]) -> None:
    each = " ".join(f"{value:.3f}" for value in values)
    seconds = statistics.mean(model.record["training_seconds"] for model in models)
    kept = [f"{model.record['best_epoch']} of {model.record['epochs']}" for model in models]
    network = models[0].record["network"]["name"]
    print(
        f"{task}, {network}: {figure} {statistics.mean(values):.3f} ({each}); epochs kept: {', '.join(kept)}; "
        f"{seconds:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sick", type=Path, nargs=2, help="to train on, and to test on")
    parser.add_argument("--trec", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(circumstances(), flush=True)
    if options.sick is not None:
        own, test = (chainrule.read_labelled_pairs(file, ratings=True) for file in options.sick)
        models = [trained(own, seed, "rating") for seed in range(options.seeds)]
        figures = [model.assess_ratings(test, progress=False) for model in models]
        show("SICK, ratings", "Pearson", [figure.pearson for figure in figures], models)
        print(figures[0])
        own, test = (chainrule.read_labelled_pairs(file) for file in options.sick)
        models = [trained(own, seed, "pair") for seed in range(options.seeds)]
        shares = [model.assess(test, progress=False).accuracy.share for model in models]
        show("SICK, labels", "accuracy", shares, models)
    if options.trec is not None:
        learned, asked = questions(options.trec)
        models = [trained(learned, seed, None) for seed in range(options.seeds)]
        shares = [model.assess(asked, progress=False).accuracy.share for model in models]
        show("TREC", "accuracy", shares, models)


if __name__ == "__main__":
    main()
