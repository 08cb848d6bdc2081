"""Fuzzing for as long as one likes:  python tests/fuzz/campaign.py SECONDS [SEED]

Each case is a broken model that a process of its own has to survive, with a limit on its time and its memory, and with
every index of a kernel checked. What it did not survive is kept in fuzz-findings/, each with its number.
"""

from __future__ import annotations

import gzip
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from mutations import broken_arpa, broken_binary, broken_folder, broken_open_model, broken_vectors
from open_models import open_models
from tellers import tellers

import chainrule

HANGS_AFTER = 30.0  # seconds
FIXTURES = Path(__file__).parent.parent / "fixtures"
KEPT_IN = Path("fuzz-findings")


class Victim:
    """The process of victim.py, started anew where it died."""

    def __init__(self, **environment: str) -> None:
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *args: object) -> None:
        self.end()

    def answer(self, path: Path) -> str:
        """`fine`, `refused ...`, or what is a finding: `wrong ...`, `died ...`, `hung`."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("victim.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                text=True,
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == "ready\n"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # dead: then there is no answer, either
            print(path, file=self._process.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(HANGS_AFTER):
                self.end()
                return "hung"
        line = self._process.stdout.readline().rstrip("\n")
        if not line:
            status = self._process.wait()
            self.end()
            return f"died with status {status}"
        return line

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Cases:
    """Broken models by number, made from a few whole ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = chainrule.Lines(["a b c d", "b a", "the a b c d e f g", "a b a b", "日本 a", "c a x b"] * 3)
        self.models = []
        for name, config, tokenizer in (
            ("trigram", chainrule.NGramConfig(order=3), "word"),
            ("characters", chainrule.NGramConfig(order=5), "character"),
            ("unigram", chainrule.NGramConfig(order=1), "whitespace"),
            ("uniform", chainrule.UniformConfig(), "whitespace"),
            ("pieces", chainrule.NGramConfig(order=2), chainrule.TokenizerConfig(kind="bpe", vocabulary_size=300)),
        ):
            chainrule.train(lines, config, tokenizer=tokenizer).save(folder / name)
            self.models.append(folder / name)
        for name in ("trigram", "characters"):
            chainrule.load(folder / name).compact().save(folder / f"compact-{name}")
            self.models.append(folder / f"compact-{name}")
        chainrule.load(folder / "trigram").save(folder / "trigram.arpa")
        self.arpas = [
            (folder / "trigram.arpa").read_bytes(),
            gzip.decompress((FIXTURES / "order1.arpa.gz").read_bytes()),
        ]
        self.vectors = self._vectors(lines)
        self.open_models = open_models(folder / "open", FIXTURES / "tok512.bin")
        self.tellers = tellers(folder / "tellers")
        self.binaries = [path.read_bytes() for path in sorted((FIXTURES / "kenlm").glob("*.binary"))]

    def _vectors(self, lines: chainrule.Lines) -> list[Path]:
        """Folders and files of word vectors, in a folder of their own, by which the victim knows them."""
        place = self.folder / "vectors"
        place.mkdir()
        paths = []
        for name, config in (
            ("words", chainrule.VectorsConfig(dimensions=3, epochs=1)),
            ("subwords", chainrule.VectorsConfig(dimensions=3, epochs=1, subwords="1-3", buckets=40)),
        ):
            vectors = chainrule.train_vectors(
                lines, config, tokenizer=chainrule.TokenizerConfig(kind="whitespace", min_count=1), progress=False
            )
            paths += [place / name, *(place / f"{name}{suffix}" for suffix in (".vec", ".txt", ".bin"))]
            for path in paths[-4:]:
                vectors.save(path)
        return paths

    def case(self, number: int) -> Path:
        random = np.random.default_rng(number)
        if random.integers(4) == 0:
            path = self.open_models[random.integers(len(self.open_models))]
            return broken_open_model(random, path, self.folder / "open")
        if random.integers(8) == 0:
            return broken_folder(random, self.tellers[random.integers(len(self.tellers))], self.folder / "tellers")
        if random.integers(6) == 0:
            path = self.vectors[random.integers(len(self.vectors))]
            return (broken_folder if path.is_dir() else broken_vectors)(random, path, path.parent)
        if random.integers(3) == 0:
            if random.integers(3) == 0:
                return broken_binary(random, self.binaries[random.integers(len(self.binaries))], self.folder)
            return broken_arpa(random, self.arpas[0 if random.integers(4) else 1], self.folder)
        return broken_folder(
            random, self.models[random.choice(7, p=[0.25, 0.15, 0.1, 0.05, 0.2, 0.15, 0.1])], self.folder
        )


def is_finding(answer: str) -> bool:
    return answer.split()[0] in ("wrong", "died", "hung")


def main(seconds: float, seed: int) -> int:
    """The number of findings."""
    outcomes: Counter[str] = Counter()
    # With bounds checked, kernels are others, and numba does not know that those it finds compiled are not checked.
    checked = {"NUMBA_BOUNDSCHECK": "1", "CHAINRULE_CACHE": str(Path(tempfile.gettempdir()) / "chainrule-bounds")}
    with tempfile.TemporaryDirectory() as folder, Victim(**checked) as victim:
        cases = Cases(Path(folder))
        number = seed
        print("compiling kernels that check their indices: a minute, once", flush=True)
        victim.answer(cases.models[0])
        began = told = time.monotonic()
        while time.monotonic() - began < seconds:
            path = cases.case(number)
            answer = victim.answer(path)
            outcomes[answer.split()[0]] += 1
            if is_finding(answer):
                kept = KEPT_IN / f"{number}{path.name.removeprefix('broken')}"
                KEPT_IN.mkdir(exist_ok=True)
                (shutil.copytree if path.is_dir() else shutil.copy)(path, kept)
                print(f"case {number}: {answer}; kept as {kept}", flush=True)
            number += 1
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(f"{told - began:.0f} of {seconds:.0f} s: {_summary(outcomes)}", flush=True)
    print(f"{number - seed} cases from {seed} on: {_summary(outcomes)}")
    return sum(count for outcome, count in outcomes.items() if is_finding(outcome))


def _summary(outcomes: Counter[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())) > 0)
