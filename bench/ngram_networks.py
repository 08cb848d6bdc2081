"""N-grams and networks: a residual and mixtures, at equal time, each arm mixed with the n-gram model, too.

    python bench/ngram_networks.py shakespeare.txt --tokenizer character --family recurrent transformer --order 6
        --minutes 1 --seeds 1 2 3 [--control in-sample] [-o trials.jsonl]
    python bench/ngram_networks.py novels.txt --other documentation.txt --tokenizer byte --document file --minutes 1

The last tenth of the text is measured. Of the rest, every twentieth run of 50 lines tunes mixtures, and all others
train. Of a folder, the files are documents in the order of their names: the last tenth of the text is measured, the
twentieth before it tunes, all before that trains. Settings of networks are those of the command without options.
Training runs on one thread, in minutes of processor time, since others may use the machine: the clock of training is
that of the process, and folds of a residual count. All figures are nats a token. --control also trains what should not
help: a residual of the n-gram model that has seen the training text (in-sample). --quick leaves out adaptive mixtures
and caches. --arms takes some of the others alone.

--other measures another domain instead, in bits a byte of the last tenth of another text: the network of the first
text; adapted by training for the same minutes again on the other text; and what needs no training of networks: the
residual's network beside the n-gram model of the other text, and mixtures of the network and that n-gram model.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
time.monotonic = time.perf_counter = time.process_time  # before anything imports them

import torch  # noqa: E402
from machine import circumstances  # noqa: E402

import chainrule  # noqa: E402
from chainrule.kinds import kinds  # noqa: E402
from chainrule.text.corpus.corpus import source_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.text.corpus.corpus import Source

RUN, EVERY = 50, 20  # lines of a run; every so many tune
SHARES = ((0, 0.85), (0.85, 0.9), (0.9, 1))  # of the documents of a folder, that train, tune and are measured
CACHE = chainrule.CacheConfig(words=1 << 20, order=6)
STATES = 2000  # of a neural cache


def parts_of(text: Path, folder: Path, document: Any) -> tuple[Source, Source, Source]:
    """The parts that train, tune and measure."""
    if text.is_dir():
        files = sorted(text.iterdir())
        sizes = [file.stat().st_size for file in files]
        middles = [(sum(sizes[:i]) + sizes[i] / 2) / sum(sizes) for i in range(len(files))]
        parts = [[file for file, at in zip(files, middles, strict=True) if low <= at < high] for low, high in SHARES]
        train, tune, test = (source_of(part, "file") for part in parts)
        return train, tune, test
    lines, read, measured_from = text.read_text(encoding="utf-8").splitlines(keepends=True), 0, 0
    size = sum(map(len, lines))
    while read < 0.9 * size:
        read += len(lines[measured_from])
        measured_from += 1
    runs = [lines[i : min(i + RUN, measured_from)] for i in range(0, measured_from, RUN)]
    named = {
        "train": [line for i, run in enumerate(runs) if i % EVERY != EVERY - 1 for line in run],
        "tune": [line for run in runs[EVERY - 1 :: EVERY] for line in run],
        "test": lines[measured_from:],
    }
    files = [folder / f"{name}.txt" for name in named]
    for file, part in zip(files, named.values(), strict=True):
        file.write_text("".join(part), encoding="utf-8")
    train, tune, test = (source_of(file, document) for file in files)
    return train, tune, test


def trials(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The nats of each arm, alone and mixed."""
    train, tune, test = parts_of(arguments.text, folder, arguments.document)
    began = time.process_time()
    ngram = chainrule.train(train, chainrule.NGramConfig(order=arguments.order), tokenizer=arguments.tokenizer)
    ngram.save(folder / "ngram")
    yield row("n-gram", "", 0, ngram, ngram, tune, test, time.process_time() - began, quick=arguments.quick)
    arms: dict[str, dict[str, Any]] = {"network": {}, "residual": {"residual_of": arguments.order}}
    arms = {name: arm for name, arm in arms.items() if name in arguments.arms}
    if "in-sample" in arguments.control:
        seen = chainrule.load(folder / "ngram")
        del seen.record["data"]
        seen.save(folder / "seen")
        arms["residual, in sample"] = {"residual_of": folder / "seen"}
    for seed in arguments.seeds:
        for family in arguments.family:
            for name, options in arms.items():
                began = time.process_time()
                with control_of(name):
                    model = chainrule.train(
                        train,
                        kinds()[family].configs[0].get()(),
                        tokenizer=str(folder / "ngram"),
                        training=chainrule.TrainingConfig(minutes=arguments.minutes, seed=seed),
                        validation=tune,  # else the end of the text that trains, so that networks learn from less
                        **options,
                    )
                    seconds = time.process_time() - began
                    yield row(name, family, seed, model, ngram, tune, test, seconds, quick=arguments.quick)


def control_of(arm: str) -> AbstractContextManager[Any]:
    """What is changed while the network of an arm is trained and measured."""
    if arm == "residual, in sample":  # else it would be refused
        return mock.patch("chainrule.verbs.training.residual._seems_seen", return_value="in sample, on purpose")
    return nullcontext()


def row(
    arm: str, family: str, seed: int, model: Any, ngram: Any, tune: Source, test: Source, seconds: float, *, quick: bool
) -> dict[str, Any]:
    """A line of the table: alone, in a linear and in an adaptive mixture with the n-gram model, and with a cache."""
    others = [] if model is ngram else [ngram]
    adaptive = chainrule.MixtureConfig(adaptive=True)
    nats = {"alone": model}
    if others:
        nats["linear"] = chainrule.mix([model, *others], heldout=tune)
    if others and not quick:
        evidence = chainrule.MixtureConfig(adaptive=True, gate="evidence")
        nats["adaptive, by evidence"] = chainrule.mix([model, *others], evidence, heldout=tune)
        nats["adaptive"] = chainrule.mix([model, *others], adaptive, heldout=tune)
    if others and not quick and arm == "network":  # a residual is a mixture
        nats["dynamic"] = model.dynamic()
        nats["neural cache"] = chainrule.with_neighbours(model, neural_cache=STATES, heldout=tune)
        for name in ("dynamic", "neural cache"):
            mixed = chainrule.mix([nats[name], *others], adaptive, heldout=tune, cache=CACHE)
            nats[f"{name}, adaptive with a cache"] = mixed
    if not quick:
        nats["with a cache"] = chainrule.mix([model, *others], heldout=tune, cache=CACHE)
        nats["adaptive with a cache"] = chainrule.mix([model, *others], adaptive, heldout=tune, cache=CACHE)
    return {
        "arm": arm,
        "family": family,
        "seed": seed,
        "seconds": round(seconds, 1),
        "steps": model.record.get("steps"),
        "parameters": model.record.get("parameters"),
        "batch": model.record.get("training", {}).get("batch"),
        **{name: round(math.log(own.evaluate(test).perplexity), 4) for name, own in nats.items()},
    }


def exchanges(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The bits a byte of another domain, of each way there."""
    (folder / "other").mkdir()
    train, tune, _ = parts_of(arguments.text, folder, arguments.document)
    learned, held, test = parts_of(arguments.other, folder / "other", arguments.document)
    family, ngram = kinds()[arguments.family[0]].configs[0].get(), chainrule.NGramConfig(order=arguments.order)
    chainrule.train(train, ngram, tokenizer=arguments.tokenizer).save(folder / "ngram")
    other = chainrule.train(learned, ngram, tokenizer=str(folder / "ngram"))
    for seed in arguments.seeds:
        training = chainrule.TrainingConfig(minutes=arguments.minutes, seed=seed)
        options: dict[str, Any] = {"tokenizer": str(folder / "ngram"), "training": training}
        network = chainrule.train(train, family(), validation=tune, **options)
        network.save(folder / f"network{seed}")
        residual = chainrule.train(train, family(), validation=tune, residual_of=arguments.order, **options)
        adapted = chainrule.train(learned, start=folder / f"network{seed}", validation=held, training=training)
        adaptive = chainrule.MixtureConfig(adaptive=True)
        models = {
            "network": network,
            "adapted": adapted,
            "residual": residual,
            "exchanged": chainrule.exchange(residual, other),
            "other n-gram": other,
            "mixed": chainrule.mix([network, other], heldout=held),
            "mixed, adaptive": chainrule.mix([network, other], adaptive, heldout=held),
            "adapted and mixed, adaptive": chainrule.mix([adapted, other], adaptive, heldout=held),
        }
        bits = {name: round(model.evaluate(test).bits_per_byte, 4) for name, model in models.items()}
        yield {"family": arguments.family[0], "seed": seed, "arm": "other domain", **bits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="a file, or a folder of documents")
    parser.add_argument("--tokenizer", default="character")
    parser.add_argument("--document", default="line", choices=("line", "file"))
    parser.add_argument("--family", nargs="+", default=["recurrent"])
    parser.add_argument("--order", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--arms", nargs="+", default=["network", "residual"])
    parser.add_argument("--control", nargs="*", default=[], choices=("in-sample",))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--other", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(circumstances(), file=sys.stderr)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for trial in (exchanges if arguments.other else trials)(arguments, Path(folder)):
            found.append(trial)
            line = json.dumps(trial)
            print(line, flush=True)
            if arguments.output is not None:
                with arguments.output.open("a") as file:
                    file.write(line + "\n")
    for family in arguments.family if "network" in arguments.arms and not arguments.other else []:
        own = {trial["seed"]: trial for trial in found if trial["family"] == family and trial["arm"] == "network"}
        for arm in dict.fromkeys(trial["arm"] for trial in found if trial["family"] == family):
            pairs = [
                (own[trial["seed"]], trial)
                for trial in found
                if trial["family"] == family and trial["arm"] == arm and trial["seed"] in own
            ]
            for figure in ("alone", "linear", "adaptive, by evidence", "adaptive", "adaptive with a cache"):
                if not all(figure in trial and figure in network for network, trial in pairs):
                    continue
                gains = [trial[figure] - network[figure] for network, trial in pairs]
                spread = f" ± {statistics.stdev(gains):.4f}" if len(gains) > 1 else ""
                print(f"{family}, {arm}, {figure}: {statistics.mean(gains):+.4f}{spread} nats to the network")


if __name__ == "__main__":
    main()
