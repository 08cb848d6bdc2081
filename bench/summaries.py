"""Summaries: the first line of a docstring from the rest of it, or titles of articles, by a model of pairs.

    python bench/summaries.py --work FOLDER [--articles agnews.csv] [--minutes 5] [--steps N] [--seed 0]

Without --articles, the docstrings of Python's standard library; with it, a CSV file of class, title and text, as of AG
News. A tenth of the pairs is held out. Prints perplexity, BLEU, chrF and ROUGE of what is written from the held-out
sources, beside the baseline that repeats the first words of a source, and some summaries as they came.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from pathlib import Path

from machine import circumstances

import chainrule
from chainrule import ConditionalConfig, TokenizerConfig, TrainingConfig
from chainrule.evaluation.text_scores import measure_summaries
from chainrule.text.pairs import Pairs
from chainrule.text.sample import sample_docstrings

CONFIG = ConditionalConfig(
    encoder="lstm",
    decoder="lstm",
    encoder_layers=1,
    decoder_layers=1,
    width=128,
    score="content",
    shared="all",
    dropout=0.3,
    max_source=96,
    long_sources="end",
)
SHOWN = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--articles", type=Path)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(circumstances(), flush=True)
    rows = docstring_pairs() if options.articles is None else article_pairs(options.articles)
    train, test = parts(rows)
    words = sum(len(source.split()) for source, _ in rows) / len(rows)
    print(f"{len(train.targets):,} pairs to train on, {len(test.targets):,} held out; {words:.0f} words in a source")
    budget = {"steps": options.steps} if options.steps else {"minutes": options.minutes}
    model = chainrule.train_pairs(
        train,
        CONFIG,
        tokenizer=TokenizerConfig(kind="bpe", vocabulary_size=3000),
        training=TrainingConfig(batch=32, label_smoothing=0.1, seed=options.seed, **budget),
        folder=options.work / "summaries",
        resume=True,
    )
    record = model.record
    print(f"{record['parameters']:,} parameters, {record['steps']} steps, {record['training_seconds']:.0f} s")
    print(model.evaluate(test, max_tokens=40))
    lengths = [len(target.split()) for target in train.targets]
    usual = round(sum(lengths) / len(lengths))
    lead = [" ".join(source.split()[:usual]) for source in test.sources]
    print(f"baseline, the first {usual} words:\n{measure_summaries(lead, [[target] for target in test.targets])}\n")
    shown = model.write(test.sources[:SHOWN], max_tokens=40)
    for source, target, written in zip(test.sources[:SHOWN], test.targets, shown, strict=False):
        print(f"source     {source[:150]}\nwritten    {written[0].text}\nreference  {target}\n")


def docstring_pairs() -> list[tuple[str, str]]:
    """The rest of each docstring with its first paragraph, where that is a line of 3 to 20 words."""
    pairs = {}
    for _, docstring in sample_docstrings():
        first, _, rest = docstring.partition("\n\n")
        target, source = " ".join(first.split()), " ".join(rest.split())
        if 3 <= len(target.split()) <= 20 and len(source.split()) >= 12:
            pairs[target] = source
    return [(source, target) for target, source in sorted(pairs.items())]


def article_pairs(path: Path) -> list[tuple[str, str]]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return [(" ".join(text.split()), " ".join(title.split())) for _, title, text in rows]


def parts(rows: list[tuple[str, str]]) -> tuple[Pairs, Pairs]:
    """Every tenth pair is held out; sorted by their targets, pairs with the same beginning are on both sides."""
    train, test = Pairs(names=("sources", "targets")), Pairs(names=("sources", "targets"))
    for number, (source, target) in enumerate(rows):
        (test if number % 10 == 9 else train).add(source, target, number + 1)
    return train, test


if __name__ == "__main__":
    main()
