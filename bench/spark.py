"""Kneser-Ney on Spark against the local engine: seconds, memory, disk, and whether the models are the same.

python bench/spark.py train.txt --master local[2] --partitions 1 2 7
python bench/spark.py large.txt --shards 16 --memory 1g
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

from machine import circumstances

import chainrule
from chainrule.spark import local_session
from chainrule.verbs.convert import in_shards


def saved_data(model: chainrule.Model, folder: Path) -> set[str]:
    """The names of a model's arrays, which are their digests; the folder is gone afterwards."""
    model.save(folder)
    names = {path.name for path in folder.iterdir() if path.suffix == ".safetensors"}
    shutil.rmtree(folder)
    return names


def train_here(
    text: str, config: chainrule.NGramConfig, shards: int | None, folder: Path
) -> tuple[float, str, set[str]]:
    """The seconds of the local engine, what the model has, and `saved_data` of it; for a process of its own."""
    began = time.perf_counter()
    model = chainrule.train(text, config)
    seconds = time.perf_counter() - began
    size = f"{model.record['tokens']:,} tokens, n-grams {model.record['ngrams']}"
    return seconds, size, saved_data(model if shards is None else in_shards(model, shards), folder)


class Peaks:
    """The peak memory of this process and those below it, and of files in a folder, read twice a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes: dict[str, int] = defaultdict(int)
        self._stop = threading.Event()

    def __enter__(self) -> Peaks:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            processes = {}
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    lines = (folder / "status").read_text().splitlines()
                    fields = {name: value.split() for name, value in (line.split(":", 1) for line in lines)}
                    processes[int(folder.name)] = int(fields["PPid"][0]), fields["Name"][0], fields.get("VmHWM", ["0"])
            for own, (parent, name, peak) in processes.items():
                while parent not in (0, os.getpid()) and parent in processes:
                    parent = processes[parent][0]
                if own == os.getpid() or parent == os.getpid():
                    kind = "driver" if own == os.getpid() else "Java" if name == "java" else "a worker"
                    self.bytes[kind] = max(self.bytes[kind], 1024 * int(peak[0]))
            self.bytes["disk"] = max(self.bytes["disk"], sum(map(_size, self.folder.glob("blockmgr-*/*/*"))))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {self.bytes[kind] / 1e9:.2f} GB" for kind in ("driver", "Java", "a worker", "disk"))


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--memory", default="2g", help="of Spark's Java process")
    parser.add_argument("--run-tokens", type=int, default=1 << 21)
    parser.add_argument(
        "--shards", type=int, help="estimate on the workers, and compare with the local model in shards"
    )
    parser.add_argument(
        "--partitions", type=int, nargs="*", default=[0], help="tasks that merge; 0: by the text's size"
    )
    arguments = parser.parse_args()
    config = chainrule.NGramConfig(order=arguments.order)
    print(circumstances())
    with tempfile.TemporaryDirectory() as name:
        folder = tempfile.tempdir = os.environ["TMPDIR"] = name
        with ProcessPoolExecutor(1) as other:
            local = other.submit(train_here, arguments.text, config, arguments.shards, Path(folder, "model"))
            seconds, size, expected = local.result()
        print(size, flush=True)
        print("| engine | merging tasks | seconds | same bytes | peaks |\n|---|---|---|---|---|")
        print(f"| local | | {seconds:.1f} | | |", flush=True)
        for partitions in arguments.partitions:
            began = time.perf_counter()
            with Peaks(Path(folder)) as peaks, local_session(arguments.master, memory=arguments.memory) as session:
                model = chainrule.spark.train(
                    session,
                    arguments.text,
                    config,
                    shards=arguments.shards,
                    partitions=partitions or None,
                    run_tokens=arguments.run_tokens,
                )
            seconds = time.perf_counter() - began
            is_same = "yes" if saved_data(model, Path(folder, "model")) == expected else "NO"
            parts = model.record["spark"]["partitions"]
            print(f"| Spark {arguments.master} | {parts} | {seconds:.1f} | {is_same} | {peaks} |", flush=True)
            del model


if __name__ == "__main__":
    main()
