"""Networks on tinyshakespeare: a part for each figure to reach.

    python bench/neural.py tinyshakespeare/input.txt [--only gpt2|default|transformer|recurrent|generation|gpu]
        [--runs 3] [--minutes 5] [--seed 0] [--steps N]

Trains on the first 90 % of the characters and measures on the rest, in nats per character: averaged over blocks of
the context length, as nanoGPT does, and by `evaluate`, with as much preceding text as each model can use. Wall time
is reported with processor time, since other load disturbs the former. `--steps` shortens runs, to try the script out.

gpt2         nanoGPT's own recipe, 2000 steps: steps a second (nanoGPT: 28 a second, 85 s), and the loss
default      our recipe at the same size, until nanoGPT's loss: how many seconds, as a share of those above
transformer  the best Transformer of five minutes
recurrent    the best LSTM of five minutes
generation   64 sequences of 256 characters at once, against transformers.generate, where that is installed
gpu          the two networks that want one, where there is one
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import circumstances

import chainrule
from chainrule import RecurrentConfig, TrainingConfig, TransformerConfig
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.neural.build import build
from chainrule.neural.config import gpt2
from chainrule.neural.language_model import NeuralModel
from chainrule.training.device import machine_for
from chainrule.training.distributed import Processes
from chainrule.training.objectives.stream import validation_loss

if TYPE_CHECKING:
    from chainrule.neural.config import NetworkConfig
    from chainrule.training.reports import Report

NANOGPT_LOSS, NANOGPT_SECONDS = 1.886, 85.0
SIZE: dict[str, Any] = {"layers": 4, "width": 128, "heads": 4, "context": 64}
GPT2_TRAINING = TrainingConfig(
    steps=2000,
    batch=12,
    optimiser="adamw",
    learning_rate=1e-3,
    schedule="cosine",
    final_share=0.1,
    warm_up=100,
    beta2=0.99,
    weight_decay=0.1,
    precision="float32",
    compile="no",
    validate_every=2000,
)
# Settled by trying: docs/decisions/networks.md.
DEFAULT_STEPS = 260
DEFAULT_TRAINING = TrainingConfig(steps=DEFAULT_STEPS, batch=16, validate_every=DEFAULT_STEPS)
BEST_TRANSFORMER = TransformerConfig(layers=6, width=192, heads=3, context=128)
BEST_TRANSFORMER_TRAINING = TrainingConfig(batch=16)
BEST_LSTM = RecurrentConfig(layers=2, width=512, embedding_width=64, context=64, dropout=0.2, output_dropout=0.2)
BEST_LSTM_TRAINING = TrainingConfig(ema=0.99)


@dataclass(frozen=True)
class Texts:
    """Two files: what is learned, and what is measured."""

    train: Path
    test: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--only", choices=SUB_BENCHMARKS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    print(circumstances(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        texts = divide_text(Path(options.text), Path(folder))
        for name in [options.only] if options.only else SUB_BENCHMARKS:
            print(f"\n## {name}\n", flush=True)
            SUB_BENCHMARKS[name](texts, options)


def divide_text(text: Path, folder: Path) -> Texts:
    """The first 90 % of the characters, and the rest."""
    characters = text.read_text(encoding="utf-8")
    cut = int(0.9 * len(characters))
    texts = Texts(folder / "train.txt", folder / "test.txt")
    texts.train.write_text(characters[:cut], encoding="utf-8")
    texts.test.write_text(characters[cut:], encoding="utf-8")
    return texts


def trained(texts: Texts, config: NetworkConfig, training: TrainingConfig, options: argparse.Namespace) -> Any:
    """A model, trained on the clock; tells how it goes."""
    if options.steps:
        training = replace(training, steps=options.steps, minutes=None)
    training = replace(training, seed=options.seed)
    processor = time.process_time()
    model = chainrule.train(
        texts.train, config, tokenizer="character", training=training, validation=texts.test, on_report=print_report
    )
    record = model.record
    steps, seconds = record["steps"], record["training_seconds"]
    print(
        f"{record['parameters']:,} parameters, {steps:,} steps in {seconds:.1f} s of training: {steps / seconds:.1f} "
        f"steps a second, {record['tokens_seen'] / seconds:,.0f} tokens/s; "
        f"processor {time.process_time() - processor:.0f} s"
    )
    return model


def print_report(report: Report) -> None:
    if report.valid_loss is not None:
        print(f"  step {report.step:,}: {report.valid_loss:.4f} after {report.seconds:.1f} s", flush=True)


def in_blocks(model: chainrule.Model, texts: Texts) -> float:
    """Nats a character, in blocks of the context that know nothing of one another, as nanoGPT averages them."""
    network = model.language_model.network
    ids = model.tokenizer.encode_texts(texts.test.read_text(encoding="utf-8").removesuffix("\n").split("\n")).ids
    machine = machine_for(TrainingConfig(precision="float32", compile="no", device=str(network.device)))
    length = network.config.context
    whole = ids[: ids.size // length * length]
    return validation_loss(network, whole, length, machine, Processes(), carried=False).loss


def measure(model: chainrule.Model, texts: Texts) -> None:
    began = time.perf_counter()
    measurement = model.evaluate(texts.test)
    nats = -measurement.log_prob / measurement.tokens
    print(f"evaluate: **{nats:.4f} nats a character**, {measurement.bits_per_byte:.4f} bits per byte, ", end="")
    print(f"in {time.perf_counter() - began:.1f} s; {measurement.model_signature}", flush=True)


def as_gpt2(texts: Texts, options: argparse.Namespace) -> None:
    speeds, losses = [], []
    for _ in range(options.runs):
        model = trained(texts, replace(gpt2(), **SIZE), GPT2_TRAINING, options)
        speeds.append(model.record["steps"] / model.record["training_seconds"])
        losses.append(in_blocks(model, texts))
    print(
        f"**{statistics.median(losses):.4f} nats in blocks of 64** (nanoGPT: {NANOGPT_LOSS}), "
        f"**{statistics.median(speeds):.1f} steps a second** (nanoGPT: 28)"
    )


def default(texts: Texts, options: argparse.Namespace) -> None:
    times, losses = [], []
    for _ in range(options.runs):
        model = trained(texts, TransformerConfig(**SIZE), DEFAULT_TRAINING, options)
        times.append(model.record["training_seconds"])
        losses.append(in_blocks(model, texts))
    seconds = statistics.median(times)
    print(
        f"**{statistics.median(losses):.4f} nats in blocks of 64** (wanted: {NANOGPT_LOSS}) **in {seconds:.1f} s**, "
        f"1 / {NANOGPT_SECONDS / seconds:.1f} of nanoGPT's {NANOGPT_SECONDS:.0f} s"
    )


def best_transformer(texts: Texts, options: argparse.Namespace) -> None:
    training = replace(BEST_TRANSFORMER_TRAINING, minutes=options.minutes)
    model = trained(texts, BEST_TRANSFORMER, training, options)
    print(f"in blocks of {BEST_TRANSFORMER.context}: {in_blocks(model, texts):.4f} nats")
    measure(model, texts)


def best_recurrent(texts: Texts, options: argparse.Namespace) -> None:
    measure(trained(texts, BEST_LSTM, replace(BEST_LSTM_TRAINING, minutes=options.minutes), options), texts)


def generation(texts: Texts, options: argparse.Namespace) -> None:
    """Networks that have learned nothing: the time is the same."""
    config = TransformerConfig(layers=6, width=256, heads=4, context=512, dropout=0.0)
    model = NeuralModel(build(config, 67))
    constraints = Constraints(min_tokens=256, max_tokens=256, banned=[0])

    def ours() -> int:
        texts = sample(model, [np.array([5], np.int32)], SamplingConfig(), constraints, seed=1, texts_per_prefix=64)
        return sum(len(text.tokens) for text in texts)

    speed = median_speed(ours, options.runs)
    print(f"chainrule: {speed:,.0f} tokens/s")
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed: no comparison")
        return
    from transformers import GPT2Config, GPT2LMHeadModel

    peer = GPT2LMHeadModel(GPT2Config(vocab_size=67, n_positions=512, n_embd=256, n_layer=6, n_head=4)).eval()
    prompt = torch.full((64, 1), 5)

    def theirs() -> int:
        with torch.inference_mode():
            measurement = peer.generate(
                prompt, do_sample=True, top_k=0, min_new_tokens=256, max_new_tokens=256, pad_token_id=0, eos_token_id=2
            )
        return measurement.numel() - 64

    their_speed = median_speed(theirs, options.runs)
    print(f"transformers: {their_speed:,.0f} tokens/s; **{speed / their_speed:.1f} times as fast**")


def median_speed(work: Any, runs: int) -> float:
    """Tokens a second; the first run does not count."""
    speeds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        tokens = work()
        speeds.append(tokens / (time.perf_counter() - began))
    return statistics.median(speeds[1:])


def on_a_gpu(texts: Texts, options: argparse.Namespace) -> None:
    if not torch.cuda.is_available():
        print("there is no GPU here")
        return
    config = TransformerConfig(layers=6, heads=6, width=384, context=256, dropout=0.2)
    model = trained(texts, config, TrainingConfig(steps=2000, batch=64, validate_every=250), options)
    print(f"**{in_blocks(model, texts):.4f} nats in blocks of 256** (nanoGPT: 1.4697)")
    measure(model, texts)
    large = replace(gpt2(), layers=12, heads=12, width=768, context=1024)
    shares: list[float] = []
    chainrule.train(
        texts.train,
        large,
        tokenizer="byte",
        training=TrainingConfig(steps=100, batch=32, compile="yes", validate_every=1000, valid_tokens=1 << 15),
        on_report=lambda report: shares.append(report.peak_share),
    )
    print(f"{shares[-1]:.0%} of the measured peak with 124 M parameters' layers, T 1024, bfloat16")


SUB_BENCHMARKS = {
    "gpt2": as_gpt2,
    "default": default,
    "transformer": best_transformer,
    "recurrent": best_recurrent,
    "generation": generation,
    "gpu": on_a_gpu,
}


if __name__ == "__main__":
    main()
