"""Scoring a text by small networks, as `evaluate` does, beside training's forward pass: the loss of the same tokens.

    python bench/evaluating.py [--tokens N] [--rounds N] [--threads N] [--only NAME]

The networks are those of `chainrule compare` (`make demo`), untrained, in the second of their sizes, once with the 68
characters of a text, once with 14,161 words and an adaptive output. Tokens are drawn by Zipf's law, in documents of 40
on average. Scores are those that `evaluate` asks for: of the tokens, and with P(<unk>) at each position, which bits per
byte need unless one unseen type is expected. By turns; seconds of processor time, medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import circumstances

from chainrule.features.compare.ladder import networks_for
from chainrule.neural.build import build
from chainrule.neural.language_model import NeuralModel
from chainrule.protocol import END
from chainrule.training.config import TrainingConfig
from chainrule.training.device import machine_for
from chainrule.training.distributed import Processes
from chainrule.training.objectives.stream import validation_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

CHARACTERS, WORDS = 68, 14_161
LENGTH = 128  # tokens of a row of the loss, at most
OFTEN = 40  # one token of so many ends a document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=24_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(circumstances(), flush=True)
    machine = machine_for(TrainingConfig(precision="float32", compile="no", device="cpu"))
    for size in (CHARACTERS, WORDS):
        print(f"\n{size:,} tokens in the vocabulary; seconds of processor time, least in brackets")
        print(f"{'':22}{'loss':>16}{'scores':>16}{'with <unk>':>16}   loss / scores, with <unk>")
        counts, stream = text_of(size, options.tokens)
        for name, config in networks_for(size):
            if options.only not in (None, name) or not config.sizes:
                continue
            torch.manual_seed(1)
            sizes: dict[str, Any] = config.sizes[1]
            model = NeuralModel(build(replace(config, **sizes), size, torch.from_numpy(counts)))
            network, carried = model.network, model.network.memory == "stream" and config.is_recurrent
            length = min(LENGTH, network.encoder.context or LENGTH)

            loss = partial(validation_loss, network, stream, length, machine, Processes(), carried=carried)
            scores = [partial(model.score_stream_with_unknown, stream, unknown=unknown) for unknown in (False, True)]
            times = seconds([loss, *scores], options.rounds)
            middle = [statistics.median(own) for own in times]
            columns = "".join(f"{median:8.3f} ({min(own):.3f})" for median, own in zip(middle, times, strict=True))
            print(f"{name:22}{columns}   {middle[0] / middle[1]:.2f}, {middle[0] / middle[2]:.2f}", flush=True)


def text_of(size: int, tokens: int) -> tuple[ndarray, ndarray]:
    """How often each token comes in a larger text, and a text."""
    random = np.random.default_rng(1)
    shares = 1 / np.arange(1.0, size - 2)
    counts = np.concatenate([[0, 0, tokens / OFTEN], tokens * shares / shares.sum()])
    stream = random.choice(np.arange(3, size), tokens, p=shares / shares.sum()).astype(np.int32)
    stream[random.random(tokens) < 1 / OFTEN] = END
    return counts, stream


def seconds(functions: list[Callable[[], object]], rounds: int) -> list[list[float]]:
    """The processor time of each, by turns, after a first time that does not count."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(rounds + 1):
        for function, own in zip(functions, times, strict=True):
            began = time.process_time()
            function()
            if turn:
                own.append(time.process_time() - began)
    return times


if __name__ == "__main__":
    main()
