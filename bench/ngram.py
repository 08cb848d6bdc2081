"""The n-gram engine beside KenLM, in one run: ratios of medians, so that a noisy machine does not matter much.

    python bench/ngram.py train.txt test.txt [--order 5] [--runs 3]

Measured beside `lmplz`, `build_binary` and `query` where they are on the PATH, and the `kenlm` module where it is
installed; without them, chainrule alone. The texts should be tokenised already: both sides split at spaces.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numba
import numpy as np

import chainrule

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(circumstances())
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            *training(options, Path(folder)),
            *scoring(options, Path(folder)),
            *distributions(options, Path(folder)),
        ]
    print("| what | chainrule | KenLM | times faster |\n|---|---:|---:|---:|")
    for row in rows:
        print(row)


def training(options: argparse.Namespace, folder: Path) -> list[str]:
    """Text to a saved model that can be queried, as whole processes."""
    model, arpa, binary = folder / "lm", folder / "model.arpa", folder / "model.bin"
    ours = [sys.executable, "-m", "chainrule", "train", "ngram", options.train, "-o", str(model), "--overwrite"]
    ours += ["--tokenizer", "whitespace", "--order", str(options.order)]
    theirs = [
        [
            "lmplz",
            "-o",
            str(options.order),
            "-S",
            "50%",
            "-T",
            str(folder),
            "--text",
            options.train,
            "--arpa",
            str(arpa),
        ],
        ["build_binary", "probing", str(arpa), str(binary)],
    ]
    subprocess.run(ours, check=True, capture_output=True)  # so that the kernels are compiled
    with_peer = all(shutil.which(command[0]) for command in theirs)
    seconds, memory, peer_seconds, peer_memory = [], [], [], []
    for _ in range(options.runs):
        taken, peak = process(ours)
        seconds.append(taken)
        memory.append(peak)
        if with_peer:
            steps = [process(command) for command in theirs]
            peer_seconds.append(sum(taken for taken, _ in steps))
            peer_memory.append(max(peak for _, peak in steps))
    name = f"order {options.order}, text to a model that can be queried"
    return [row(f"{name}, s", seconds, peer_seconds), row(f"{name}, peak GB", memory, peer_memory)]


def scoring(options: argparse.Namespace, folder: Path) -> list[str]:
    """The test sentences from a Python list of strings."""
    sentences = Path(options.test).read_text(encoding="utf-8").splitlines()
    model = chainrule.load(folder / "lm")
    model.score(sentences[:100])
    peer = kenlm_model(folder / "model.bin")
    seconds, peer_seconds = [], []
    for _ in range(options.runs):
        seconds.append(timed(lambda: model.score(sentences)))
        if peer is not None:
            peer_seconds.append(timed(lambda: [peer.score(sentence) for sentence in sentences]))
    if peer is not None:
        same = np.allclose(model.score(sentences) / np.log(10), [peer.score(line) for line in sentences], atol=1e-3)
        print(f"scores equal KenLM's: {same}; perplexity {model.perplexity(options.test):.4f}")
    opening = [timed(lambda: chainrule.load(folder / "lm")) for _ in range(options.runs)]
    return [row(f"score {len(sentences):,} sentences, s", seconds, peer_seconds), row("open the model, s", opening, [])]


def distributions(options: argparse.Namespace, folder: Path) -> list[str]:
    """Whole next-word distributions of 64 contexts."""
    model = chainrule.load(folder / "lm").language_model
    tokens = np.random.default_rng(0).integers(3, model.vocabulary_size, (64, 4), np.int32)
    state = model.start(list(tokens))
    model.next_log_probs(state)
    seconds = [timed(lambda: model.next_log_probs(state)) for _ in range(10 * options.runs)]
    return [row(f"64 distributions over {model.vocabulary_size:,} words, s", seconds, [])]


def kenlm_model(path: Path) -> object | None:
    if not path.exists() or importlib.util.find_spec("kenlm") is None:
        return None
    import kenlm

    return kenlm.Model(str(path))


def process(command: list[str]) -> tuple[float, float]:
    """Seconds and peak memory, in GB, of one process."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed with status {child.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e9


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def row(name: str, ours: list[float], theirs: list[float]) -> str:
    median = statistics.median(ours)
    if not theirs:
        return f"| {name} | {median:.4g} | | |"
    peer = statistics.median(theirs)
    return f"| {name} | {median:.4g} | {peer:.4g} | {peer / median:.2f} |"


def circumstances() -> str:
    versions = f"chainrule {chainrule.__version__}, Python {platform.python_version()}, numba {numba.__version__}"
    return f"{os.cpu_count()} processors, {platform.machine()}; {versions}, numpy {np.__version__}"


if __name__ == "__main__":
    main()
