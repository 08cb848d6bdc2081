"""Generating with an n-gram model: tokens per second, the time of a completion, and a comparison with nltk.lm.

    python bench/decoding.py lm/ test.txt [--runs 3] [--train train.txt]

With --train, and if nltk is installed, its models and ours are trained on the first lines of that text, as many as
nltk can handle. Texts should be tokenised already: both sides split at spaces. Wall time is reported with processor
time, since other load on the machine disturbs the former.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from machine import circumstances

import chainrule
from chainrule.decoding.beam import search
from chainrule.decoding.config import GREEDY, BeamConfig, SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.protocol import LanguageModel

SAMPLINGS = {
    "as the model": SamplingConfig(),
    "greedy": GREEDY,
    "top-k 40": SamplingConfig(top_k=40),
    "min-p 0.05": SamplingConfig(min_p=0.05),
    "top-p 0.9": SamplingConfig(top_p=0.9),
    "temperature 0.8": SamplingConfig(temperature=0.8),
}
START = np.empty(0, np.int32)


class Speed(NamedTuple):
    """Tokens a second, by the clock and by the processor's time."""

    clock: float
    processor: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("test")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--train")
    options = parser.parse_args()
    print(circumstances() + "\n")
    model = chainrule.load(options.model)
    print("| what | by the clock | by the processor's time |\n|---|---:|---:|")
    for row in [*sampling(model, options), *beams(model, options), *completion(model, options)]:
        print(row)
    if options.train and importlib.util.find_spec("nltk") is not None:
        beside_nltk(options)


def sampling(model: chainrule.Model, options: argparse.Namespace) -> list[str]:
    """64 texts at once, none of which ends."""
    rows = []
    for name, config in SAMPLINGS.items():
        length = 200 if name in ("as the model", "greedy", "top-k 40", "min-p 0.05") else 10
        speeds = [sampling_speed(model.language_model, config, length) for _ in range(options.runs + 1)][1:]
        rows.append(row(f"64 samples at once, {name}, tokens/s", speeds))
    return rows


def sampling_speed(model: LanguageModel, config: SamplingConfig, length: int, texts: int = 64) -> Speed:
    constraints = Constraints(min_tokens=length, max_tokens=length, banned=[0])
    return speed(
        lambda: sum(
            len(text.tokens) for text in sample(model, [START], config, constraints, seed=1, texts_per_prefix=texts)
        )
    )


def beams(model: chainrule.Model, options: argparse.Namespace) -> list[str]:
    """Tokens of the best text, of one prompt and of 64 prompts of unequal lengths in one batch."""
    lines = Path(options.test).read_text(encoding="utf-8").splitlines()
    prompts = [line.split()[: 1 + i % 5] for i, line in enumerate(lines) if len(line.split()) >= 5][:64]
    ids = [model.tokenizer.encode_texts([" ".join(prompt)]).ids[:-1] for prompt in prompts]
    constraints = Constraints(min_tokens=50, max_tokens=50, banned=[0])

    def search_texts(prefixes: list[np.ndarray]) -> int:
        results = search(model.language_model, prefixes, BeamConfig(size=5), constraints)
        return sum(len(result.hypotheses[0].tokens) for result in results)

    return [
        row(
            f"beam of 5, {len(batch)} at once, tokens/s",
            [speed(lambda b=batch: search_texts(b)) for _ in range(options.runs)],
        )
        for batch in (ids[:1], ids)
    ]


def completion(model: chainrule.Model, options: argparse.Namespace) -> list[str]:
    """Every keystroke of the first lines of the test text."""
    lines = Path(options.test).read_text(encoding="utf-8").splitlines()[:30]
    model.complete("")
    clock, processor = [], []
    for line in lines:
        for end in range(1, len(line) + 1):
            before = time.perf_counter(), time.process_time()
            model.complete(line[:end])
            clock.append(1000 * (time.perf_counter() - before[0]))
            processor.append(1000 * (time.process_time() - before[1]))
    return [
        f"| completion, {name} of {len(clock):,} keystrokes, ms | {at(clock):.3g} | {at(processor):.3g} |"
        for name, at in (
            ("median", statistics.median),
            ("99th of 100", lambda times: sorted(times)[int(0.99 * len(times))]),
            ("slowest", max),
        )
    ]


def beside_nltk(options: argparse.Namespace) -> None:
    """One text at a time, as nltk.lm generates; and ours 64 at once."""
    from nltk import __version__
    from nltk.lm import MLE, KneserNeyInterpolated
    from nltk.lm.preprocessing import padded_everygram_pipeline

    print(f"\nOrder 5; nltk {__version__}, tokens/s by the clock:\n")
    print("| what | chainrule | nltk.lm | times faster |\n|---|---:|---:|---:|")
    # Its Kneser-Ney model counts anew at each question: two tokens are what one can wait for.
    for theirs, lines, tokens in ((MLE(5), 20_000, 300), (KneserNeyInterpolated(5), 200, 2)):
        with open(options.train, encoding="utf-8") as file:
            text = [line.rstrip("\n") for line in itertools.islice(file, lines)]
        theirs.fit(*padded_everygram_pipeline(5, [line.split() for line in text]))
        ours = chainrule.train(chainrule.Lines(text), chainrule.NGramConfig(order=5), tokenizer="whitespace")
        peer = speed(lambda theirs=theirs, tokens=tokens: len(theirs.generate(tokens, random_seed=1))).clock
        for texts in (1, 64):
            own = [
                sampling_speed(ours.language_model, SamplingConfig(), 300, texts).clock for _ in range(options.runs + 1)
            ]
            own_speed = statistics.median(own[1:])
            name = f"{texts} at once, {lines:,} lines, against {type(theirs).__name__}"
            print(f"| {name} | {own_speed:,.0f} | {peer:.3g} | {own_speed / peer:,.1f} |")


def speed(work: Callable[[], int]) -> Speed:
    clock, processor = time.perf_counter(), time.process_time()
    tokens = work()
    return Speed(tokens / (time.perf_counter() - clock), tokens / (time.process_time() - processor))


def row(name: str, speeds: list[Speed]) -> str:
    clock, processor = (statistics.median(part) for part in zip(*speeds, strict=True))
    return f"| {name} | {clock:,.0f} | {processor:,.0f} |"


if __name__ == "__main__":
    main()
