"""Low-rank adapters of a network, trained here and by peft on the same steps: losses, tokens a second, memory.

    python bench/adapters.py MODEL TEXT [--stored FILE.gguf] [--steps N] [--rows N] [--row-tokens N] [--rank N]
                             [--rounds N] [--threads N] [--ways NAME ...] [--peer PYTHON]

MODEL: a folder of Hugging Face's, which both open. TEXT: one document, since peft knows none. --stored: the same
network, quantised. --peer: a Python that has peft, which chainrule does not need: pip install peft.

Both begin with the same A and B, read the same rows, and take the same steps of AdamW. Every way of a round is a
process of its own, one after the other, so that the peak memory is its own: all that it holds, Python and torch
included. Its first step is not timed. Speeds are by processor time, of all threads, which other programs change least,
and by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_RATE, _BETAS, _CLIP = 5e-4, (0.9, 0.95), 1.0
_STATUS = Path("/proc/self/status")
# By name: who trains, the precision, and whether activations are computed again.
_WAYS = {
    "ours": ("ours", "auto", False),
    "ours, recomputing": ("ours", "auto", True),
    "ours, float32": ("ours", "float32", False),
    "ours, as stored": ("stored", "auto", False),
    "ours, as stored, recomputing": ("stored", "auto", True),
    "peft": ("peft", "float32", False),
    "peft, bfloat16": ("peft", "bfloat16", False),
    "peft, recomputing": ("peft", "float32", True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--stored", type=Path)
    parser.add_argument("--steps", type=int, default=4, help="that are timed, after one more")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--row-tokens", type=int, default=256)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ways", nargs="+", choices=_WAYS, default=list(_WAYS))
    parser.add_argument("--peer", default=sys.executable)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # of the ways, in this process
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        torch.set_num_threads(options.threads)
        who, precision, recompute = _WAYS[options.one]
        run = _peft if who == "peft" else _ours
        print(json.dumps(run(options, precision, recompute)))
        return
    from machine import circumstances

    print(circumstances(), flush=True)
    ways = [way for way in options.ways if options.stored is not None or _WAYS[way][0] != "stored"]
    with tempfile.TemporaryDirectory() as folder:
        prepare(options, Path(folder))
        figures: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for number in range(options.rounds):
            for way in ways:
                run = _in_process(options, way, Path(folder))
                figures[way].append(run)
                print(f"  round {number + 1}, {way}: {run['processor']:.2f} s a step", flush=True)
    _print(figures, options)


def prepare(options: argparse.Namespace, folder: Path) -> None:
    """Writes the rows of all steps, by transformers' ids, and the adapter that training begins with."""
    import chainrule
    from chainrule.models.files.origin import TokenIdMap
    from chainrule.models.files.tokenizers import tokenize_source
    from chainrule.text.corpus.corpus import source_of
    from chainrule.training.batches import ShuffledWindows

    start = chainrule.adapt(
        options.model, source_of(options.text, "file"), lora=options.rank, training=training(options, 1, 1e-30)
    )
    start.save(folder / "ours")  # A as it was drawn, and B of next to nothing
    chainrule.convert(folder / "ours", folder / "peft", to="peft")
    stream = tokenize_source(source_of(options.text, "file"), str(options.model)).stream
    numbering = TokenIdMap(**start.record["hugging_face"]["tokens"]).ours()
    theirs = np.empty(numbering.max() + 1, np.int64)
    theirs[numbering] = np.arange(len(numbering))
    windows = ShuffledWindows(stream, options.rows, options.row_tokens, 0)
    steps = [windows.rows(step, 0, options.rows) for step in range(options.steps + 1)]
    np.save(folder / "rows.npy", theirs[np.array([[rows.inputs, rows.targets] for rows in steps])])


def training(options: argparse.Namespace, steps: int, rate: float = _RATE, **more: Any) -> Any:
    """Settings of ours that are those of `_peft`."""
    import chainrule

    return chainrule.TrainingConfig(
        steps=steps,
        batch=options.rows,
        row_tokens=options.row_tokens,
        optimiser="adamw",
        learning_rate=rate,
        schedule="constant",
        decay_share=0,
        warm_up=0,
        clip=_CLIP,
        valid_share=0,
        **more,
    )


def _in_process(options: argparse.Namespace, way: str, folder: Path) -> dict[str, Any]:
    python = options.peer if _WAYS[way][0] == "peft" else sys.executable
    model = options.stored if _WAYS[way][0] == "stored" else options.model
    sizes = [f"--{name}={getattr(options, name.replace('-', '_'))}" for name in ("steps", "rows", "row-tokens", "rank")]
    command = [python, __file__, str(model), str(options.text), *sizes, "--one", way, "--folder", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "TQDM_DISABLE": "1"}
    found = subprocess.check_output([*command, f"--threads={options.threads}"], text=True, env=environment)
    figures: dict[str, Any] = json.loads(found.splitlines()[-1])
    return figures


def _ours(options: argparse.Namespace, precision: str, recompute: bool) -> dict[str, Any]:
    import chainrule
    from chainrule.text.corpus.corpus import source_of
    from chainrule.training.trainer import Trainer

    losses: list[float] = []
    timed = _Timed()
    step = Trainer._step

    def timed_step(trainer: Trainer) -> None:
        timed(lambda: step(trainer))
        losses.append(trainer._losses[-1])

    Trainer._step = timed_step  # type: ignore[method-assign]
    settings = training(options, options.steps + 1, precision=precision, recompute=recompute)
    chainrule.adapt(options.model, source_of(options.text, "file"), lora=options.rank, training=settings)
    return timed.figures(losses)


def _peft(options: argparse.Namespace, precision: str, recompute: bool) -> dict[str, Any]:
    import peft
    import transformers

    base = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(base, options.folder / "peft", is_trainable=True)
    model.train()
    if recompute:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=_RATE, betas=_BETAS, weight_decay=0.0)
    losses: list[float] = []
    timed = _Timed()
    for rows in torch.from_numpy(np.load(options.folder / "rows.npy")):

        def step(rows: torch.Tensor = rows) -> None:
            inputs, targets = rows
            with torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else nullcontext():
                loss = model(input_ids=inputs, labels=targets, shift_labels=targets, use_cache=False).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, _CLIP)
            optimiser.step()
            optimiser.zero_grad()
            losses.append(float(loss.detach()))

        timed(step)
    return timed.figures(losses)


class _Timed:
    """Seconds of steps, all but the first: of the processor, and by the clock."""

    def __init__(self) -> None:
        self.steps, self.processor, self.clock = 0, 0.0, 0.0

    def __call__(self, step: Callable[[], None]) -> None:
        before = time.process_time(), time.perf_counter()
        step()
        if self.steps:
            self.processor += time.process_time() - before[0]
            self.clock += time.perf_counter() - before[1]
        self.steps += 1

    def figures(self, losses: list[float]) -> dict[str, Any]:
        steps = self.steps - 1
        return {"losses": losses, "processor": self.processor / steps, "clock": self.clock / steps, "peak": _peak()}


def _peak() -> float:
    """Megabytes. Where the system says so, of this program alone: the usual figure begins with that of its parent."""
    if _STATUS.exists():
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _print(figures: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> None:
    tokens = options.rows * options.row_tokens
    sizes = f"{options.rows} rows of {options.row_tokens} tokens, rank {options.rank}"
    print(f"\n{sizes}, {options.threads} threads, median of {options.rounds} rounds")
    print("tokens a second of processor time, by the clock; peak memory, MB; both of peft's; loss of each step")
    of = {
        way: [statistics.median(run[key] for run in runs) for key in ("processor", "clock", "peak")]
        for way, runs in figures.items()
    }
    for way, (processor, clock, peak) in of.items():
        peer = of.get("peft")
        ratios = "" if peer is None else f"{peer[0] / processor:.2f} times, {peak / peer[2]:.2f}"
        losses = " ".join(f"{loss:.4f}" for loss in figures[way][0]["losses"])
        print(f"  {way:<28} {tokens / processor:7.1f} {tokens / clock:7.1f} {peak:7,.0f}   {ratios}   {losses}")


if __name__ == "__main__":
    main()
