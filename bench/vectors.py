"""Word vectors beside gensim, word2vec.c, fastText and GloVe: speed, and what the vectors know.

    python bench/vectors.py lower.txt [--parts skipgram cbow subwords together glove nearest] [--runs 3] [--threads 2]
    python bench/vectors.py lower.txt --parts quality --epochs 5 --similarity DIR --analogies FILE
        [--methods skipgram cbow subwords] [--programs chainrule gensim word2vec.c fastText] [--seeds 1 2 3]

The text should be tokenised and lower-cased: all split at white space. Peers: --peers names a Python that has gensim
and fasttext; --word2vec the program; --glove the folder of GloVe's programs. Those that are missing are left out.
Speeds are of training alone, as each program measures them: words of the text a second, those that sampling leaves out
included.
word2vec.c's HEAD never clears its end-of-file flag, so that its last thread stops after one pass: add `eof = 0;` after
the second fseek before measuring its quality.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import circumstances

import chainrule
from chainrule import TokenizerConfig, VectorsConfig
from chainrule.base.threads import set_threads

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = 1e-4
WORDS = TokenizerConfig(kind="whitespace", min_count=5)
SETTINGS: dict[str, dict[str, Any]] = {
    "skipgram": {},
    "cbow": {"method": "cbow"},
    "subwords": {"subwords": "3-6"},
}
FILES = {"chainrule": "ours", "gensim": "gensim.vec", "word2vec.c": "word2vec.vec", "fastText": "fasttext.bin"}
_GENSIM = """
import json, sys, time
from gensim.models import Word2Vec
path, threads, epochs, sg, seed, out = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]
model = Word2Vec(vector_size=100, window=5, negative=5, sample=1e-4, sg=sg, workers=threads, min_count=5,
                 alpha=0.025 if sg else 0.05, epochs=epochs, seed=seed)
model.build_vocab(corpus_file=path)
words = model.corpus_total_words
began = time.perf_counter()
model.train(corpus_file=path, total_examples=model.corpus_count, total_words=words, epochs=epochs)
seconds = time.perf_counter() - began
model.wv.save_word2vec_format(out)
print(json.dumps(epochs * words / seconds))
"""
_FASTTEXT = """
import sys, fasttext
path, threads, epochs, seed, out = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
fasttext.FastText.unsupervised_default["seed"] = seed  # which its function has no argument for
model = fasttext.train_unsupervised(path, model="skipgram", dim=100, ws=5, neg=5, epoch=epochs, minCount=5, minn=3,
                                    maxn=6, thread=threads, t=1e-4, lr=0.05, verbose=2)
model.save_model(out)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    speeds = ["skipgram", "cbow", "subwords", "together", "glove", "nearest"]
    parser.add_argument("--parts", nargs="+", choices=[*speeds, "quality"], default=speeds)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), help="of quality")
    parser.add_argument("--programs", nargs="+", choices=list(FILES), default=list(FILES), help="of quality")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of quality")
    parser.add_argument("--peers", help="a Python with gensim and fasttext")
    parser.add_argument("--word2vec")
    parser.add_argument("--glove", type=Path)
    parser.add_argument("--similarity")
    parser.add_argument("--analogies")
    options = parser.parse_args()
    set_threads(options.threads)
    print(circumstances(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            if part in SETTINGS:
                learning(part, options, Path(folder))
            else:
                {"together": together, "glove": glove, "nearest": nearest, "quality": quality}[part](
                    options, Path(folder)
                )


def learning(part: str, options: argparse.Namespace, folder: Path) -> None:
    """Words a second of training."""
    ours(part, options, folder / "warm", epochs=1)  # so that the kernels are compiled, and the text is in memory
    programs = {"chainrule": lambda: ours(part, options, folder / "ours"), **peers(part, options, folder)}
    rates: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(options.runs):
        for name, program in programs.items():
            rates[name].append(program())
    report(part, {name: statistics.median(values) for name, values in rates.items()}, "words/s")


def ours(part: str, options: argparse.Namespace, folder: Path, *, seed: int = 1, epochs: int | None = None) -> float:
    config = VectorsConfig(sample=SAMPLE, epochs=epochs or options.epochs, seed=seed, **SETTINGS[part])
    vectors = chainrule.train_vectors(options.text, config, tokenizer=WORDS, markers="skip", progress=False)
    vectors.save(folder, overwrite=True)
    return float(vectors.record["words_per_second"])


def peers(part: str, options: argparse.Namespace, folder: Path, seed: int = 1) -> dict[str, Callable[[], float]]:
    """What trains the same, by name; each gives its words a second, and leaves its vectors in the folder."""
    path, threads, epochs = options.text, str(options.threads), str(options.epochs)
    programs: dict[str, Callable[[], float]] = {}
    is_skipgram = str(int(part != "cbow"))
    if options.peers and part != "subwords":
        command = [options.peers, "-c", _GENSIM, path, threads, epochs, is_skipgram, str(seed), folder / "gensim.vec"]
        programs["gensim"] = lambda: float(json.loads(output(command)))
    if options.word2vec and part != "subwords":
        shape = ["-size", "100", "-window", "5", "-negative", "5", "-sample", str(SAMPLE), "-min-count", "5"]
        kind = ["-cbow", str(int(part == "cbow")), "-alpha", "0.05" if part == "cbow" else "0.025"]
        given = ["-train", path, "-output", folder / "word2vec.vec", "-threads", threads, "-iter", epochs]
        programs["word2vec.c"] = lambda: (
            options.threads
            * 1000
            * last(r"Words/thread/sec: ([\d.]+)k", output([options.word2vec, *given, *shape, *kind]))
        )
    if options.peers and part == "subwords":
        trained = [options.peers, "-c", _FASTTEXT, path, threads, epochs, str(seed), folder / "fasttext.bin"]
        programs["fastText"] = lambda: options.threads * last(r"words/sec/thread:\s*(\d+)", output(trained))
    return programs


def together(options: argparse.Namespace, folder: Path) -> None:
    """Counting, from a text to the file that GloVe's programs read; and whole commands, with start and vocabulary."""
    target = folder / "ours.bin"
    command = [*chainrule_command(options), "count", options.text, "-o", target, "--window", "15"]
    command += ["--tokenizer", "whitespace", "--markers", "skip", "--overwrite"]

    def count() -> None:
        config = chainrule.CooccurrenceConfig(window=15)
        counted = chainrule.count_cooccurrences(options.text, config, tokenizer=WORDS, markers="skip", progress=False)
        counted.save(target, overwrite=True, progress=False)

    programs: dict[str, dict[str, Callable[[], Any]]] = {
        "counting": {"chainrule": count},
        "counting, whole commands": {"chainrule": lambda: output(command)},
    }
    if options.glove:
        vocabulary, counting = cooccur(options, folder)
        programs["counting"]["GloVe"] = lambda: timed_shell(counting)
        programs["counting, whole commands"]["GloVe"] = lambda: timed_shell(f"{vocabulary} && {counting}")
        timed_shell(vocabulary)
    count()
    for what, works in programs.items():
        medians = {name: statistics.median(elapsed(work) for _ in range(options.runs)) for name, work in works.items()}
        report(what, medians, "s", inverse=True)


def cooccur(options: argparse.Namespace, folder: Path) -> tuple[str, str]:
    """The commands that write GloVe's vocabulary, and its co-occurrences."""
    tools, vocabulary = options.glove, folder / "vocab.txt"
    return (
        f"{tools}/vocab_count -min-count 5 < {options.text} > {vocabulary} 2> /dev/null",
        f"{tools}/cooccur -memory 4 -vocab-file {vocabulary} -window-size 15 < {options.text} "
        f"> {folder}/cooccur.bin 2> /dev/null",
    )


def glove(options: argparse.Namespace, folder: Path) -> None:
    """Pairs a second of training, and the cost of each pass."""
    passes = max(3, options.epochs)
    config = VectorsConfig(method="glove", epochs=passes)
    chainrule.train_vectors(options.text, VectorsConfig(method="glove", epochs=1), tokenizer=WORDS, markers="skip")
    records = [
        chainrule.train_vectors(options.text, config, tokenizer=WORDS, markers="skip", progress=False).record
        for _ in range(options.runs)
    ]
    rates = {"chainrule": statistics.median(record["words_per_second"] for record in records)}
    print("cost by pass, chainrule:", ", ".join(f"{cost:.6f}" for cost in records[0]["losses"]))
    if options.glove:
        timed_shell(" && ".join(cooccur(options, folder)))
        tools, shuffled = options.glove, folder / "shuffled.bin"
        timed_shell(f"{tools}/shuffle -memory 4 < {folder}/cooccur.bin > {shuffled} 2> /dev/null")
        pairs = shuffled.stat().st_size / 16
        command = (
            f"{tools}/glove -input-file {shuffled} -vocab-file {folder}/vocab.txt -save-file {folder}/glove "
            f"-vector-size 100 -threads {options.threads} -iter {passes} -seed 1"
        ).split()
        seconds = statistics.median(timed(command) for _ in range(options.runs))
        rates["GloVe"] = passes * pairs / seconds  # with reading the vocabulary and writing the vectors
        print("cost by pass, GloVe:", ", ".join(re.findall(r"cost: ([\d.]+)", output(command))))
    report("glove", rates, "pairs/s")


def nearest(options: argparse.Namespace, folder: Path) -> None:
    """The time of the ten nearest, and of opening."""
    ours("skipgram", options, folder / "ours", epochs=1)
    opening = min(elapsed(lambda: chainrule.load_vectors(folder / "ours")) for _ in range(10))
    vectors = chainrule.load_vectors(folder / "ours")
    vectors.nearest("man")
    asked = statistics.median(elapsed(lambda: vectors.nearest("man")) for _ in range(100))
    print(
        f"{len(vectors):,} words: opened in {1000 * opening:.1f} ms, ten nearest in {1000 * asked:.2f} ms", flush=True
    )


def quality(options: argparse.Namespace, folder: Path) -> None:
    """Correlations and analogies of ours, seed by seed, and of the peers'."""
    print("| what | words/s | MEN | WS-353 | SimVerb | grammar | family |\n|---|---:|---:|---:|---:|---:|---:|")
    for part, seed in itertools.product(options.methods, options.seeds):
        programs: dict[str, Callable[[], float]] = {
            "chainrule": partial(ours, part, options, folder / "ours", seed=seed)
        }
        programs |= peers(part, options, folder, seed)
        for name in [name for name in options.programs if name in programs]:
            if name == "word2vec.c" and seed != options.seeds[0]:  # it has one seed, and takes long
                continue
            measure(f"{part}, {name}, seed {seed}", programs[name](), folder / FILES[name], options)


def measure(name: str, rate: float, path: Path, options: argparse.Namespace) -> None:
    found = chainrule.evaluate_vectors(
        chainrule.load_vectors(path), similarity=options.similarity, analogies=options.analogies
    )
    sets = {one.name: one.spearman for one in found.similarity}
    shares = {one.section: one.share for one in found.analogies}
    figures = [next(value for key, value in sets.items() if part in key) for part in ("MEN", "WS-353-ALL", "SimVerb")]
    cells = [f"{rate:,.0f}", *(f"{figure:.3f}" for figure in figures)]
    print(f"| {name} | {' | '.join(cells)} | {shares['all of grammar']:.1%} | {shares['family']:.1%} |", flush=True)


def report(what: str, figures: dict[str, float], unit: str, *, inverse: bool = False) -> None:
    first = figures["chainrule"]
    for name, figure in figures.items():
        times = figure / first if inverse else first / figure
        shown = f"{figure:,.2f}" if inverse else f"{figure:,.0f}"
        print(f"{what}: {name} {shown} {unit}" + ("" if name == "chainrule" else f", {times:.2f} times"), flush=True)


def chainrule_command(options: argparse.Namespace) -> list[Any]:
    import sys

    return [sys.executable, "-m", "chainrule", "--threads", str(options.threads)]


def output(command: list[Any]) -> str:
    """What a command prints, on both streams."""
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def last(pattern: str, text: str) -> float:
    return float(re.findall(pattern, text)[-1])


def timed(command: list[Any]) -> float:
    return elapsed(lambda: output(command))


def timed_shell(command: str) -> float:
    return elapsed(lambda: subprocess.run(command, shell=True, check=True))


def elapsed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
