"""Kneser-Ney on Spark against the local engine: seconds, and whether the models are the same.

python bench/spark.py train.txt --master local[2] --partitions 1 2 7 -o results.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from machine import circumstances

import chainrule
from chainrule.spark import local_session


def saved_data(model: chainrule.Model, folder: Path) -> set[str]:
    """The names of a model's arrays, which are their digests."""
    model.save(folder, overwrite=True)
    return {path.name for path in folder.iterdir() if path.suffix == ".safetensors"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--memory", default="2g", help="of Spark's Java process")
    parser.add_argument("--run-tokens", type=int, default=1 << 21)
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
        expected = saved_data(local, folder / "local")
        print(f"{local.record['tokens']:,} tokens, n-grams {local.record['ngrams']}", flush=True)
        print("| engine | merging tasks | seconds | same bytes |\n|---|---|---|---|")
        print(f"| local | | {seconds:.1f} | |", flush=True)
        del local
        for partitions in arguments.partitions:
            began = time.perf_counter()
            with local_session(arguments.master, memory=arguments.memory) as session:
                model = chainrule.spark.train(
                    session,
                    arguments.text,
                    config,
                    partitions=partitions or None,
                    run_tokens=arguments.run_tokens,
                )
            seconds = time.perf_counter() - began
            is_same = saved_data(model, folder / "spark") == expected
            parts = model.record["spark"]["partitions"]
            print(f"| Spark {arguments.master} | {parts} | {seconds:.1f} | {'yes' if is_same else 'NO'} |", flush=True)
            del model


if __name__ == "__main__":
    main()
