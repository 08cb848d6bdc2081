"""Correcting corrupted text: word error rates of the corrupted text, of the best corrections, and after rescoring.

    python bench/rescoring.py lm/ test.txt [--sentences 4000] [--best 50] [--rates 0.03 0.06]

The model must be a word model that was not trained on the text. The first half of the sentences tunes the weights,
the second half is measured. `observed` is the corrupted text, `before` the best correction by the channel and the
words' own probabilities, `equal weights` and `tuned` are the results of rescoring with the model, `oracle` is the
best of each list. Wall time is reported with processor time, since other load disturbs the former.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from machine import circumstances

from chainrule.base.tables import text_table
from chainrule.features.metrics.error_rates import WordErrors

COLUMNS = ("observed", "before", "equal weights", "tuned", "95 %", "oracle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("test")
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--best", type=int, default=50)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.03, 0.06])
    options = parser.parse_args()
    with open(options.test, encoding="utf-8") as file:
        sentences = [line.rstrip("\n") for line in islice(file, options.sentences)]
    rows, times = [], []
    with tempfile.TemporaryDirectory() as folder:
        parts = {"dev": Path(folder, "dev.txt"), "test": Path(folder, "test.txt")}
        middle = len(sentences) // 2
        for path, lines in zip(parts.values(), (sentences[:middle], sentences[middle:]), strict=True):
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        for channel in ("keyboard", "ocr"):
            for rate in options.rates:
                cells, seconds = measure(options.model, parts, channel, rate, options.best)
                rows.append([f"{channel} {rate}", *cells])
                times.append([f"{channel} {rate}", *seconds])
    print(circumstances())
    print(text_table(["word error rate", *COLUMNS], rows))
    print()
    print(text_table(["seconds, clock / processor", "propose", "rescore", "hypotheses", "tune"], times))


def measure(model: str, parts: dict[str, Path], channel: str, rate: float, best: int) -> tuple[list[str], list[str]]:
    """The cells of both tables for one channel."""
    lists = {name: path.with_suffix(f".{channel}.jsonl") for name, path in parts.items()}
    for name, path in parts.items():
        say = ("--channel", channel, "--rate", rate, "--seed", len(name), "--best", best, "--overwrite")
        proposing, _ = run("noise", path, *say, "--model", model, "-o", lists[name])
    say = ("--model", f"lm={model}", "-o", lists["test"].with_suffix(".out"), "--overwrite", "--json", "--no-bleu")
    rescoring, equal = run("rescore", lists["test"], *say)
    tuning, tuned = run("rescore", lists["test"], *say, "--tune", lists["dev"])
    rates = tuned["word_error_rate"]
    low, high = rates["after"]["interval"]
    values = [observed_rate(lists["test"]), rates["before"]["value"], equal["word_error_rate"]["after"]["value"]]
    cells = [f"{value:.2%}" for value in (*values, rates["after"]["value"])]
    cells += [f"{100 * low:.2f} to {100 * high:.2f}", f"{rates['oracle']['value']:.2%}"]
    return cells, [proposing, rescoring, f"{equal['hypotheses']:,}", tuning]


def observed_rate(lists: Path) -> float:
    with open(lists, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    measure = WordErrors()
    rows = measure.statistics([record["observed"] for record in records], [record["reference"] for record in records])
    return float(measure.value(rows.sum(axis=0)))


def run(*arguments: object) -> tuple[str, Any]:
    """The time of a command, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "chainrule", *map(str, arguments)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{time.perf_counter() - began:.1f} / {used:.1f}", json.loads(printed) if printed else None


if __name__ == "__main__":
    main()
