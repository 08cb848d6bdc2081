"""The stand-in for KenLM's module compared with the original: word by word, sentences, many sentences at once.

    PYTHONPATH=folder-of-kenlm python bench/kenlm_standin.py model.arpa test.txt [--ours lm/] [--theirs model.binary]

By default both read the first argument. Runs are interleaved; prints medians of processor time, since other load
disturbs the clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import circumstances

from chainrule import kenlm as ours

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = 200_000  # that are scored one by one
SENTENCES = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("test")
    parser.add_argument("--ours")
    parser.add_argument("--theirs")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    import kenlm as theirs

    models = {
        "kenlm": theirs.Model(options.theirs or options.model),
        "chainrule": ours.Model(options.ours or options.model),
    }
    modules = {"kenlm": theirs, "chainrule": ours}
    lines = Path(options.test).read_text().splitlines()[:SENTENCES]
    words = " ".join(lines).split()[:WORDS]
    tokens = sum(len(line.split()) + 1 for line in lines)
    tasks: dict[str, tuple[int, Callable[[str], Any]]] = {
        "BaseScore": (len(words), lambda name: one_by_one(modules[name], models[name], words, "BaseScore")),
        "BaseFullScore": (len(words), lambda name: one_by_one(modules[name], models[name], words, "BaseFullScore")),
        "BaseScore, a new state each": (len(words), lambda name: new_states(modules[name], models[name], words)),
        "score": (tokens, lambda name: [*map(models[name].score, lines)]),
        "full_scores": (tokens, lambda name: [list(models[name].full_scores(line)) for line in lines]),
        "many sentences": (
            tokens,
            lambda name: models[name].scores(lines) if name == "chainrule" else [*map(models[name].score, lines)],
        ),
    }
    print(circumstances())
    print(f"{len(words):,} words, {len(lines):,} sentences of {tokens:,} tokens; nanoseconds each, and ours to theirs")
    for task, (count, run) in tasks.items():
        runs: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(options.runs):
            for name in models:
                began = time.process_time()
                run(name)
                runs[name].append((time.process_time() - began) / count * 1e9)
        median = {name: statistics.median(own) for name, own in runs.items()}
        ratio = median["chainrule"] / median["kenlm"]
        print(f"{task:28}{median['kenlm']:9.1f}{median['chainrule']:9.1f}{ratio:7.2f}")


def one_by_one(module: Any, model: Any, words: list[str], method: str) -> None:
    state, after, score = module.State(), module.State(), getattr(model, method)
    for word in words:
        score(state, word, after)
        state, after = after, state


def new_states(module: Any, model: Any, words: list[str]) -> None:
    state, score = module.State(), model.BaseScore
    for word in words:
        after = module.State()
        score(state, word, after)
        state = after


if __name__ == "__main__":
    main()
