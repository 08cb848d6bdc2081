"""Sizes of networks on short budgets: the grid that the rule of training/sizes.py was measured on.

    python bench/sizes.py novels-100k.txt novels-valid.txt --tokenizer character --family transformer --minutes 0.3 1
        [--sizes 64x2 128x2 ...] [-o trials.jsonl]

A trial is what `chainrule train FAMILY TEXT --valid VALID --minutes M` does once it has read its text, on one thread
and in minutes of processor time, since others use the machine: the clock of training is that of the process. A size is
WIDTHxLAYERS or WIDTHxLAYERSxCONTEXT; `rule` is what `--minutes` chooses.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
time.monotonic = time.perf_counter = time.process_time  # before anything imports them

import torch  # noqa: E402
from machine import circumstances  # noqa: E402

from chainrule.base.progress import silent  # noqa: E402
from chainrule.kinds import kinds  # noqa: E402
from chainrule.mixture.uniform import UniformConfig  # noqa: E402
from chainrule.models.families.table import FAMILIES  # noqa: E402
from chainrule.models.files.tokenizers import tokenize_source  # noqa: E402
from chainrule.text.corpus.corpus import source_of  # noqa: E402
from chainrule.text.units import begins_word  # noqa: E402
from chainrule.training.config import TrainingConfig  # noqa: E402
from chainrule.training.job import StreamOptions  # noqa: E402
from chainrule.verbs.training.stream import read_validation, train_speller  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


def settings_of(family: str, size: str, others: list[str]) -> dict[str, Any]:
    """128x4x64 as settings, with the heads of a rung of that width; none for `rule`. others: NAME=VALUE."""
    if size == "rule":
        return named_settings(others)
    width, layers, context = (*map(int, size.split("x")), None)[:3]
    heads = next((rung.get("heads") for rung in kinds()[family].configs[0].get().sizes if rung["width"] == width), None)
    named: dict[str, Any] = {"width": width, "layers": layers, "context": context, "heads": heads}
    named |= named_settings(others)
    return {name: value for name, value in named.items() if value is not None}


def size_of(config: Any) -> str:
    """128x4x64."""
    return "x".join(str(getattr(config, name)) for name in ("width", "layers", "context") if hasattr(config, name))


def named_settings(texts: list[str]) -> dict[str, Any]:
    """NAME=VALUE by name; what JSON reads as a number is one."""
    named = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            named[name] = json.loads(value)
        except json.JSONDecodeError:
            named[name] = value
    return named


def trials(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A result for each size and budget."""
    tokens = tokenize_source(source_of(arguments.text), arguments.tokenizer, "skip", silent)
    learner = tokens.tokenizer
    speller = train_speller(learner, tokens.stream, UniformConfig(), tokens.left_out, tokens.literal_unknowns)
    print(f"{arguments.text}: {tokens.stream.size:,} tokens, vocabulary {learner.vocabulary_size:,}", file=sys.stderr)
    validation = read_validation(source_of(arguments.valid), learner, TrainingConfig(), lambda: speller, silent)
    for minutes in arguments.minutes:
        for size in arguments.sizes:
            for family in arguments.family:
                began = time.process_time()
                name, _, cell = family.partition(":")
                settings = settings_of(name, size, [*arguments.set, *([f"cell={cell}"] if cell else [])])
                config = kinds()[name].configs[0].get()(**settings)
                training = TrainingConfig(minutes=minutes, **named_settings(arguments.training))
                options = StreamOptions(
                    training=training,
                    validation=validation,
                    begins_word=begins_word(learner) if FAMILIES[name].job == "fill" else None,
                )
                model, record = FAMILIES[name].train(
                    tokens.stream, learner.vocabulary_size, config, silent, options=options
                )
                validated = record["validation"]
                yield {
                    "text": Path(arguments.text).name,
                    "tokenizer": arguments.tokenizer,
                    "vocabulary": learner.vocabulary_size,
                    "tokens": int(tokens.stream.size),
                    "family": family,
                    "size": size if size != "rule" else f"rule:{size_of(model.network.config)}",
                    "set": [*arguments.set, *arguments.training],
                    "minutes": minutes,
                    "parameters": record["parameters"],
                    "batch": record["training"]["batch"],
                    "steps": record["steps"],
                    "seen": record["tokens_seen"],
                    "loss": round(validated["loss"], 4),
                    "bits": round(validated.get("bits_per_byte", 0.0), 4),
                    "unigram": round(validated["unigram_loss"], 4),
                    "seconds": round(time.process_time() - began, 1),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("valid")
    parser.add_argument("--tokenizer", default="word")
    parser.add_argument("--family", nargs="+", default=["transformer"])
    parser.add_argument("--sizes", nargs="+", required=True)
    parser.add_argument("--minutes", nargs="+", type=float, default=[0.3])
    parser.add_argument("--set", nargs="*", default=[], help="settings of the network, NAME=VALUE")
    parser.add_argument("--training", nargs="*", default=[], help="settings of training, NAME=VALUE")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(circumstances(), file=sys.stderr)
    for trial in trials(arguments):
        line = json.dumps(trial)
        print(line, flush=True)
        if arguments.output is not None:
            with arguments.output.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
