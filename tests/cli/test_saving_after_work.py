"""Another process writes a model where this one is going to: what was trained is not lost, and nothing is replaced."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import chainrule as library
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from command_line import Result

NETWORK = ("--tokenizer", "character", "--steps", 2, "--layers", 1, "--width", 16, "--context", 16)
VERBS = {
    "ngram": ("chainrule.verbs.training.train.train", ["train", "ngram", "{corpus}"], "lm"),
    "arpa": ("chainrule.verbs.training.train.train", ["train", "ngram", "{corpus}"], "lm.arpa.gz"),
    "network": ("chainrule.verbs.training.train.train", ["train", "transformer", "{corpus}", *NETWORK], "lm"),
    "prune": ("chainrule.verbs.prune.prune_by_entropy", ["prune", "{model}", "--to-ngrams", "1000"], "lm"),
    "mix": ("chainrule.verbs.mix.mix", ["mix", "{model}", "--cache", "100"], "lm"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_model_that_appears_during_training_is_kept_and_the_new_one_too(
    chainrule: Callable[..., Result],
    model: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
) -> None:
    work, command, name = VERBS[verb]
    module, function = work.rsplit(".", 1)
    target, beside = tmp_path / name, tmp_path / name.replace("lm", "lm-2")
    long_work = getattr(pytest.importorskip(module), function)

    def while_another_is_first(*arguments: Any, **more: Any) -> Any:
        made = long_work(*arguments, **more)
        shutil.copytree(model, target, dirs_exist_ok=True) if name == "lm" else target.write_bytes(b"another")
        return made

    monkeypatch.setattr(work, while_another_is_first)
    filled = [str(each).format(corpus=corpus, model=model) for each in command]
    result = chainrule(*filled, "-o", target)
    assert result.status == 1
    assert f"The model is not lost: it was saved as {beside}" in result.err
    assert library.load(beside).generate("", 1, seed=1)
    if name == "lm":
        assert (target / "config.json").read_bytes() == (model / "config.json").read_bytes()
    else:
        assert target.read_bytes() == b"another"


def test_a_run_that_waited_asks_again_before_it_trains(
    chainrule: Callable[..., Result], model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Checkpoints.lock

    @contextmanager
    def after_another_has_ended(own: Checkpoints) -> Iterator[None]:
        shutil.copytree(model, tmp_path / "lm", dirs_exist_ok=True)
        with lock(own):
            yield

    monkeypatch.setattr(Checkpoints, "lock", after_another_has_ended)
    monkeypatch.setattr(Trainer, "run", lambda *_: pytest.fail("trained, to be refused"))
    for more in ([], ["--resume"]):
        result = chainrule("train", "transformer", corpus, *NETWORK, "-o", tmp_path / "lm", *more)
        assert result.status == 1
        assert "there is a model already" in result.err
        shutil.rmtree(tmp_path / "lm")
