"""Tokens a second of 64 texts that grow side by side: ours, and transformers.generate on the same shape.

    python bench/neural_generation.py [--peer FOLDER]          # where transformers is, if not in this environment

Width 256, 6 layers, 8 heads, 68 tokens, 256 tokens a text, float32, on the processor; medians of three.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace

import numpy as np
import torch
from machine import circumstances

from chainrule.decoding.constraints import Constraints
from chainrule.decoding.sampling import sample
from chainrule.neural.building import build
from chainrule.neural.config import gpt2, modern
from chainrule.neural.language_model import NeuralModel

ROWS, TOKENS, VOCABULARY = 64, 256, 68
SHAPE = {"layers": 6, "width": 256, "heads": 8, "context": 512}


def rate(generate) -> float:
    """Tokens a second, the median of three."""
    generate(8)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        generate(TOKENS)
        seconds.append(time.perf_counter() - began)
    return ROWS * TOKENS / statistics.median(seconds)


def ours(config) -> float:
    torch.manual_seed(0)
    model = NeuralModel(build(replace(config, **SHAPE), VOCABULARY))
    prompt = [np.array([5], np.int32)]

    def generate(tokens: int) -> None:
        constraints = Constraints(max_tokens=tokens, min_tokens=tokens)
        texts = sample(model, prompt, None, constraints, seed=1, each=ROWS)
        assert all(len(text.tokens) == tokens for text in texts)

    return rate(generate)


def peer() -> float:
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

    return rate(generate)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", help="the folder where transformers is installed")
    chosen = parser.parse_args()
    if chosen.peer:
        sys.path.append(chosen.peer)
    print(circumstances(), flush=True)
    theirs = peer()
    print(f"transformers.generate, GPT-2: {theirs:,.0f} tokens/s", flush=True)
    for name, config in (("gpt2", gpt2()), ("modern", modern())):
        found = ours(config)
        print(f"chainrule, {name}: {found:,.0f} tokens/s, {found / theirs:.2f} times")


if __name__ == "__main__":
    main()
