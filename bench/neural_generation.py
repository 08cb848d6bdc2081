"""Tokens per second when generating 64 texts in a batch: ours, and transformers.generate with the same shapes.

    python bench/neural_generation.py [--peer FOLDER] [--threads N] [--tokens N] [--rounds N]

FOLDER: where transformers is, if elsewhere. Width 256, 6 layers, 8 heads, 68 tokens, 256 tokens a text, float32, on the
processor. Runs are interleaved; medians of three rounds, of wall time and of processor time. THP_MEM_ALLOC_ENABLE=1
gives torch huge pages where Linux gives them only on request; transformers, which allocates its cache anew at every
step, gains most from them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from machine import circumstances

from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.neural.build import build
from chainrule.neural.config import gpt2, modern
from chainrule.neural.language_model import NeuralModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.neural.config import TransformerConfig

ROWS, VOCABULARY = 64, 68
SHAPE = {"layers": 6, "width": 256, "heads": 8, "context": 512}


class Seconds(NamedTuple):
    clock: float
    processor: float  # user and system, of all threads


def seconds(generate: Callable[[int], None], tokens: int) -> Seconds:
    """What texts of that many tokens take."""
    began, before = time.perf_counter(), os.times()
    generate(tokens)
    after = os.times()
    return Seconds(time.perf_counter() - began, after.user + after.system - before.user - before.system)


def ours(config: TransformerConfig) -> Callable[[int], None]:
    torch.manual_seed(0)
    model = NeuralModel(build(replace(config, **SHAPE), VOCABULARY))
    prompt = [np.array([5], np.int32)]

    def generate(tokens: int) -> None:
        constraints = Constraints(max_tokens=tokens, min_tokens=tokens)
        texts = sample(model, prompt, None, constraints, seed=1, texts_per_prefix=ROWS)
        assert all(len(text.tokens) == tokens for text in texts)

    return generate


def peer() -> Callable[[int], None]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=512, n_embd=256, n_layer=6, n_head=8, bos_token_id=2, eos_token_id=2
    )
    model = GPT2LMHeadModel(config).eval()
    prompt = torch.full((ROWS, 2), 5)

    def generate(tokens: int) -> None:
        with torch.inference_mode():
            found = model.generate(
                prompt, max_new_tokens=tokens, do_sample=True, top_k=0, eos_token_id=None, pad_token_id=2
            )
        assert found.shape == (ROWS, 2 + tokens)

    return generate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", help="the folder where transformers is installed")
    parser.add_argument("--threads", type=int, help="torch's threads (its own choice)")
    parser.add_argument("--tokens", type=int, default=256, help="of each text (256)")
    parser.add_argument("--rounds", type=int, default=3, help="of all three (3)")
    chosen = parser.parse_args()
    if chosen.peer:
        sys.path.append(chosen.peer)
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    print(f"{circumstances()}\ntorch threads: {torch.get_num_threads()}", flush=True)
    generators = {"transformers, GPT-2": peer(), "chainrule, gpt2": ours(gpt2()), "chainrule, modern": ours(modern())}
    for generate in generators.values():
        generate(8)
    rounds = [
        {name: seconds(generate, chosen.tokens) for name, generate in generators.items()} for _ in range(chosen.rounds)
    ]
    medians = {
        name: Seconds(*(statistics.median(times) for times in zip(*(r[name] for r in rounds), strict=True)))
        for name in generators
    }
    theirs = medians["transformers, GPT-2"]
    for name, (clock, processor) in medians.items():
        rate = ROWS * chosen.tokens / clock
        print(
            f"{name}: {rate:,.0f} tokens/s, {clock:.2f} s ({theirs.clock / clock:.2f} times as fast), "
            f"{processor:.2f} s of processor time ({theirs.processor / processor:.2f})"
        )


if __name__ == "__main__":
    main()
