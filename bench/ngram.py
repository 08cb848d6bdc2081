"""The n-gram engine compared with KenLM: ratios of medians from interleaved runs, so that noise matters little.

    python bench/ngram.py train.txt test.txt [--order 5] [--runs 3] [--parts training reading_arpa] [--arpa lmplz.arpa]

Compares with `lmplz`, `build_binary` and `query` if they are on the PATH, and with the `kenlm` module if it is
installed; without them, measures chainrule alone. The texts should be tokenised already: both sides split at spaces.
Parts that need a model need `training` before them, except `reading_arpa` with a file. bench/multiplied.py makes
larger texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from machine import circumstances

import chainrule

if TYPE_CHECKING:
    from collections.abc import Callable

CHAINRULE = [sys.executable, "-m", "chainrule"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parts = [training, scoring, distributions, scoring_files, reading_arpa, growth, first_run]
    names = [part.__name__ for part in parts]
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--arpa", type=Path, help="what reading_arpa reads; by default what training let lmplz write")
    options = parser.parse_args()
    print(circumstances())
    with tempfile.TemporaryDirectory() as folder:
        rows = [line for part in parts if part.__name__ in options.parts for line in part(options, Path(folder))]
    print("| what | chainrule | KenLM | times faster |\n|---|---:|---:|---:|")
    for row in rows:
        print(row)


def training(options: argparse.Namespace, folder: Path) -> list[str]:
    """Text to a saved model that can be queried, as whole processes."""
    model, arpa, binary = folder / "lm", folder / "model.arpa", folder / "model.bin"
    ours = training_command(options.train, model, options.order)
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
        seconds_each, peak = process(ours)
        seconds.append(seconds_each)
        memory.append(peak)
        if with_peer:
            steps = [process(command) for command in theirs]
            peer_seconds.append(sum(seconds_each for seconds_each, _ in steps))
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
        seconds.append(time_of(lambda: model.score(sentences)))
        if peer is not None:
            peer_seconds.append(time_of(lambda: [peer.score(sentence) for sentence in sentences]))
    if peer is not None:
        same = np.allclose(model.score(sentences) / np.log(10), [peer.score(line) for line in sentences], atol=1e-3)
        print(f"scores equal KenLM's: {same}; perplexity {model.perplexity(options.test):.4f}")
    opening = [time_of(lambda: chainrule.load(folder / "lm")) for _ in range(options.runs)]
    return [row(f"score {len(sentences):,} sentences, s", seconds, peer_seconds), row("open the model, s", opening, [])]


def distributions(options: argparse.Namespace, folder: Path) -> list[str]:
    """Whole next-word distributions of 64 contexts."""
    model = chainrule.load(folder / "lm").language_model
    tokens = np.random.default_rng(0).integers(3, model.vocabulary_size, (64, 4), np.int32)
    state = model.start(list(tokens))
    model.next_log_probs(state)
    seconds = [time_of(lambda: model.next_log_probs(state)) for _ in range(10 * options.runs)]
    return [row(f"64 distributions over {model.vocabulary_size:,} words, s", seconds, [])]


def scoring_files(options: argparse.Namespace, folder: Path) -> list[str]:
    """A number for each line of the training text, from file to file, as whole processes."""
    out = folder / "scores.txt"
    ours = [*CHAINRULE, "score", str(folder / "lm"), options.train]
    theirs = ["query", "-v", "sentence", str(folder / "model.bin")]
    with_peer = shutil.which("query") is not None and (folder / "model.bin").exists()
    process(ours, out=out)  # so that both models and the text are in the page cache
    seconds, peer_seconds = [], []
    for _ in range(options.runs):
        seconds.append(process(ours, out=out)[0])
        if with_peer:
            with open(options.train, "rb") as text:
                peer_seconds.append(process(theirs, out=out, text=text)[0])
    return [row("score the training text, file to file, s", seconds, peer_seconds)]


def reading_arpa(options: argparse.Namespace, folder: Path) -> list[str]:
    """From an ARPA file to a model that can be queried, as whole processes."""
    arpa, model, binary = options.arpa or folder / "model.arpa", folder / "from-arpa", folder / "again.bin"
    if not arpa.exists():
        process([*CHAINRULE, "convert", str(folder / "lm"), str(arpa)])
    ours = [*CHAINRULE, "convert", str(arpa), str(model), "--tokenizer", "whitespace", "--overwrite"]
    process(ours)  # so that the kernels are compiled
    with_peer = shutil.which("build_binary") is not None
    seconds, peer_seconds = [], []
    for _ in range(options.runs):
        seconds.append(process(ours)[0])
        if with_peer:
            peer_seconds.append(process(["build_binary", "probing", str(arpa), str(binary)])[0])
    size = arpa.stat().st_size / 1e9
    return [row(f"ARPA file of {size:.2f} GB to a model that can be queried, s", seconds, peer_seconds)]


def growth(options: argparse.Namespace, folder: Path) -> list[str]:
    """Microseconds a token within training, of a beginning of the text with a million tokens and of all of it."""
    beginning, lines, tokens = folder / "beginning.txt", [], 0
    with open(options.train, encoding="utf-8") as text:
        for line in text:
            lines.append(line)
            tokens += len(line.split())
            if tokens >= 1_000_000:
                break
    beginning.write_text("".join(lines), encoding="utf-8")
    rows = []
    for name, source in (("the first million tokens", str(beginning)), ("all tokens", options.train)):
        seconds_each = []
        for _ in range(options.runs):
            command = [*training_command(source, folder / "grown", options.order), "--json"]
            record = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            seconds_each.append(1e6 * record["total_seconds"] / record["tokens"])
        rows.append(row(f"train on {name}, microseconds a token", seconds_each, []))
    return rows


def first_run(options: argparse.Namespace, folder: Path) -> list[str]:
    """How much longer each verb takes when its kernels are still to be compiled."""
    small = folder / "small.txt"
    small.write_text("a b c\nb c a\n" * 10, encoding="utf-8")
    model, arpa = folder / "small", folder / "small.arpa"
    verbs = [
        ["train", "ngram", str(small), "-o", str(model), "--overwrite"],
        ["evaluate", str(model), str(small)],
        ["score", str(model), str(small)],
        ["score", str(model), str(small), "--words"],
        ["next", str(model), "a"],
        ["generate", str(model), "a"],
        ["generate", str(model), "a", "--beam", "3"],
        ["convert", str(model), str(arpa), "--overwrite"],
        ["convert", str(arpa), str(model), "--overwrite"],
    ]
    environment = {**os.environ, "CHAINRULE_CACHE": str(folder / "cache")}
    cold = sum(process([*CHAINRULE, *verb], environment=environment)[0] for verb in verbs)
    warm = sum(process([*CHAINRULE, *verb], environment=environment)[0] for verb in verbs)
    return [row("compile everything on the first run ever, s", [cold - warm], [])]


def training_command(text: str, model: Path, order: int) -> list[str]:
    command = [*CHAINRULE, "train", "ngram", text, "-o", str(model), "--overwrite"]
    return [*command, "--tokenizer", "whitespace", "--order", str(order)]


def kenlm_model(path: Path) -> object | None:
    if not path.exists() or importlib.util.find_spec("kenlm") is None:
        return None
    import kenlm

    return kenlm.Model(str(path))


def process(
    command: list[str],
    *,
    out: Path = Path(os.devnull),
    text: BinaryIO | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[float, float]:
    """Seconds and peak memory, in GB, of one process."""
    began = time.perf_counter()
    with (
        open(out, "wb") as output,
        subprocess.Popen(command, stdin=text, stdout=output, stderr=subprocess.DEVNULL, env=environment) as child,
    ):
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed with status {child.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e9


def time_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def row(name: str, ours: list[float], theirs: list[float]) -> str:
    median = statistics.median(ours)
    if not theirs:
        return f"| {name} | {median:.4g} | | |"
    peer = statistics.median(theirs)
    return f"| {name} | {median:.4g} | {peer:.4g} | {peer / median:.2f} |"


if __name__ == "__main__":
    main()
