"""Scoring with one n-gram model, compared with KenLM: a whole text, sentences from a list, one word at a time.

    python bench/scoring.py lm/ model.binary train.txt test.txt [--runs 5]

lm/ and model.binary are the same model: ours trained with `--tokenizer whitespace`, or on a text of plain words;
KenLM's by `lmplz` and `build_binary probing`. `query` has to be on the PATH, and the `kenlm` module installed. Runs
are interleaved; prints medians, and how many times faster ours is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kenlm_standin import SENTENCES, WORDS, one_by_one
from machine import circumstances
from ngram import CHAINRULE, process, time_of

import chainrule
from chainrule import kenlm as standin

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("ours", "theirs", "train", "test"):
        parser.add_argument(name)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(circumstances())
    print("| what | chainrule | KenLM | times faster |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, ours, theirs in [*files(options, Path(folder) / "scores.txt"), *in_python(options)]:
            seconds: tuple[list[float], list[float]] = ([], [])
            for _ in range(options.runs):
                for work, runs in zip((ours, theirs), seconds, strict=True):
                    runs.append(work())
            one, other = map(statistics.median, seconds)
            print(f"| {name}, s | {one:.4g} | {other:.4g} | {other / one:.2f} |", flush=True)


Row = tuple[str, "Callable[[], float]", "Callable[[], float]"]


def files(options: argparse.Namespace, out: Path) -> list[Row]:
    """Of the training text, as whole processes, both from the page cache. out: the file that they write to."""
    model, text = options.ours, options.train

    def query(verbosity: str) -> float:
        with open(text, "rb") as lines:
            return process(["query", "-v", verbosity, options.theirs], out=out, text=lines)[0]

    def ours(verb: str) -> float:
        return process([*CHAINRULE, verb, model, text], out=out)[0]

    ours("score")
    query("sentence")
    return [
        ("evaluate the training text", lambda: ours("evaluate"), lambda: query("summary")),
        ("score it, file to file", lambda: ours("score"), lambda: query("sentence")),
    ]


def in_python(options: argparse.Namespace) -> list[Row]:
    """Of the test text."""
    import kenlm

    model = chainrule.load(options.ours)
    one, other = standin.Model(options.ours), kenlm.Model(options.theirs)
    lines = Path(options.test).read_text(encoding="utf-8").splitlines()[:SENTENCES]
    words = " ".join(lines).split()[:WORDS]

    def by_word(module: Any, model: Any) -> float:
        return time_of(lambda: one_by_one(module, model, words, "BaseScore"))

    model.score(lines)
    by_word(standin, one)
    by_word(kenlm, other)
    return [
        (
            f"{len(lines):,} sentences from a list",
            lambda: time_of(lambda: model.score(lines)),
            lambda: time_of(lambda: [other.score(line) for line in lines]),
        ),
        (f"{len(words):,} words, one at a time", lambda: by_word(standin, one), lambda: by_word(kenlm, other)),
    ]


if __name__ == "__main__":
    main()
