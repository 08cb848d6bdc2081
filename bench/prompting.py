"""Prompting: what models answer about SST-2 without training, what sharing states gains, and who wrote a text.

    python bench/prompting.py --sst2 dev.txt.gz --models lm/ smollm/ --only sst2 choose bound
                               [--train train.txt.gz --seeds 5] [--calibrate batch] [--texts 872]

dev.txt.gz has a label, 0 or 1, a space and a sentence on each line.

    sst2       accuracy of the template chosen on training sentences
    templates  of five templates
    shots      of 8 examples of --train, by seed
    choose     prompts with four choices each against scoring all texts: times, and the largest difference
    bound      prompts a second, and as many as the matrix products alone would allow
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from machine import circumstances

import chainrule
from chainrule.evaluation.continuations import Pair, continuation_log_probs
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from torch import Tensor

PARTS = ("sst2", "templates", "shots", "choose", "bound")
TEMPLATE = "Review: {text}\nSentiment:"  # chosen among four by 200 sentences of the training part
TEMPLATES = (
    TEMPLATE,
    "{text} Overall, the movie was",
    "{text} It was",
    "Movie review: {text} Is this review positive or negative? The review is",
    "{text} All in all, a film that is",
)
CHOICES = ("great=1", "terrible=0", "positive=1", "negative=0")
FOUR = ("great", "terrible", "quite good", "not so good")


def read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split(" ", 1) for line in lines]
    return [{"text": text, "label": label} for label, text in pairs]


def sst2(model: chainrule.Model, name: str, records: list[dict[str, str]], calibrate: str) -> None:
    began = time.perf_counter()
    result = chainrule.prompt(model, records, TEMPLATE, CHOICES, calibrate=calibrate)
    seconds = time.perf_counter() - began
    [run] = result.runs
    low, high = run.accuracy.interval
    before = "" if run.moved is None else f", {run.moved[0].share:.2%} without calibration"
    print(
        f"{name}: {run.accuracy.share:.2%} ({100 * low:.2f} to {100 * high:.2f} at 95 %){before}; "
        f"{len(records) / seconds:.1f} texts/s"
    )


def templates(model: chainrule.Model, name: str, records: list[dict[str, str]], calibrate: str) -> None:
    for template in TEMPLATES:
        [run] = chainrule.prompt(model, records, template, CHOICES, calibrate=calibrate).runs
        low, high = run.accuracy.interval
        print(f"{name}: {template!r}: {run.accuracy.share:.2%} ({100 * low:.2f} to {100 * high:.2f} at 95 %)")


def shots(
    model: chainrule.Model,
    name: str,
    records: list[dict[str, str]],
    examples: list[dict[str, str]],
    seeds: int,
    calibrate: str,
) -> None:
    began = time.perf_counter()
    result = chainrule.prompt(
        model, records, TEMPLATE, CHOICES, examples=examples, shots=8, seeds=seeds, calibrate=calibrate
    )
    seconds = time.perf_counter() - began
    each = ", ".join(f"{run.accuracy.share:.2%}" for run in result.runs)
    before = ", ".join(f"{run.moved[0].share:.2%}" for run in result.runs if run.moved is not None)
    print(
        f"{name}: 8 shots, {len(records)} texts: {result.mean_accuracy:.2%} +- {result.spread or 0:.2%} ({each}); "
        f"without calibration {before}; {seeds * len(records) / seconds:.1f} texts/s"
    )


def choose(model: chainrule.Model, name: str, prompts: list[str]) -> None:
    began = time.perf_counter()
    chosen = model.choice_log_probs(prompts, FOUR)
    shared = time.perf_counter() - began
    began = time.perf_counter()
    pairs = [Pair(prompt, f" {choice}") for prompt in prompts for choice in FOUR]
    scored, _ = continuation_log_probs(model.language_model, model.speller, model.tokenizer, pairs, greedy=False)
    apart = time.perf_counter() - began
    difference = np.abs(chosen.ravel() - scored).max()
    print(
        f"{name}: {len(prompts)} prompts with 4 choices: {shared:.1f} s, {len(pairs)} texts scored: {apart:.1f} s, "
        f"{apart / shared:.2f} times; figures differ by {difference:.1e} nats at most"
    )


def bound(model: chainrule.Model, name: str, prompts: list[str]) -> None:
    """The matrices of the network with all tokens of the prompts, and its output layer with one vector a prompt."""
    import torch

    choices = ["great", "terrible", "positive", "negative"]
    model.choice_log_probs(prompts[:8], choices)  # compiles
    began = time.perf_counter()
    model.choice_log_probs(prompts, choices)
    needed = time.perf_counter() - began
    network = model.language_model.network  # type: ignore[attr-defined]
    tokens = sum(len(ids) for ids in documents_of(model.tokenizer.encode_texts(prompts).ids)) + len(prompts)
    with torch.inference_mode():
        seconds = _product_seconds(network.output.weight, 256) * len(prompts) / 256
        for matrix in network.matrices():
            seconds += _product_seconds(matrix, 1024) * tokens / 1024
    print(
        f"{name}: {len(prompts)} prompts of {tokens} tokens: {len(prompts) / needed:.1f} texts/s; the products alone "
        f"{len(prompts) / seconds:.1f}; {seconds / needed:.2f} of that"
    )


def _product_seconds(matrix: Tensor, vectors: int) -> float:
    """The fastest of a few."""
    import torch

    x = torch.randn(vectors, matrix.shape[1])
    times = []
    for _ in range(3):
        began = time.perf_counter()
        torch.nn.functional.linear(x, matrix.float())
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst2", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=["sst2", "choose"])
    parser.add_argument("--train", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--calibrate", default="batch")
    parser.add_argument(
        "--texts", type=int, default=872, help="the first of the file; choose repeats them if it is 1000"
    )
    given = parser.parse_args()
    print(circumstances())
    records = read(given.sst2)
    prompts = [TEMPLATE.format(text=record["text"]) for record in (records * 2)[: given.texts]]
    records = records[: given.texts]
    for name in given.models:
        model = chainrule.load(name)
        if "sst2" in given.only:
            sst2(model, name, records, given.calibrate)
        if "templates" in given.only:
            templates(model, name, records, given.calibrate)
        if "shots" in given.only:
            shots(model, name, records, read(given.train), given.seeds, given.calibrate)
        if "choose" in given.only:
            choose(model, name, prompts)
        if "bound" in given.only:
            bound(model, name, prompts)


if __name__ == "__main__":
    main()
