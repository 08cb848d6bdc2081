"""The compact layout and KenLM's quantised trie: size, perplexity, row sums, and processor time per token.

    python bench/compact.py lm/ test.txt [--trie model.trie] [--runs 3]

lm/ is an n-gram model with the whitespace tokenizer, not compact. The trie comes from `build_binary -q 8 -b 8 -a 22
trie` and the same model; `query` has to be on the PATH. Times are user time on one thread, with runs interleaved, so
that other load affects all alike.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from machine import circumstances

import chainrule
from chainrule.base.progress import silent
from chainrule.ngram.models.table_models import CompactNGramModel, NGramModel

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--trie", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    chainrule.set_threads(1)
    fast = chainrule.load(options.model)
    with tempfile.TemporaryDirectory() as folder:
        small_folder = Path(folder) / "small"
        built = user_seconds(lambda: fast.compact().save(small_folder))
        small = chainrule.load(small_folder)
        compare(options, fast, small, size_of(small_folder), built)


def compare(
    options: argparse.Namespace, fast: chainrule.Model, small: chainrule.Model, size: int, built: float
) -> None:
    """Prints the table."""
    blocks = chainrule.Corpus.of(options.test).blocks(silent, "reading")
    stream = np.concatenate([fast.tokenizer.encode_block(block).ids for block in blocks])
    models = fast.language_model, small.language_model
    assert isinstance(models[0], NGramModel)
    assert isinstance(models[1], CompactNGramModel)
    ngrams = sum(models[0].level_sizes)
    for model in models:
        model.score_stream(stream)  # compiled, and the pages read
    seconds_of: dict[str, list[float]] = {"fast": [], "compact": [], "trie": []}
    perplexity = {}
    for _ in range(options.runs):
        for name, model in zip(("fast", "compact"), models, strict=True):
            seconds_of[name].append(user_seconds(lambda model=model: model.score_stream(stream)))
        if options.trie and shutil.which("query"):
            said, seconds = query_trie(options.trie, options.test)
            seconds_of["trie"].append(seconds)
            perplexity["trie"] = said
    print(circumstances())
    print(f"{ngrams:,} n-grams, {stream.size:,} tokens; compacting and saving took {built:.1f} s of processor time")
    print("| layout | bytes | bytes an n-gram | perplexity | mean row sum | tokens/s | ns a token |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, model, bytes_ in (("fast", fast, size_of(options.model)), ("compact", small, size)):
        measurement = model.evaluate(options.test)
        assert measurement.row_sums is not None
        sums = f"{measurement.row_sums.mean:.7f}"
        print(
            row(name, bytes_, ngrams, measurement.perplexity, sums, statistics.median(seconds_of[name]) / stream.size)
        )
    if seconds_of["trie"]:
        seconds = statistics.median(seconds_of["trie"]) / stream.size
        print(row("KenLM's trie, query", options.trie.stat().st_size, ngrams, perplexity["trie"], "", seconds))


def row(name: str, size: int, ngrams: int, perplexity: float, sums: str, seconds: float) -> str:
    return (
        f"| {name} | {size:,} | {size / ngrams:.2f} | {perplexity:.4f} | {sums} | {1 / seconds:,.0f} "
        f"| {1e9 * seconds:.0f} |"
    )


def query_trie(trie: Path, text: Path) -> tuple[float, float]:
    """The perplexity, unknown tokens included, and the user time of KenLM's query; cutting the text is part of it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with open(text, "rb") as lines:
        result = subprocess.run(
            ["query", "-v", "summary", str(trie)], stdin=lines, check=True, capture_output=True, text=True
        )
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    match = re.search(r"Perplexity including OOVs:\s*(\S+)", result.stdout)
    assert match is not None
    return float(match[1]), seconds


def user_seconds(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


if __name__ == "__main__":
    main()
