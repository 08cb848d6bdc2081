"""Surprisals of words beside minicons, with its conventions: differences, time, and whose rounding they are.

    python bench/surprisal.py MODEL HUGGING_FACE_FOLDER TEXT [--batch N] [--threads N] [--wide N] [--float64-layers N]

MODEL is what chainrule opens, HUGGING_FACE_FOLDER the same network for transformers (`chainrule convert MODEL FOLDER
--to hugging-face`), TEXT has a sentence a line. minicons is not needed by chainrule: pip install minicons. It reads
batches of N sentences (10) in the order of the file, with bow_correction and bos_token. Seconds are of processor time,
on one thread unless --threads is given, in turns of a tenth of the sentences, so that a machine's other work falls on
both. --wide N: how far both are from the same network in float64, by transformers, on the N sentences in which they
are furthest from each other.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import circumstances

import chainrule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Words = list[list[float]]  # of each sentence, the surprisal of each word in nats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wide", type=int, default=0)
    parser.add_argument("--float64-layers", type=int, help="of chainrule, as the option of every command")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(circumstances(), flush=True)
    sentences = [line.strip() for line in options.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    model = chainrule.load(options.model, exact=True, float64_layers=options.float64_layers)
    theirs = minicons(options.folder, options.batch)

    def ours(texts: Sequence[str]) -> Words:
        rows = chainrule.surprisal(chainrule.Lines(texts), model, nats=True, convention="minicons")
        words: Words = [[] for _ in texts]
        for row in rows:
            words[row["sentence"] - 1].append(row["surprisal_minicons_nats"])
        return words

    sides: dict[str, Callable[[Sequence[str]], Words]] = {"chainrule": ours, "minicons": theirs}
    for side in sides.values():
        side(sentences[: options.batch])
    seconds = dict.fromkeys(sides, 0.0)
    words: dict[str, Words] = {name: [] for name in sides}
    step = max(1, len(sentences) // 10)
    for first in range(0, len(sentences), step):
        for name, side in sides.items():
            began = time.process_time()
            words[name] += side(sentences[first : first + step])
            seconds[name] += time.process_time() - began
    number = sum(map(len, words["chainrule"]))
    for name, own in seconds.items():
        print(f"{name}: {own:.1f} s for {len(sentences):,} sentences, {number:,} words")
    print(f"minicons / chainrule: {seconds['minicons'] / seconds['chainrule']:.2f}")
    show("chainrule and minicons", words["chainrule"], words["minicons"])
    if options.wide:
        furthest = [max(map(abs, np.subtract(*pair))) for pair in zip(*words.values(), strict=True)]
        chosen = np.argsort(furthest)[: -1 - options.wide : -1]
        exact = minicons(options.folder, options.batch, torch.float64)([sentences[i] for i in chosen])
        for name, own in words.items():
            show(f"{name} and float64", [own[i] for i in chosen], exact)


def minicons(folder: Path, batch: int, dtype: torch.dtype = torch.float32) -> Callable[[Sequence[str]], Words]:
    """A function from sentences to the surprisals of their words by minicons."""
    from minicons.scorer import IncrementalLMScorer

    scorer: Any = IncrementalLMScorer(str(folder), "cpu", dtype=dtype)

    def score(texts: Sequence[str]) -> Words:
        words: Words = []
        for first in range(0, len(texts), batch):
            rows = scorer.word_score_tokenized(
                texts[first : first + batch],
                bos_token=True,
                bow_correction=True,
                surprisal=True,
                tokenize_function=str.split,
            )
            words += [[score for _, score in row] for row in rows]
        return words

    return score


def show(title: str, some: Words, others: Words) -> None:
    """Prints by how much the surprisals of words differ."""
    assert [*map(len, some)] == [*map(len, others)], "the sentences have other words"
    distances = np.abs(np.concatenate(some) - np.concatenate(others))
    shares = ", ".join(f"{np.quantile(distances, share):.1e}" for share in (0.5, 0.99))
    print(
        f"{title}: {distances.max():.2e} nats at most, {shares} in the middle and at 99 % of {distances.size:,} words"
    )


if __name__ == "__main__":
    main()
