"""Tokens a second that an adaptive mixture of an n-gram model of each order and a cache of that order scores.

    python bench/adaptive_mixtures.py shakespeare.txt [--order 5 20]

A tenth of the text is scored as one document, after the text before it was learned and tuned on; by what the gate sees.
Times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from machine import circumstances

import chainrule


def mixture_speeds(text: Path, order: int) -> None:
    """Prints how fast the parts of a mixture, and mixtures of them score the last tenth of a text."""
    characters = text.read_text(encoding="utf-8")
    parts = [
        characters[int(a * len(characters)) : int(b * len(characters))] for a, b in ((0, 0.85), (0.85, 0.9), (0.9, 1))
    ]
    learned, tuned = (chainrule.Lines([part]) for part in parts[:2])
    model = chainrule.train(learned, chainrule.NGramConfig(order=order), tokenizer="character")
    stream = model.tokenizer.encode_texts([parts[2]]).ids
    cache = chainrule.CacheConfig(words=1 << 20, order=order)
    for gate in ("linear", "evidence", "distributions"):
        settings = {} if gate == "linear" else {"adaptive": True, "gate": gate}
        mixture = chainrule.mix([model], chainrule.MixtureConfig(**settings), heldout=tuned, cache=cache).language_model
        named = (
            {"n-gram": mixture.components.models[0], "cache": mixture.components.models[1]} if gate == "linear" else {}
        )
        for name, engine in (named | {f"mixture, {gate}": mixture}).items():
            times = []
            for _ in range(4):  # the first compiles
                began = time.process_time()
                scores = engine.score_stream(stream)
                times.append(time.process_time() - began)
            speed, bits = len(stream) / min(times[1:]), -float(scores.mean()) / np.log(2)
            print(f"order {order}, {name}: {speed:,.0f} tokens/s, {bits:.4f} bits a token")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--order", type=int, nargs="+", default=[5, 20])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(circumstances(), file=sys.stderr)
    for order in arguments.order:
        mixture_speeds(arguments.text, order)


if __name__ == "__main__":
    main()
