"""What torchrun starts in test_sharding.py: runs of a Transformer in two processes, one after the other.

Arguments: a folder, which has the checkpoint of a run in one process that was stopped.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from test_sharding import SHARDED, StoppedError, deep, stopped_at

import chainrule

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")  # once for all runs
    is_first = torch.distributed.get_rank() == 0
    chainrule.set_threads(1)
    folder = Path(sys.argv[1])
    with stopped_at(10), suppress(StoppedError):
        deep(SHARDED, folder / "two")
    if is_first:
        shutil.copytree(folder / "two", folder / "sharded")
    torch.distributed.barrier()
    networks = {
        "sharded": deep(SHARDED, folder / "sharded", resume=True),
        "copies": deep(replace(SHARDED, shard=False), folder / "copies"),
        "resumed": deep(SHARDED, folder / "one", resume=True),
    }
    if is_first:
        for name, network in networks.items():
            torch.save(network.state_dict(), folder / f"{name}.pt")
