"""Summaries of held-out texts by models that were trained to write them, beside the first words of each text.

    python bench/summaries.py --work FOLDER [--articles FILE.csv] [--expand] [--model FOLDER] [--tests 200]
        [--steps 500] [--adapt-steps 40] [--only first pairs prompted adapted] [--seed 0]

The pairs are the docstrings of Python's standard library: their first line, from the rest. With --articles, titles and
articles of a CSV file of class, title and article, as of AG News. --expand: the article from its title.

first      the first words of the source, as many as a target has on average
pairs      two LSTMs with attention, from random weights: a seq2seq model
prompted   --model, an open language model, such as SmolLM2, after "SOURCE TL;DR:" (Radford et al. 2019) or, with
           --expand, "SOURCE Article:"
adapted    the same, after further training on lines "SOURCE TL;DR: TARGET"

Prints perplexity, bits per byte, BLEU, chrF and ROUGE with their intervals, and what was written for some sources.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

from machine import circumstances

import chainrule
from chainrule import Limits, SamplingConfig, Seq2SeqConfig, TokenizerConfig, TrainingConfig
from chainrule.features.metrics.text_scores import measure_summaries, measure_translations
from chainrule.features.seq2seq.measurement import measure_pairs
from chainrule.text.corpus.sample import sample_docstrings
from chainrule.text.parallel import Pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.models.language_models import CausalModel

LSTM = Seq2SeqConfig(
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
ROWS = ("first", "pairs", "prompted", "adapted")
MARKS = {False: " TL;DR:", True: " Article:"}  # what an open model reads before a target, by --expand
LONGEST = 80  # words of a source
SHOWN = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--articles", type=Path)
    parser.add_argument("--expand", action="store_true")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--adapt-steps", type=int, default=40)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=ROWS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(circumstances(), flush=True)
    train, test = parts(docstrings() if options.articles is None else articles(options.articles), options.tests)
    if options.expand:
        train, test = (Pairs(pairs.targets, pairs.sources) for pairs in (train, test))
    print(f"{len(train):,} pairs to train on, {len(test):,} held out")
    for name in ROWS:
        if name in options.only and (options.model or name in ("first", "pairs")):
            print(f"\n## {name}\n", flush=True)
            show(test, MEASURED[name](train, test, options))


def show(test: Pairs, written: list[str]) -> None:
    for source, target, text in zip(test.sources[:SHOWN], test.targets, written, strict=False):
        print(f"\nsource     {source[:150]}\nwritten    {text}\nreference  {target}", flush=True)


def first_words(train: Pairs, test: Pairs, options: argparse.Namespace) -> list[str]:
    lengths = [len(target.split()) for target in train.targets]
    count = round(sum(lengths) / len(lengths))
    texts = [" ".join(source.split()[:count]) for source in test.sources]
    print(f"the first {count} words")
    print(measure_translations(texts, test.targets))
    print(measure_summaries(texts, [[target] for target in test.targets]))
    return texts


def model_of_pairs(train: Pairs, test: Pairs, options: argparse.Namespace) -> list[str]:
    model = chainrule.train_pairs(
        train,
        LSTM,
        tokenizer=TokenizerConfig(kind="bpe", vocabulary_size=3000),
        training=TrainingConfig(batch=32, label_smoothing=0.1, seed=options.seed, steps=options.steps),
        folder=options.work / "pairs",
        resume=True,
    )
    print_record(model.record)
    longest = most_tokens(options)
    print(model.evaluate(test, max_tokens=longest))
    written = model.write(test.sources[:SHOWN], max_tokens=longest)
    return [texts[0].text if texts else "" for texts in written]


def prompted(train: Pairs, test: Pairs, options: argparse.Namespace) -> list[str]:
    return continued(chainrule.load(options.model), test, options)


def adapted(train: Pairs, test: Pairs, options: argparse.Namespace) -> list[str]:
    """Rows of 128 tokens, two lines, since the context of an open model has thousands."""
    folder = options.work / "adapted"
    if not (folder / "config.json").exists():
        lines = [
            f"{prompt(source, options)} {target}" for source, target in zip(train.sources, train.targets, strict=True)
        ]
        training = TrainingConfig(
            optimiser="adamw",
            learning_rate=1e-4,
            row_tokens=128,
            batch=8,
            steps=options.adapt_steps,
            valid_share=0.0,
            seed=options.seed,
        )
        model = chainrule.adapt(
            options.model, chainrule.Lines(lines), training=training, folder=folder, resume=True, on_report=print
        )
        model.save(folder, overwrite=True)
    model = chainrule.load(folder)
    print_record(model.record)
    return continued(model, test, options)


def continued(model: CausalModel, test: Pairs, options: argparse.Namespace) -> list[str]:
    """The likeliest token by token, up to the end of the line."""
    prompts = [prompt(source, options) for source in test.sources]
    log_probs = model.score([f" {target}" for target in test.targets], given=prompts)
    greedy, limits = SamplingConfig(temperature=0), Limits(max_tokens=most_tokens(options), stop=["\n"])
    texts = [
        model.generate(start, 1, greedy, limits, seed=0, progress=False)[0][len(start) :].strip() for start in prompts
    ]
    print(measure_pairs(test.targets, log_probs, texts, model.tokenizer))
    return texts


def prompt(source: str, options: argparse.Namespace) -> str:
    return " ".join(source.split()[:LONGEST]) + MARKS[options.expand]


def most_tokens(options: argparse.Namespace) -> int:
    return 60 if options.expand else 24


def print_record(record: dict) -> None:
    print(
        f"{record['parameters']:,} parameters, {record['steps']} steps, {record['training_seconds']:.0f} s", flush=True
    )


def docstrings() -> list[tuple[str, str]]:
    """The rest of each docstring with its first paragraph, where that is a line of 3 to 20 words."""
    pairs = {}
    for _, docstring in sample_docstrings():
        first, _, rest = docstring.partition("\n\n")
        target, source = " ".join(first.split()), " ".join(rest.split())
        if 3 <= len(target.split()) <= 20 and len(source.split()) >= 12:
            pairs[target] = source
    return [(source, target) for target, source in sorted(pairs.items())]


def articles(path: Path) -> list[tuple[str, str]]:
    """Texts and titles without agencies, "Reuters - " and "(AP)", and without what is left of markup."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row[0].isdigit()]
    pairs = [(plain(text), re.sub(r" \([^()]*\)$", "", plain(title))) for _, title, text in rows]
    pairs = [(re.sub(r"^[\w. /,]{2,40}(\([\w. ]+\))? --? ", "", text), title) for text, title in pairs]
    return [(text, title) for text, title in pairs if len(title.split()) >= 3 and len(text.split()) >= 12]


def plain(text: str) -> str:
    text = html.unescape(re.sub(r" ?(#\d+|quot|amp|lt|gt);", r"&\1;", text.replace("\\", " ")))
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def parts(rows: list[tuple[str, str]], tests: int) -> tuple[Pairs, Pairs]:
    """Evenly spaced pairs are held out; of the others, those with the same title or the same last words are dropped."""
    every = max(1, len(rows) // tests)
    held_out = rows[every - 1 :: every][:tests]
    known = {key for pair in held_out for key in keys(pair)}
    train = [pair for pair in rows if not known & keys(pair)]
    return tuple(Pairs([source for source, _ in side], [target for _, target in side]) for side in (train, held_out))  # type: ignore[return-value]


def keys(pair: tuple[str, str]) -> set[tuple[str, ...]]:
    return {tuple(re.findall(r"\w+", text.lower())[-8:]) for text in pair}


MEASURED: dict[str, Callable[[Pairs, Pairs, argparse.Namespace], list[str]]] = {
    "first": first_words,
    "pairs": model_of_pairs,
    "prompted": prompted,
    "adapted": adapted,
}


if __name__ == "__main__":
    main()
