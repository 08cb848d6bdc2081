"""Tiny runs, and a process that trains and is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import chainrule
from chainrule.features.classify.network.config import LabellingConfig
from chainrule.features.classify.objective import Example, split
from chainrule.features.classify.runs import finetune_network, train_from_scratch
from chainrule.features.speech.network_config import SpeechConfig
from chainrule.features.speech.objective import SpokenExample, ctc_job
from chainrule.neural.build import build
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.text.units import UnitTokens
from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig, TrainingConfig, TrainingRun
from chainrule.training.job import StreamOptions, Validation
from chainrule.training.run import run_job, train_network

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.neural.config import NetworkConfig
    from chainrule.training.reports import Report

VOCABULARY = 11
TOKENS = tuple(b"<unk> <s> </s> walk walks walked talk talks talked Talk a".split())
TRANSFORMER = TransformerConfig(layers=1, width=16, heads=2, context=8, dropout=0.1)
RECURRENT = RecurrentConfig(layers=1, width=12, context=6, dropout=0.1, output_dropout=0.1)
FINE_TUNING = FineTuningConfig(
    epochs=3, batch=4, accumulate=2, patience=3, dropout=0.2, mixed=True, save_every=3, precision="float32"
)
SCRATCH = ClassifierTrainingConfig(epochs=3, batch=4, accumulate=2, patience=3, save_every=3, precision="float32")
QUICK = TrainingConfig(steps=12, batch=4, validate_every=5, save_every=3, precision="float32", compile="no")


def forking_context() -> multiprocessing.context.ForkServerContext:
    """For processes that have imported what takes seconds when they start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chainrule.training.run", "torch._dynamo", "pytest"])
    return context


def text(tokens: int = 400, seed: int = 1) -> np.ndarray:
    """Each token is the one before plus one or two, so that there is something to learn; some are </s>."""
    steps = np.random.default_rng(seed).integers(1, 3, tokens)
    return (2 + np.cumsum(steps) % (VOCABULARY - 2)).astype(np.int32)


def validation(tokens: int = 100) -> Validation:
    return Validation(stream=text(tokens, seed=2), bytes=tokens)


def trained(
    config: NetworkConfig | FineTuningConfig | LabellingConfig | SpeechConfig,
    training: TrainingConfig = QUICK,
    stream: np.ndarray | None = None,
    **more: Any,
) -> tuple[torch.nn.Module, dict[str, Any], list[Report]]:
    """A network, its record, and all that was told."""
    told: list[Report] = []
    if isinstance(config, LabellingConfig):
        data, training = split(examples(), SCRATCH.valid_share, 0), SCRATCH
        run = run_of(told, more)
        return *train_from_scratch(config, ["a", "b", "c"], "word", VOCABULARY, data, training, run), told
    if isinstance(config, FineTuningConfig):
        torch.manual_seed(0)
        network = build(TRANSFORMER, VOCABULARY)
        return *finetune_network(network, ["a", "b", "c"], "word", examples(), config, run_of(told, more)), told
    run = run_of(told, more)
    if isinstance(config, SpeechConfig):
        heard = {"ids": "", "tokens": 1, "validation": "", "validation_tokens": 1}
        job = ctc_job(sounds(), sounds()[:4], config, training, heard, lambda texts, references: len(texts))
        return *run_job(job, run), told
    options = StreamOptions(training=training, **{"validation": validation(), "tokens": TOKENS, **more})
    network, record = train_network(text() if stream is None else stream, VOCABULARY, config, options, run)
    return network, record, told


def run_of(told: list[Report], more: dict[str, Any]) -> TrainingRun:
    """A run whose reports go to a list, or as it is said; what is said of it is taken out of `more`."""
    names = ("folder", "resume", "overwrite", "began")
    return TrainingRun(
        on_report=more.pop("told", told.append), **{name: more.pop(name) for name in names if name in more}
    )


def examples() -> list[Example[UnitTokens]]:
    """Texts of several lengths; a token's label is what is left of it by three."""
    rows = [text(length, seed=length) for length in (3, 9, 1, 6, 12, 2, 7, 5, 4, 8, 11, 3, 6, 2, 9, 5, 4, 7)]
    return [Example(UnitTokens(row, np.arange(row.size), row.size), row.astype(np.int64) % 3) for row in rows]


def sounds() -> list[SpokenExample]:
    """Frames of noise, of several lengths, with labels."""
    rng = np.random.default_rng(0)
    lengths = (30, 45, 60, 33, 51, 42, 39, 48)
    return [
        SpokenExample(rng.integers(-999, 999, (length, 8)).astype(np.int16), rng.integers(1, 3, length // 9))
        for length in lengths
    ]


def numbers(network: torch.nn.Module) -> bytes:
    """All weights, bit by bit."""
    return b"".join(each.numpy().tobytes() for each in network.state_dict().values())


def killed_at(
    event: int,
    config: NetworkConfig | FineTuningConfig | LabellingConfig | SpeechConfig,
    training: TrainingConfig,
    folder: Path,
) -> None:
    """Trains in this process, which kills itself at an event: a file is synced or renamed, a step begins or ends."""
    chainrule.set_threads(1)
    events = 0

    def count(*_: Any, **__: Any) -> None:
        nonlocal events
        events += 1
        if events == event:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Any) -> Any:
        def counting(*arguments: Any, **settings: Any) -> Any:
            count()
            found = function(*arguments, **settings)
            count()
            return found

        return counting

    os.replace, os.fsync = counted(os.replace), counted(lambda descriptor: None)
    from chainrule.training.trainer import Trainer

    Trainer.run = counted(Trainer.run)  # type: ignore[method-assign]
    network, _, _ = trained(config, training, folder=folder, resume=True)
    (folder / "weights").write_bytes(numbers(network))


def with_other(config: NetworkConfig, **settings: Any) -> NetworkConfig:
    return replace(config, **settings)
