"""Two processes that share out a network's weights learn what one learns, and resume from each other's checkpoints."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from traceback import StackSummary
from typing import TYPE_CHECKING, cast

import pytest
import torch
from training_runs import QUICK, RECURRENT, forking_context, numbers, trained

import chainrule
from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.neural.config import TransformerConfig
from chainrule.training import run
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.distributed import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    from chainrule.training.config import TrainingConfig
    from chainrule.training.distributed import Sharding
    from chainrule.training.reports import Report

# Five layers and hidden layers of 25 units do not divide evenly between two processes; the output is the embedding.
DEEP = TransformerConfig(layers=5, width=12, heads=2, context=8, dropout=0.0, tied=True, feed_forward_width=25)
SHARDED = replace(QUICK, steps=20, save_every=10, validate_every=5, ema=0.9, accumulate=2, recompute=True, shard=True)


class StoppedError(Exception):
    """The run ends here, as if it had been killed."""


@contextmanager
def stopped_at(step: int) -> Iterator[None]:
    """Runs are killed once they have saved the checkpoint of a step."""
    save = run._RunningJob._save

    def saving(job: run._RunningJob, *, is_new_best: bool = False) -> None:
        save(job, is_new_best=is_new_best)
        if job.trainer.step == step:
            raise StoppedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run._RunningJob, "_save", saving)
        yield


def deep(training: TrainingConfig, folder: Path, *, resume: bool = False) -> torch.nn.Module:
    """A network of five layers, trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "leave_processes", lambda: None)  # several runs follow one another
        network, _, _ = trained(DEEP, training, folder=folder, resume=resume)
    return network


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `run_sharded` in two processes, after a run in this process was stopped at step 10."""
    folder = tmp_path_factory.mktemp("runs")
    with stopped_at(10), pytest.raises(StoppedError):
        deep(replace(SHARDED, shard=False), folder / "one")
    processes = [forking_context().Process(target=run_sharded, args=(rank, folder)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    return folder


def run_sharded(rank: int, folder: Path) -> None:
    """What each of two processes does, as if torchrun had started it: runs of a Transformer, one after the other.

    folder: has the checkpoint of a run in one process that was stopped.
    """
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    meeting = f"file://{folder / 'meeting'}"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)  # once for all runs
    torch.set_num_threads(1)
    chainrule.set_threads(1)
    with stopped_at(10), suppress(StoppedError):
        deep(SHARDED, folder / "two")
    if rank == 0:
        shutil.copytree(folder / "two", folder / "sharded")
    torch.distributed.barrier()
    networks = {
        "sharded": deep(SHARDED, folder / "sharded", resume=True),
        "copies": deep(replace(SHARDED, shard=False), folder / "copies"),
        "resumed": deep(SHARDED, folder / "one", resume=True),
    }
    if rank == 0:
        for name, network in networks.items():
            torch.save(network.state_dict(), folder / f"{name}.pt")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights after 20 steps in one process."""
    return deep(replace(SHARDED, shard=False), tmp_path_factory.mktemp("alone")).state_dict()


@pytest.mark.thorough
def test_two_processes_are_as_good_as_one(runs: Path, alone: dict[str, torch.Tensor]) -> None:
    """One test, for which the two processes are started once, wherever tests are run."""
    check_what_two_learn(runs, alone)
    check_that_one_goes_on(runs / "two", alone)
    check_that_the_best_weights_remain(runs / "two")
    check_that_a_lost_shard_is_named(runs / "two")


def check_what_two_learn(runs: Path, alone: dict[str, torch.Tensor]) -> None:
    """Whether they share out the weights, have copies of them, or share them out after one process did ten steps."""
    for name in ("sharded", "copies", "resumed"):
        torch.testing.assert_close(torch.load(runs / f"{name}.pt"), alone, rtol=0, atol=1e-5, msg=name)


def check_that_one_goes_on(stopped: Path, alone: dict[str, torch.Tensor]) -> None:
    """Where two had shared out the weights, in ten of twenty steps."""
    network = deep(replace(SHARDED, shard=False), copied(stopped), resume=True)
    torch.testing.assert_close(network.state_dict(), alone, rtol=0, atol=1e-5)


def check_that_the_best_weights_remain(stopped: Path) -> None:
    """Where a share of the last ones is damaged."""
    folder = copied(stopped)
    shard = next((folder / "checkpoints").glob("last-*/shard-00002*"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    reports: list[Report] = []
    trained(DEEP, replace(SHARDED, shard=False), folder=folder, resume=True, told=reports.append)
    assert shard.name in (reports[0].note or "")
    assert "the run continues from the best weights" in (reports[0].note or "")


def check_that_a_lost_shard_is_named(stopped: Path) -> None:
    folder = copied(stopped)
    for shard in (folder / "checkpoints").glob("*/shard-00001*"):
        shard.unlink()
    with pytest.raises(ModelFormatError, match=r"shard-00001.*: cannot be read: No such file.*incomplete"):
        deep(SHARDED, folder, resume=True)


def copied(folder: Path) -> Path:
    """A copy of a run's folder, so that a test may go on with it."""
    return Path(shutil.copytree(folder, tempfile.mkdtemp(dir=folder.parent), dirs_exist_ok=True))


def test_a_full_disk_leaves_no_half_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.checkpoint import state_dict_saver  # takes a second to import
    from torch.distributed.checkpoint.api import CheckpointException

    def fail(tensors: dict[str, torch.Tensor], storage_writer: HuggingFaceStorageWriter) -> None:
        Path(storage_writer.path).mkdir(parents=True)
        raise CheckpointException("write", {1: (OSError(28, "No space left on device"), StackSummary())})

    monkeypatch.setattr(state_dict_saver, "save", fail)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with pytest.raises(OutputError, match=r"process 1: .*No space left on device; there is no earlier one. Make room"):
        checkpoints.write_shards("last", {"weight": torch.zeros(3)}, Processes())
    assert not list(checkpoints.folder.iterdir())


def test_recomputed_activations_change_nothing_but_memory() -> None:
    """Bit for bit, with dropout; of each block only the inputs are kept."""
    config = replace(DEEP, dropout=0.2)
    kept: dict[bool, int] = {}
    weights: dict[bool, bytes] = {}
    for recompute in (False, True):
        training = replace(QUICK, steps=2, recompute=recompute)
        sizes: list[int] = []

        def pack(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            network, _, _ = trained(config, training)
        kept[recompute], weights[recompute] = sum(sizes), numbers(network)
        assert not any("forward" in vars(module) for module in network.modules())
    assert weights[True] == weights[False]
    assert kept[True] < kept[False] / 2


@pytest.mark.parametrize("setting", ["shard", "recompute"])
def test_only_transformers_have_blocks(setting: str) -> None:
    with pytest.raises(SettingError, match=f"{setting} is for Transformers"):
        trained(RECURRENT, replace(QUICK, **{setting: True}))


def test_parts_are_taken_in_turn() -> None:
    """Of five parts, three processes that share out weights take two each; one of them does not count."""
    sharding = cast("Sharding", object())
    turns = [list(Processes(rank, 3, sharding).turns(range(5))) for rank in range(3)]
    assert turns == [[(0, True), (3, True)], [(1, True), (4, True)], [(2, True), (3, False)]]
    assert [list(Processes(rank, 3).turns(range(5))) for rank in (1, 2)] == [[(1, True), (4, True)], [(2, True)]]
