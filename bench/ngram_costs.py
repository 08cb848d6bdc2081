"""What an n-gram memory adds to a training step and to a greedy token, in processor time of one thread.

    python bench/ngram_costs.py shakespeare.txt --family recurrent [--steps 25] [--turns 16]
    python bench/ngram_costs.py shakespeare.txt --mixture [--order 5 20]

--mixture: tokens a second that an adaptive mixture of an n-gram model of each order and a cache of that order scores,
a tenth of the text as one document, after the text before it was learned and tuned on; by what its gate sees.

Networks without a memory, with order 4 and with order 6 take turns, so that others on the machine disturb all alike. A
share is the speed with a memory, of that without: of steps the median over steps, of tokens that of the least times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from machine import circumstances

import chainrule
from chainrule.neural.build import build
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.ngram_memory import dense_parameters
from chainrule.training.config import TrainingConfig
from chainrule.training.optimisers import Optimisers

ORDERS = (0, 4, 6)
VOCABULARY, ROWS, LENGTH, TOKENS = 68, 32, 64, 100


def network(family: str, order: int, context: int = LENGTH) -> Any:
    """With random weights. order: of the memory; 0: none."""
    torch.manual_seed(0)
    if family == "recurrent":
        return build(RecurrentConfig(layers=1, width=256, ngram_memory=order), VOCABULARY)
    return build(TransformerConfig(layers=2, width=128, heads=4, context=context, ngram_memory=order), VOCABULARY)


def step_times(family: str, text: torch.Tensor, steps: int) -> dict[int, list[float]]:
    """Seconds of each step of each order."""
    torch.manual_seed(0)
    networks = {order: network(family, order).train() for order in ORDERS}
    optimisers = {}
    for order, own in networks.items():
        matrices = [each for name, each in own.named_parameters() if each.dim() == 2 and "encoder" in name]
        optimisers[order] = Optimisers(TrainingConfig(), own, matrices, (0.002, 0.02), in_bfloat16=False)
    times: dict[int, list[float]] = {order: [] for order in ORDERS}
    for _ in range(steps):
        begins = torch.randint(0, len(text) - LENGTH - 1, (ROWS,))
        read = torch.stack([text[begin : begin + LENGTH + 1] for begin in begins])
        for order, own in networks.items():
            began = time.process_time()
            hidden, _ = own(read[:, :-1])
            (own.output.loss(hidden, read[:, 1:]) / (ROWS * LENGTH)).backward()
            torch.nn.utils.clip_grad_norm_(dense_parameters(own), 1.0)
            optimisers[order].step(1.0)
            for parameter in own.parameters():
                parameter.grad = None
            times[order].append(time.process_time() - began)
    return {order: own[3:] for order, own in times.items()}


def token_times(family: str, turns: int) -> dict[int, list[float]]:
    """Seconds of a greedy token in each turn of each order."""
    models = {order: NeuralModel(network(family, order, context=1024).eval()) for order in ORDERS}
    times: dict[int, list[float]] = {order: [] for order in ORDERS}
    for _ in range(turns):
        for order, model in models.items():
            state = model.start([np.array([5, 6, 7], np.int32)])
            began = time.process_time()
            for _ in range(TOKENS):
                token = np.maximum(model.next_log_probs(state).argmax(1), 3).astype(np.int32)
                state = model.advance(state, token)
            times[order].append((time.process_time() - began) / TOKENS)
    return {order: own[1:] for order, own in times.items()}


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
    parser.add_argument("--family", default="recurrent", choices=("recurrent", "transformer"))
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--mixture", action="store_true")
    parser.add_argument("--order", type=int, nargs="+", default=[5, 20])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(circumstances(), file=sys.stderr)
    if arguments.mixture:
        for order in arguments.order:
            mixture_speeds(arguments.text, order)
        return
    characters = arguments.text.read_text(encoding="utf-8")[:300_000]
    ids = {character: i % (VOCABULARY - 3) + 3 for i, character in enumerate(sorted(set(characters)))}
    steps = step_times(arguments.family, torch.tensor([ids[each] for each in characters]), arguments.steps)
    tokens = token_times(arguments.family, arguments.turns)
    for order in ORDERS:
        share = statistics.median(base / own for base, own in zip(steps[0], steps[order], strict=True))
        print(
            f"{arguments.family}, order {order}: step {statistics.median(steps[order]) * 1e3:.1f} ms, {share:.3f}; "
            f"token {min(tokens[order]) * 1e6:.0f} us, {min(tokens[0]) / min(tokens[order]):.3f}"
        )


if __name__ == "__main__":
    main()
