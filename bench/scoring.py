"""Scoring with one n-gram model, compared with KenLM: a whole text, sentences from a list, one word at a time.

    python bench/scoring.py lm/ model.binary train.txt test.txt [--runs 5] [--only NAME]

lm/ and model.binary are the same model: ours trained with `--tokenizer whitespace`, or on a text of plain words;
KenLM's by `lmplz` (or `chainrule convert lm/ model.arpa`) and `build_binary probing`. A row without its peer, which is
`query` on the PATH or the module `kenlm`, has no ratio. Runs are interleaved; prints medians by the clock and by
processor time, and how many times faster ours is.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kenlm_standin import SENTENCES, WORDS, one_by_one
from machine import circumstances
from ngram import CHAINRULE, process

import chainrule
from chainrule import kenlm as standin

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ours", "theirs", "train", "test"):
        parser.add_argument(name)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", help="rows whose name has this")
    options = parser.parse_args()
    print(circumstances())
    print("| what | chainrule | KenLM | times faster | processor time | KenLM | times |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, ours, theirs in [*files(options, Path(folder)), *in_python(options)]:
            if options.only and options.only not in name:
                continue
            ours()  # so that kernels are compiled, and files in the page cache
            seconds: tuple[list[Times], list[Times]] = ([], [])
            for _ in range(options.runs):
                for work, runs in zip((ours, theirs), seconds, strict=True):
                    if work is not None:
                        runs.append(times_of(work))
            print(f"| {name}, s {' '.join(cells(*seconds))}", flush=True)


Times = tuple[float, float]  # by the clock, and of processors
Row = tuple[str, "Callable[[], object]", "Callable[[], object] | None"]


def times_of(work: Callable[[], object]) -> Times:
    """The seconds that work takes here and in processes that it starts."""
    before, began = processor_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - began, processor_seconds() - before


def processor_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(own.ru_utime + own.ru_stime for own in both)


def cells(ours: list[Times], theirs: list[Times]) -> list[str]:
    """The rest of a row: by the clock, then by processor time."""
    row = []
    for kind in range(2):
        median = statistics.median(times[kind] for times in ours)
        row += [f"| {median:.4g} |", "no peer | |"]
        if theirs:
            peer = statistics.median(times[kind] for times in theirs)
            row[-1] = f"{peer:.4g} | {peer / median:.2f}"
    return [*row, "|"]


def files(options: argparse.Namespace, folder: Path) -> list[Row]:
    """Of the training text, as whole processes, all files in the page cache. folder: for what they write."""
    model, text, out = options.ours, options.train, folder / "scores.txt"
    has_peer = shutil.which("query") is not None

    def query(verbosity: str) -> Callable[[], object] | None:
        def run() -> None:
            with open(text, "rb") as lines:
                process(["query", "-v", verbosity, options.theirs], out=out, text=lines)

        return run if has_peer else None

    def ours(verb: str, *flags: str) -> Callable[[], object]:
        return lambda: process([*CHAINRULE, verb, model, text, *flags], out=out)

    def table(suffix: str, *flags: str) -> Callable[[], object]:
        return ours("score", *flags, "--output", str(folder / f"table{suffix}"), "--overwrite")

    return [
        ("evaluate the training text", ours("evaluate"), query("summary")),
        ("score it, file to file", ours("score"), query("sentence")),
        ("a table of its lines, .tsv", table(".tsv"), query("sentence")),
        ("a table of its lines, .parquet", table(".parquet"), query("sentence")),
        ("a table of its words, .tsv", table(".tsv", "--words"), query("word")),
        ("a table of its words, .parquet", table(".parquet", "--words"), query("word")),
    ]


def in_python(options: argparse.Namespace) -> list[Row]:
    """Of the test text."""
    model, one = chainrule.load(options.ours), standin.Model(options.ours)
    lines = Path(options.test).read_text(encoding="utf-8").splitlines()[:SENTENCES]
    words = " ".join(lines).split()[:WORDS]
    kenlm: Any = None
    if importlib.util.find_spec("kenlm") is not None:
        import kenlm
    other = kenlm and kenlm.Model(options.theirs)

    def each(module: Any, model: Any, method: str) -> Callable[[], object] | None:
        if module is None:
            return None
        if method == "score":
            return lambda: [*map(model.score, lines)]
        return lambda: one_by_one(module, model, words, method)

    single = [
        (f"{name}, {method}", each(standin, one, method), each(kenlm, other, method))
        for name, method in (
            (f"{len(words):,} words, one at a time", "BaseScore"),
            (f"{len(words):,} words, one at a time", "BaseFullScore"),
            (f"{len(lines):,} sentences, one at a time", "score"),
        )
    ]
    listed = f"{len(lines):,} sentences from a list", lambda: model.score(lines), each(kenlm, other, "score")
    return [listed, *single]


if __name__ == "__main__":
    main()
