"""DPO: its loss and gradient by the formula with whole log-probabilities, files of pairs, runs that resume."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.preferences.answers import read_preferences
from chainrule.features.preferences.objective import Pair, Preferences, Row
from chainrule.neural.adapters import adapter_arrays, adapter_matrices, add_adapters
from chainrule.protocol import UNKNOWN
from chainrule.training.config import TrainingConfig
from chainrule.training.defaults import Recipe
from chainrule.training.device import machine_for
from chainrule.training.distributed import Processes
from chainrule.training.job import Setup

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "bit", "a", "man"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A network in lm/, and pairs whose chosen answers end in "man"."""
    (tmp_path / "text.txt").write_text("\n".join([" ".join(WORDS)] * 40))
    config = chainrule.TransformerConfig(layers=2, width=16, heads=2, context=32)
    training = chainrule.TrainingConfig(steps=3, batch=2)
    chainrule.train(tmp_path / "text.txt", config, training=training).save(tmp_path / "lm")
    rows = [
        {"prompt": " ".join(WORDS[: 2 + i % 4]), "chosen": "bit a man", "rejected": f"{WORDS[i % 7]} sat on"}
        for i in range(24)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def naive_log_prob(network: Any, row: Row) -> torch.Tensor:
    tokens = torch.from_numpy(row.tokens)
    log_probs = network.output.log_probs(network.read(tokens[None, :-1])[0])[0]
    return sum(log_probs[i, tokens[i + 1]] for i in range(row.prompt - 1, len(tokens) - 1))  # type: ignore[return-value]


@pytest.mark.parametrize("banned", [(), (UNKNOWN,)], ids=["with <unk>", "without <unk>, as byte-level tokenizers"])
def test_loss_and_gradient_are_those_of_the_formula(banned: tuple[int, ...], folder: Path) -> None:
    network, other = (chainrule.load(folder / "lm", chainrule.CausalNetwork).engine.network for _ in range(2))
    for each in (network, other):
        each.output.never[list(banned)] = -torch.inf
    add_adapters(network, 2, 2.0)
    training, rng = TrainingConfig(steps=1, seed=1, precision="float32"), np.random.default_rng(0)
    setup = Setup(training, Recipe(4, 1e-3, 1e-3, 0), machine_for(training), Processes())

    def row(length: int, prompt: int) -> Row:
        return Row(np.concatenate([[2], rng.integers(3, 9, length), [2]]), prompt)

    pairs = [Pair(row(3 + i, 2), row(7 - i, 2)) for i in range(4)]
    objective = Preferences(network, network, setup, pairs, pairs, 0.3, {})
    for matrix in adapter_matrices(network):
        torch.nn.init.normal_(matrix, std=0.5)
    [part] = objective.parts(0)
    loss = objective.loss(0, part, network, 0.0)
    loss.backward()
    found = [matrix.grad.clone() for matrix in adapter_matrices(network) if matrix.grad is not None]
    network.zero_grad()
    nats = []
    for pair in pairs:
        gains = [naive_log_prob(network, own) - naive_log_prob(other, own).detach() for own in pair]
        nats.append(-torch.log(torch.sigmoid(0.3 * (gains[0] - gains[1]))))
    torch.stack(nats).sum().backward()  # type: ignore[no-untyped-call]
    total = float(torch.stack(nats).detach().sum())
    assert float(loss.detach()) == pytest.approx(total, rel=1e-5)
    for matrix, own in zip(adapter_matrices(network), found, strict=True):
        torch.testing.assert_close(own, matrix.grad, rtol=1e-4, atol=1e-6)
    validated = objective.validate(10**6)
    assert validated.loss == pytest.approx(total / 4, rel=1e-5)
    assert validated.figures["accuracy"] == sum(float(each.detach()) < math.log(2) for each in nats) / 4


@pytest.mark.parametrize("lora", [None, 2])
def test_a_network_learns_what_is_preferred_and_resumes(lora: int | None, folder: Path) -> None:
    training = chainrule.TrainingConfig(steps=6, batch=4, learning_rate=0.01, save_every=2, validate_every=3)
    options: dict[str, Any] = {"preferred": folder / "pairs.jsonl", "lora": lora, "training": training}

    def stop(report: Any) -> None:
        if report.step == 3:
            raise KeyboardInterrupt

    whole = chainrule.adapt(folder / "lm", **options)
    before = chainrule.load(folder / "lm")
    text = ["the cat sat bit a man", "the cat sat the sat on"]
    gained = np.subtract(*whole.score(text)) - np.subtract(*before.score(text))
    assert gained > 0
    assert whole.record["validation"]["loss"] < math.log(2)
    with pytest.raises(KeyboardInterrupt):
        chainrule.adapt(folder / "lm", folder=folder / "run", on_report=stop, **options)
    with pytest.raises(SettingError, match=r"beta was 0\.1 and is 0\.2"):
        chainrule.adapt(folder / "lm", folder=folder / "run", resume=True, beta=0.2, **options)
    resumed = chainrule.adapt(folder / "lm", folder=folder / "run", resume=True, **options)
    assert resumed.score(text).tolist() == whole.score(text).tolist()
    if lora:
        one, two = (adapter_arrays(model.engine.network) for model in (whole, resumed))
        assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"prompt": "a", "chosen": "b"}, r"line 2: there is no field 'rejected'.*'prompt', 'chosen'"),
        ({"prompt": "a", "chosen": "b", "rejected": 3}, "'rejected' is 3.*expected a text"),
        (
            {"prompt": [{"role": "user", "content": "a"}], "chosen": [], "rejected": "b"},
            r"'chosen' is \[\]; expected the text of one message of the assistant",
        ),
    ],
)
def test_a_file_that_is_wrong_says_where(record: dict[str, Any], message: str, tmp_path: Path) -> None:
    good = {"prompt": "a", "chosen": "b", "rejected": "c"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(good) + "\n" + json.dumps(record) + "\n")
    with pytest.raises(TextError, match=message):
        read_preferences(str(tmp_path / "pairs.jsonl"))


def test_messages_are_read_as_chats(tmp_path: Path) -> None:
    user, answers = {"role": "user", "content": "Hi"}, [{"role": "assistant", "content": text} for text in "ab"]
    record = {"prompt": [user], "chosen": [answers[0]], "rejected": [answers[1]]}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(record))
    [pair] = read_preferences(str(tmp_path / "pairs.jsonl"))
    assert (pair.prompt, pair.chosen, pair.rejected) == ((user,), "a", "b")


def test_what_does_not_go_together_is_refused(folder: Path) -> None:
    with pytest.raises(SettingError, match="a text, or preferred"):
        chainrule.adapt(folder / "lm")
    with pytest.raises(SettingError, match="a text and preferred are both given"):
        chainrule.adapt(folder / "lm", folder / "text.txt", preferred=folder / "pairs.jsonl")
    (folder / "empty.jsonl").write_text("")
    with pytest.raises(TextError, match="there is no pair in it"):
        chainrule.adapt(folder / "lm", preferred=folder / "empty.jsonl")
    long = {"prompt": " ".join(WORDS * 9), "chosen": "bit", "rejected": "sat"}
    (folder / "long.jsonl").write_text(json.dumps(long))
    with pytest.raises(TextError, match="no pair fits the network's context of 32 tokens"):
        chainrule.adapt(folder / "lm", preferred=folder / "long.jsonl")
    (folder / "long.jsonl").write_text(json.dumps({**long, "prompt": [{"role": "user", "content": "a"}]}))
    with pytest.raises(TextError, match=r"long.jsonl, line 1: .* no chat template"):
        chainrule.adapt(folder / "lm", preferred=folder / "long.jsonl")
