"""Vectors of tokens that are learned as sums of their own and those of their character n-grams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training_runs import QUICK, RECURRENT, TOKENS, TRANSFORMER, VOCABULARY, numbers, text, trained

from chainrule.errors import SettingError
from chainrule.features.seq2seq.objective import with_pair_defaults
from chainrule.neural.build import build
from chainrule.neural.config import MaskedConfig, MaskedRecurrentConfig
from chainrule.text.vector_files import Vectors
from chainrule.training.character_ngrams import SummedVectors, character_ngrams
from chainrule.training.config import AdapterConfig, InitialVectors, TrainingConfig
from chainrule.training.job import StreamOptions
from chainrule.training.objectives.next_token import next_token_job
from chainrule.training.optimisers import Optimisers

WIDE = replace(RECURRENT, width=256)
SPELLED = replace(QUICK, character_ngrams="yes")
FIXED = InitialVectors(Vectors("v.txt", np.arange(3, 5), np.ones((2, 16), np.float32)), fixed=True)


def ngrams_of(token: str) -> set[str]:
    spelled = f"<{token.lower()}>"
    found = {spelled[i : i + n] for n in (2, 3, 4) for i in range(len(spelled)) if i + n <= len(spelled)}
    return found | ({"capital"} if token[:1].isupper() else set()) | ({"capitals"} if token.isupper() else set())


def shares(tokens: tuple[bytes, ...]) -> torch.Tensor:
    """Of n-grams in tokens, (V, G), by the definition; the columns in any order."""
    own = [set() if i < 3 else ngrams_of(token.decode()) for i, token in enumerate(tokens)]
    every = [ngram for ngram in set().union(*own) if sum(ngram in each for each in own) >= 3]
    found = torch.tensor([[float(ngram in each) for ngram in every] for each in own]).view(len(tokens), len(every))
    return found / found.sum(1, keepdim=True).clamp(min=1).sqrt()


@given(words=st.lists(st.text("abAB", min_size=1, max_size=7), min_size=3, max_size=20))
def test_shares_are_those_of_the_definition(words: list[str]) -> None:
    tokens = (b"<unk>", b"<s>", b"</s>", *(word.encode() for word in words))
    found = character_ngrams(tokens)
    ours, theirs = found.of_tokens.sums(torch.eye(found.number)), found.of_ngrams.sums(torch.eye(len(tokens)))
    assert torch.equal(ours, theirs.T)
    columns, wanted = (sorted(map(tuple, each.T.tolist())) for each in (ours, shares(tokens)))
    assert np.array(columns) == pytest.approx(np.array(wanted))


def test_steps_are_those_of_a_network_that_sums() -> None:
    """The gradients of both parts by torch."""
    target, begin = torch.randn(len(TOKENS), 4), torch.randn(len(TOKENS), 4)
    vectors, ngrams = torch.nn.Parameter(begin.clone()), character_ngrams(TOKENS)
    summed = SummedVectors(vectors, ngrams)
    ours = torch.optim.AdamW([summed.own, summed.shared], lr=0.1)
    own, shared = torch.nn.Parameter(begin), torch.nn.Parameter(torch.zeros(ngrams.number, 4))
    theirs = torch.optim.AdamW([own, shared], lr=0.1)
    share = ngrams.of_tokens.sums(torch.eye(ngrams.number))
    for _ in range(5):
        vectors.grad = None
        (vectors - target)[::2].pow(2).sum().backward()
        summed.pass_gradient()
        ours.step()
        summed.add_up()
        theirs.zero_grad()
        (own + share @ shared - target)[::2].pow(2).sum().backward()
        theirs.step()
    torch.testing.assert_close(vectors, own + share @ shared)
    assert float(summed.shared.detach().abs().max()) > 0.1


@pytest.mark.parametrize(("optimiser", "decay"), [("muon", 0.03), ("adamw", 0.03), ("sgd", 0.0)])
def test_parts_decay_and_other_vectors_do_not(optimiser: Any, decay: float) -> None:
    """Without gradients, a step is the decay alone: rate times decay of each part."""
    network = build(RECURRENT, len(TOKENS))
    summed = SummedVectors(network.embedding.weight, character_ngrams(TOKENS))
    with torch.no_grad():
        summed.shared.fill_(1.0)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    own, others = summed.own.detach().clone(), network.state_dict()
    kept = {name: weight.clone() for name, weight in others.items() if name != "embedding.weight"}
    config = TrainingConfig(optimiser=optimiser)
    Optimisers(config, network, network.matrices(), (0.5, 0.5), in_bfloat16=False, summed=summed).step(1.0)
    torch.testing.assert_close(summed.own.detach(), own * (1 - 0.5 * decay))
    torch.testing.assert_close(summed.shared.detach(), torch.full_like(summed.shared, 1 - 0.5 * decay))
    for name, weight in kept.items():
        assert torch.equal(network.state_dict()[name], weight)


@pytest.mark.parametrize("config", [RECURRENT, replace(TRANSFORMER, tied=True)])
def test_the_network_has_the_sums(config: Any) -> None:
    """It has no other weights than without, and tokens that are spelled alike have moved together."""
    plain, _, _ = trained(config)
    spelled, record, _ = trained(config, SPELLED)
    assert [each.shape for each in plain.parameters()] == [each.shape for each in spelled.parameters()]
    assert numbers(plain) != numbers(spelled)
    assert record["training"]["character_ngrams"] == "yes"
    assert record["parameters"] == sum(each.numel() for each in plain.parameters())


@pytest.mark.parametrize(
    ("config", "size", "wanted", "is_summed"),
    [
        (WIDE, 999, "auto", False),
        (WIDE, 1000, "auto", True),
        (WIDE, 1000, "no", False),
        (WIDE, 50_000, "auto", True),
        (WIDE, 50_001, "auto", False),
        (replace(WIDE, width=255), 1000, "auto", False),
        (replace(TRANSFORMER, width=128), 1000, "auto", True),
        (replace(TRANSFORMER, width=124), 1000, "auto", False),
        (TRANSFORMER, 1000, "yes", True),
        (MaskedConfig(width=128), 1000, "auto", False),
        (MaskedRecurrentConfig(width=256), 1000, "auto", False),
    ],
)
def test_many_tokens_are_spelled_by_default(config: Any, size: int, wanted: Any, is_summed: bool) -> None:
    """Of recurrent networks and Transformers; squared gradients are averaged over more steps."""
    tokens = (*TOKENS, *(b"%d" % i for i in range(size - len(TOKENS))))
    options = StreamOptions(training=TrainingConfig(steps=1, character_ngrams=wanted), tokens=tokens)
    job = next_token_job(text(), size, config, options)
    assert (job.summed is not None) == is_summed
    assert job.training.character_ngrams == ("yes" if is_summed else "no")
    assert job.training.beta2 == (0.99 if is_summed else 0.95)
    assert job.recipe.rate == (0.02 if config.is_recurrent else 0.005 if is_summed else 0.01)
    is_noted = any("character_ngrams='no' leaves them out" in note for note in job.notes)
    assert is_noted == (is_summed and wanted == "auto")


def test_n_grams_that_few_tokens_share_are_taken_on_request_alone() -> None:
    spelled = [b"%d" % i for i in range(498)]
    tokens = (*TOKENS[:3], *spelled, *(chr(0x4E00 + i).encode() for i in range(499)))
    for wanted, is_summed in (("auto", False), ("yes", True)):
        options = StreamOptions(training=TrainingConfig(steps=1, character_ngrams=wanted), tokens=tokens)
        assert (next_token_job(text(), 1000, WIDE, options).summed is not None) == is_summed


def test_a_network_that_goes_on_is_spelled_on_request_alone() -> None:
    tokens = tuple(b"%d" % i for i in range(1000))
    options = StreamOptions(training=TrainingConfig(steps=1), tokens=tokens, start=build(WIDE, 1000))
    assert next_token_job(text(), 1000, WIDE, options).summed is None
    asked = replace(options, training=TrainingConfig(steps=1, character_ngrams="yes"))
    assert next_token_job(text(), 1000, WIDE, asked).summed is not None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"tokens": None}, "there are no tokens to spell"),
        ({"vectors": FIXED}, "the vectors of tokens are not trained"),
        ({"adapter": AdapterConfig(lora=2), "start": build(TRANSFORMER, VOCABULARY)}, "the vectors of tokens are not"),
    ],
    ids=["no tokens", "fixed vectors", "adapters"],
)
def test_what_has_no_such_vectors_is_refused(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingError, match=f"character_ngrams is yes, but {reason}"):
        trained(TRANSFORMER, SPELLED, **more)


def test_tokens_that_share_no_characters_are_learned_alone_and_that_is_told() -> None:
    tokens = (*TOKENS[:3], *(chr(0x4E00 + i).encode() for i in range(VOCABULARY - 3)))
    spelled, record, told = trained(RECURRENT, SPELLED, tokens=tokens)
    assert numbers(spelled) == numbers(trained(RECURRENT)[0])
    assert record["training"]["character_ngrams"] == "no"
    assert any("no n-gram of characters is in three tokens or more" in (report.note or "") for report in told)


@pytest.mark.parametrize(("name", "value"), [("beta1", 0.8), ("beta2", 0.9)])
def test_what_is_for_adamw_is_refused_without_it(name: str, value: float) -> None:
    with pytest.raises(SettingError, match=f"{name} is for AdamW, and the optimiser is sgd; leave it out"):
        replace(QUICK, optimiser="sgd", **{name: value})  # type: ignore[arg-type]


def test_pairs_are_not_spelled() -> None:
    with pytest.raises(SettingError, match="character_ngrams is for networks that learn from running text; leave it"):
        with_pair_defaults(SPELLED)
