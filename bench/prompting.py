"""Prompting: what models answer about SST-2 without training, and what sharing a prompt's state gains.

    python bench/prompting.py --sst2 dev.txt.gz --models lm/ smollm/ [--calibrate batch]
                               [--only sst2|choose] [--prompts 1000]

dev.txt.gz has a label, 0 or 1, a space and a sentence on each line. `choose` times prompts with four choices each
against scoring all texts; the figures must agree.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
from machine import circumstances

import chainrule

TEMPLATE = "Review: {text}\nSentiment:"  # chosen among four by 200 sentences of the training part
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


def choose(model: chainrule.Model, name: str, records: list[dict[str, str]], prompts_number: int) -> None:
    prompts = [f"Review: {record['text']}\nSentiment:" for record in (records * 2)[:prompts_number]]
    began = time.perf_counter()
    chosen = model.choice_log_probs(prompts, FOUR)
    shared = time.perf_counter() - began
    began = time.perf_counter()
    texts = [f" {choice}" for _ in prompts for choice in FOUR]
    given = [prompt for prompt in prompts for _ in FOUR]
    scored = np.zeros(len(texts))
    for first in range(0, len(texts), 256):  # </s> is scored, too, and taken off below
        scored[first : first + 256] = model.score(texts[first : first + 256], given=given[first : first + 256])
    apart = time.perf_counter() - began
    ends = model.language_model.score(
        [np.empty(0, np.int32)] * 4,
        prefixes=[model.tokenizer.encode_texts([prompts[0] + text]).ids[:-1] for text in texts[:4]],
    )
    difference = np.abs(chosen[0] - (scored[:4] - np.array([end[0] for end in ends]))).max()
    print(
        f"{name}: {len(prompts)} prompts with 4 choices: {shared:.1f} s, {len(texts)} texts scored: {apart:.1f} s, "
        f"{apart / shared:.2f} times; the first prompt's figures differ by {difference:.1e} nats at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst2", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--calibrate", default="batch")
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--only", choices=["sst2", "choose"])
    given = parser.parse_args()
    print(circumstances())
    records = read(given.sst2)
    for name in given.models:
        model = chainrule.load(name)
        if given.only != "choose":
            sst2(model, name, records, given.calibrate)
        if given.only != "sst2":
            choose(model, name, records, given.prompts)


if __name__ == "__main__":
    main()
