"""Kneser-Ney on Spark against the local engine: seconds, the memory of processes, and whether the models are the same.

python bench/spark.py train.txt --master local[2] --partitions 1 2 7
python bench/spark.py large.txt --shards 8 --memory 1g --run-tokens 1000000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from machine import circumstances

import chainrule
from chainrule.api.editing.convert import in_shards
from chainrule.spark import local_session


def saved_data(model: chainrule.Model, folder: Path) -> set[str]:
    """The names of a model's arrays, which are their digests."""
    model.save(folder, overwrite=True)
    return {path.name for path in folder.iterdir() if path.suffix == ".safetensors"}


class Peaks:
    """The peak memory of the processes below this one, by what they are, read twice a second while they live."""

    def __init__(self) -> None:
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
                if parent == os.getpid() and own != parent:
                    self.bytes[name] = max(self.bytes[name], 1024 * int(peak[0]))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {self.bytes[kind] / 1e9:.2f} GB" for kind in ("java", "python"))


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
        folder = Path(name)
        began = time.perf_counter()
        local = chainrule.train(arguments.text, config)
        seconds = time.perf_counter() - began
        print(f"{local.record['tokens']:,} tokens, n-grams {local.record['ngrams']}", flush=True)
        if arguments.shards is not None:
            local = in_shards(local, arguments.shards)
        expected = saved_data(local, folder / "local")
        del local
        print("| engine | merging tasks | seconds | same bytes | peak memory |\n|---|---|---|---|---|")
        print(f"| local | | {seconds:.1f} | | |", flush=True)
        for partitions in arguments.partitions:
            began = time.perf_counter()
            with Peaks() as peaks, local_session(arguments.master, memory=arguments.memory) as session:
                model = chainrule.spark.train(
                    session,
                    arguments.text,
                    config,
                    shards=arguments.shards,
                    partitions=partitions or None,
                    run_tokens=arguments.run_tokens,
                )
            seconds = time.perf_counter() - began
            is_same = "yes" if saved_data(model, folder / "spark") == expected else "NO"
            parts = model.record["spark"]["partitions"]
            print(f"| Spark {arguments.master} | {parts} | {seconds:.1f} | {is_same} | {peaks} |", flush=True)
            del model


if __name__ == "__main__":
    main()
