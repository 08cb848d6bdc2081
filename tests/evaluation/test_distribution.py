"""Whether probabilities are a distribution: models that keep what they promise, and known ways of not doing so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule
from chainrule.errors import ServerError, SettingError
from chainrule.evaluation.distribution import check_distribution, check_server

LINES = ["the dog bit the man", "a cat saw the dog and the man", "the man ran away from the cat"] * 4


@pytest.fixture(scope="module")
def lm() -> chainrule.CausalModel:
    return chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3))


class Wrong:
    """A model that is spoilt in one way. The rest is the model's."""

    def __init__(self, model: Any, way: str) -> None:
        self._model, self._way = model, way

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def next_log_probs(self, state: Any) -> np.ndarray:
        rows = self._model.next_log_probs(state)
        if self._way == "mass of its own for each token":  # a count of a hashed bucket, divided by the bucket's
            rows = np.logaddexp(np.log(0.5) + rows, np.log(0.5 * 0.3))
            rows[:, 1] = -np.inf
        return rows.astype(np.float32)

    def score(self, sequences: Any, *, prefixes: Any = None, end: bool = True) -> list[np.ndarray]:
        rows = self._model.score(sequences, prefixes=prefixes, end=end)
        if self._way == "only the token that came":
            return [np.logaddexp(row + np.log(0.5), np.log(0.25)).astype(np.float32) for row in rows]
        if self._way == "what comes later":
            shifts = [0.001 * sequences[i][-1] if len(row) else 0 for i, row in enumerate(rows)]
            return [row + np.float32(shift) for row, shift in zip(rows, shifts, strict=True)]
        if self._way == "its neighbours":
            return [row + np.float32(0.01 * len(rows)) for row in rows]
        return rows


@pytest.mark.parametrize(
    ("way", "failing"),
    [
        ("", set()),
        ("mass of its own for each token", {"sum", "steps"}),
        ("only the token that came", {"steps"}),
        ("what comes later", {"steps", "later"}),
        ("its neighbours", {"steps", "neighbours"}),
    ],
)
def test_known_ways_of_being_no_distribution_are_found(lm: chainrule.CausalModel, way: str, failing: set[str]) -> None:
    texts = [lm.tokenizer.encode_texts([line]).ids[:-1] for line in LINES]
    checks = check_distribution(Wrong(lm.language_model, way), texts)  # type: ignore[arg-type]
    assert {check.name for check in checks.checks if check.holds is False} == failing
    assert checks.is_distribution == (not failing)
    assert ("NO" in str(checks)) == bool(failing)


def test_nan_and_a_predicted_beginning_are_no_distribution(lm: chainrule.CausalModel) -> None:
    class Nan(Wrong):
        def next_log_probs(self, state: Any) -> np.ndarray:
            rows = self._model.next_log_probs(state)
            rows[:, 1 if self._way == "begin" else 3] = -5.0 if self._way == "begin" else np.nan
            return rows

    texts = [lm.tokenizer.encode_texts([LINES[0]]).ids[:-1]]
    for way in ("begin", "nan"):
        [check, *_] = check_distribution(Nan(lm.language_model, way), texts).checks  # type: ignore[arg-type]
        assert check.holds is False


def test_mixtures_and_networks_are_distributions(lm: chainrule.CausalModel) -> None:
    other = chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=1))
    network = chainrule.train(
        chainrule.Lines(LINES * 4),
        chainrule.RecurrentConfig(layers=1, width=8),
        training=chainrule.TrainingConfig(steps=1, compile="no"),
    )
    for model in (chainrule.mix([lm, other]), network):
        assert chainrule.verify_distribution(model).is_distribution
        assert chainrule.verify_distribution(model, chainrule.Lines(LINES), contexts=3, seed=2).is_distribution


class Server:
    """OpenAI's completions of a model of words, spoilt or not. It splits texts at spaces."""

    def __init__(self, model: Any, way: str = "") -> None:
        self.model, self.way = model, way

    def row(self, words: list[str]) -> dict[str, float]:
        tokenizer, lm = self.model.tokenizer, self.model.language_model
        ids = tokenizer.encode_texts([" ".join(words)]).ids[:-1]
        [row] = lm.next_log_probs(lm.start([ids]))
        tokens = [token.decode() for token in tokenizer.vocabulary.tokens()]
        return {f" {token}": float(row[i]) for i, token in enumerate(tokens) if i > 2}

    def completions(self, body: Any) -> list[dict[str, Any]]:
        if self.way == "no echo" and body.get("echo"):
            raise ServerError("echo is not supported")
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        choices = []
        for prompt in prompts:
            words = prompt.split()
            if body.get("echo"):
                scores: list[float | None] = [None]
                for i in range(1, len(words)):
                    score = self.row(words[:i]).get(f" {words[i]}", -20.0)
                    if self.way == "only the token that came":
                        score = math.log(0.5 * math.exp(score) + 0.25)
                    scores.append(score - (0.1 * len(words) if self.way == "what comes later" else 0))
                tokens = [words[0], *(f" {word}" for word in words[1:])]
                choices.append({"logprobs": {"tokens": tokens, "token_logprobs": scores}})
            else:
                best = sorted(self.row(words).items(), key=lambda pair: -pair[1])[: body["logprobs"]]
                more = 1.0 if self.way == "too likely" else 0.0
                choices.append({"logprobs": {"top_logprobs": [{token: score + more for token, score in best}]}})
        return choices


@pytest.mark.parametrize(
    ("way", "failing", "untested"),
    [
        ("", set(), set()),
        ("no echo", set(), {"scores"}),
        ("too likely", {"sum", "steps"}, set()),
        ("only the token that came", {"scores", "steps"}, set()),
        ("what comes later", {"steps", "later"}, set()),
    ],
)
def test_servers_are_checked_as_far_as_they_tell(
    lm: chainrule.CausalModel, way: str, failing: set[str], untested: set[str]
) -> None:
    found = check_server(Server(lm, way), LINES, contexts=6)
    assert {check.name for check in found.checks if check.holds is False} == failing
    assert {check.name for check in found.checks if check.holds is None} == untested


class Answering:
    def __init__(self, choices: list[Any]) -> None:
        self.choices = choices

    def completions(self, body: Any) -> list[dict[str, Any]]:
        return self.choices


@pytest.mark.parametrize(
    "choices",
    [[], [{"logprobs": {"top_logprobs": "x"}}], [{"logprobs": {"top_logprobs": [{"a": None}]}}], [{"logprobs": "x"}]],
)
def test_servers_that_answer_nonsense_are_told(choices: list[Any]) -> None:
    with pytest.raises(ServerError, match="the answer"):
        check_server(Answering(choices), LINES, contexts=2)


def test_a_server_that_tells_nothing_proves_nothing() -> None:
    assert check_server(Answering([{}]), LINES, contexts=2).is_distribution is None
    impossible = {"logprobs": {"top_logprobs": [{" a": -math.inf}]}}
    assert check_server(Answering([impossible]), LINES, contexts=2).is_distribution is False


def test_wrong_arguments_are_clear_errors(lm: chainrule.CausalModel) -> None:
    with pytest.raises(SettingError, match="contexts is 0"):
        chainrule.verify_distribution(lm, contexts=0)
    with pytest.raises(SettingError, match="no token"):
        check_distribution(lm.language_model, [])
    with pytest.raises(SettingError, match="no text of three words"):
        check_server(Server(lm), ["a"])
