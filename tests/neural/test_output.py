"""Losses and distributions against plain softmax, and gradients against those that torch takes by itself."""

from __future__ import annotations

import math

import pytest
import random_networks  # noqa: F401  (one thread)
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.network import HardAttentionSoftmax
from chainrule.neural.layers import cross_entropy, matrix_products
from chainrule.neural.layers.matrix_products import log_softmax, log_softmax_at, product_log_softmax_at
from chainrule.neural.layers.output import AdaptiveSoftmax, FullSoftmax, SampledSoftmax
from chainrule.protocol import BEGIN, END

N, D, V = 13, 6, 40
COUNTS = torch.arange(V).flip(0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(5)


def hidden_and_targets() -> tuple[torch.Tensor, torch.Tensor]:
    targets = torch.randint(2, V, (N,))
    return torch.randn(N, D, requires_grad=True), targets


def full(*, bias: bool = True) -> FullSoftmax:
    made = FullSoftmax(nn.Parameter(torch.randn(V, D)), bias=bias)
    if made.bias is not None:
        nn.init.normal_(made.bias)
    return made


def adaptive() -> AdaptiveSoftmax:
    return AdaptiveSoftmax(D, COUNTS, (5, 12))


def sampled(kind: str, samples: int = 20_000) -> SampledSoftmax:
    return SampledSoftmax(full(), kind, samples, COUNTS, 1.0)


@pytest.mark.parametrize("make", [full, adaptive, lambda: sampled("nce"), lambda: sampled("sampled")])
def test_the_begin_has_no_probability_and_the_rest_sums_to_one(make) -> None:
    output, (hidden, targets) = make().eval(), hidden_and_targets()
    log_probs = output.log_probs(hidden.view(1, N, D))[0]
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(N))
    assert (log_probs[:, BEGIN] == -torch.inf).all()
    picked = log_probs[torch.arange(N), targets]
    torch.testing.assert_close(output.log_probs_of(hidden.view(1, N, D), targets[None])[0], picked)
    three = torch.stack([targets, targets.flip(0), torch.full_like(targets, END)], -1)
    torch.testing.assert_close(output.log_probs_of(hidden.view(1, N, D), three[None])[0], log_probs.gather(1, three))
    torch.testing.assert_close(output.loss(hidden, targets), -picked.sum())
    counts = torch.rand(N)
    torch.testing.assert_close(output.loss(hidden, targets, weights=counts), -(picked * counts).sum())


def without_two_tokens() -> FullSoftmax:
    return FullSoftmax(nn.Parameter(torch.randn(V, D)), bias=True, banned=(0, END))


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize(
    ("make", "smoothing", "padding"),
    [
        (without_two_tokens, 0.0, 0),
        (without_two_tokens, 0.1, END),
        (full, 0.0, BEGIN),
        (adaptive, 0.0, BEGIN),
        (lambda: HardAttentionSoftmax(full()), 0.0, BEGIN),
        (lambda: HardAttentionSoftmax(full(), is_exact=True), 0.0, BEGIN),
    ],
)
def test_a_position_of_weight_zero_adds_nothing_whatever_its_target(
    make, smoothing: float, padding: int, is_training: bool
) -> None:
    torch.manual_seed(5)
    output = make().train(is_training)
    shape = (N, 1, D + 1) if isinstance(output, HardAttentionSoftmax) else (N, D)  # a choice, with its log-probability
    hidden = torch.randn(shape, requires_grad=True)
    targets, counts = torch.randint(3, V, (N,)), torch.rand(N)
    keywords = {"label_smoothing": smoothing} if smoothing else {}
    found = []
    for kept in (slice(None), slice(N - 3)):
        output.zero_grad()
        hidden.grad = None
        if hasattr(output, "baseline"):
            output.baseline.zero_()
        padded, weights = targets.clone(), counts.clone()
        padded[N - 3 :], weights[N - 3 :] = padding, 0
        with torch.no_grad():
            without_gradients = output.loss(hidden[kept], padded[kept], weights=weights[kept], **keywords)
        if hasattr(output, "baseline"):
            output.baseline.zero_()
        loss = output.loss(hidden[kept], padded[kept], weights=weights[kept], **keywords)
        loss.backward()
        gradients = [weight.grad.clone() for weight in (hidden, *output.parameters()) if weight.grad is not None]
        found.append([without_gradients, loss.detach(), *gradients])
    for padded, alone in zip(*found, strict=True):
        assert torch.isfinite(alone).all()
        torch.testing.assert_close(padded, alone)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_blocks_give_the_loss_and_the_gradients_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, bias: bool, weighted: bool
) -> None:
    found = []
    output, (hidden, targets) = full(bias=bias), hidden_and_targets()
    counts = torch.rand(N) if weighted else None
    for held, near in ((1 << 22, 1 << 22), (1 << 22, 2 * V), (3 * V + 1, V), (1, 1)):  # all at once; few positions; one
        monkeypatch.setattr(cross_entropy, "HELD", held)
        monkeypatch.setattr(cross_entropy, "HELD_IN_TRAINING", held)
        monkeypatch.setattr(cross_entropy, "NEAR", near)
        output.zero_grad()
        hidden.grad = None
        loss = output.loss(hidden, targets, label_smoothing=smoothing, weights=counts)
        (loss * 3).backward()
        found.append([loss.detach(), hidden.grad, *(weight.grad for weight in output.parameters())])
        with torch.no_grad():
            torch.testing.assert_close(
                output.loss(hidden, targets, label_smoothing=smoothing, weights=counts), found[0][0]
            )
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradients_are_those_of_torch(smoothing: float) -> None:
    output, (hidden, targets) = full(bias=False), hidden_and_targets()
    output.never.zero_()  # torch smooths over every token
    expected = F.cross_entropy(F.linear(hidden, output.weight), targets, reduction="sum", label_smoothing=smoothing)
    wanted = torch.autograd.grad(expected, [hidden, output.weight])
    loss = output.loss(hidden, targets, label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, [hidden, output.weight]), wanted)


@pytest.mark.parametrize("size", [3, 48, 331])
def test_products_in_bfloat16_have_the_loss_and_the_gradients_of_their_logits(size: int) -> None:
    hidden, weight, bias = torch.randn(70, D), torch.randn(size, D), torch.randn(size)
    targets, counts = torch.randint(0, size, (70,)), torch.rand(70)
    leaves = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    with torch.autocast("cpu", torch.bfloat16):
        logits = F.linear(hidden, weight).float() + bias
        found = cross_entropy.cross_entropy(hidden, weight, bias, targets, weights=counts)
    expected = (F.cross_entropy(logits, targets, reduction="none") * counts).sum()
    torch.testing.assert_close(found, expected)
    for own, wanted in zip(
        torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):  # each is rounded to 8 bits
        torch.testing.assert_close(own, wanted, rtol=0.02, atol=0.02)


def test_threads_change_no_bit_of_a_gradient() -> None:
    hidden, weight, bias = (torch.randn(shape, requires_grad=True) for shape in ((300, D), (V, D), (V,)))
    targets, found, before = torch.randint(0, V, (300,)), [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            loss = cross_entropy.cross_entropy(hidden, weight, bias, targets)
            found.append((loss, *torch.autograd.grad(loss, bias)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_logits_that_are_no_numbers_have_no_loss(number: float) -> None:
    hidden, targets = hidden_and_targets()
    weight = torch.randn(V, D, requires_grad=True)
    with torch.no_grad():
        hidden[3, 2] = number
    assert torch.isnan(cross_entropy.cross_entropy(hidden, weight, None, targets))


def test_smoothed_labels_by_hand() -> None:
    output, (hidden, targets) = full(), hidden_and_targets()
    log_probs = output.log_probs(hidden)
    possible = [token for token in range(V) if token != BEGIN]
    expected = sum(0.9 * -log_probs[i, targets[i]] + 0.1 * -log_probs[i, possible].mean() for i in range(N))
    torch.testing.assert_close(output.loss(hidden, targets, label_smoothing=0.1), expected)


def test_an_adaptive_softmax_is_the_product_of_its_two_choices() -> None:
    output, (hidden, _) = adaptive(), hidden_and_targets()
    log_probs = output.log_probs(hidden)
    order = [BEGIN, *sorted((t for t in range(V) if t != BEGIN), key=lambda t: (-COUNTS[t].item(), t))]
    head = (hidden @ output.head.weight.T).masked_fill(torch.arange(7) == 0, -torch.inf).log_softmax(1)
    for rank in (1, 4):
        torch.testing.assert_close(log_probs[:, order[rank]], head[:, rank])
    second = output.tails[1](output.projections[1](hidden)).log_softmax(1)
    torch.testing.assert_close(log_probs[:, order[20]], head[:, 6] + second[:, 20 - 12])


@pytest.mark.parametrize(("rows", "width", "size"), [(1, 1, 33), (6, 2, 600), (7, 64, V), (9, 5, 31)])
@torch.inference_mode()
def test_log_probabilities_of_some_tokens_are_those_of_float64(rows: int, width: int, size: int) -> None:
    """Of logits and of products that are never held; each row has the bits that it has alone."""
    hidden, weight, bias = torch.randn(rows, width), torch.randn(size, width) * 3, torch.randn(size) * 10
    bias[BEGIN] = -torch.inf
    tokens = torch.randint(size, (rows, 2))
    exact = F.linear(hidden.double(), weight.double(), bias.double()).log_softmax(1).gather(1, tokens).float()
    logits = F.linear(hidden, weight, bias)
    torch.testing.assert_close(log_softmax_at(logits, tokens), exact, atol=1e-5, rtol=1e-6)
    fused = product_log_softmax_at(hidden, weight, bias, tokens)
    assert fused is not None
    torch.testing.assert_close(fused, exact, atol=1e-5, rtol=1e-6)
    for i in range(rows):
        own = slice(i, i + 1)
        assert torch.equal(log_softmax_at(logits[own], tokens[own]), log_softmax_at(logits, tokens)[own])
        alone = product_log_softmax_at(hidden[own], weight, bias, tokens[own])
        assert alone is not None
        assert torch.equal(alone, fused[own])


@torch.inference_mode()
def test_log_probabilities_on_several_threads_have_the_bits_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    given = torch.randn(11, 8), torch.randn(500, 8), None, torch.randint(500, (11, 2))
    logits = F.linear(*given[:2])
    expected = product_log_softmax_at(*given), log_softmax_at(logits, given[3])
    monkeypatch.setattr(matrix_products, "_SMALL", 0)
    monkeypatch.setattr(matrix_products, "_FEW_LOGITS", 0)
    torch.set_num_threads(2)
    try:
        several = product_log_softmax_at(*given), log_softmax_at(logits, given[3])
    finally:
        torch.set_num_threads(1)
    assert all(map(torch.equal, several, expected))


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
@torch.inference_mode()
def test_a_damaged_weight_is_seen_in_every_log_probability(broken: float) -> None:
    hidden, weight, tokens = torch.rand(3, 4) + 0.1, torch.randn(V, 4), torch.full((3, 1), 7)
    weight[30, 1] = broken
    assert product_log_softmax_at(hidden, weight, None, tokens).isnan().all()
    assert log_softmax_at(F.linear(hidden, weight), tokens).isnan().all()
    with pytest.raises(IndexError, match="40"):
        product_log_softmax_at(hidden, weight, None, tokens + V)


def test_an_adaptive_softmax_scores_several_tokens_as_one_by_one_with_gradients() -> None:
    output, hidden = adaptive(), torch.randn(300, D, requires_grad=True)
    tokens = torch.randint(2, V, (300, 2))
    both = output.log_probs_of(hidden, tokens)
    expected = output.log_probs(hidden).gather(1, tokens)
    torch.testing.assert_close(both, expected)
    with torch.inference_mode():
        torch.testing.assert_close(output.log_probs_of(hidden, tokens), expected)
        assert output.log_probs_of(hidden[:0], tokens[:0]).shape == (0, 2)
    ours, theirs = (torch.autograd.grad(x.sum(), [hidden, *output.parameters()]) for x in (both, expected))
    torch.testing.assert_close(ours, theirs)


def test_gradients_reach_all_parts_of_an_adaptive_softmax() -> None:
    output, (hidden, _) = adaptive(), hidden_and_targets()
    output.loss(hidden, torch.arange(2, 2 + N) * 2).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in output.parameters())


def test_a_sampled_softmax_becomes_the_full_one_when_every_token_is_drawn() -> None:
    output, (hidden, targets) = sampled("sampled", 400_000).train(), hidden_and_targets()
    expected = F.cross_entropy(F.linear(hidden, output.full.weight, output.full.shift), targets, reduction="sum")
    assert output.loss(hidden, targets).item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_target_is_left_out_of_the_samples() -> None:
    output = sampled("sampled", 50).train()
    output.noise.zero_()
    output.noise[7] = 1.0
    hidden, targets = torch.randn(3, D), torch.tensor([7, 7, 7])
    assert output.loss(hidden, targets).item() == pytest.approx(0, abs=1e-6)  # nothing is left to compete


def test_a_sampled_softmax_by_hand() -> None:
    """Of targets that are drawn, and of others, which compete with all that are drawn."""
    output = sampled("sampled", 30).train()
    hidden, targets = hidden_and_targets()
    counts = torch.rand(N)
    torch.manual_seed(9)
    drawn = set(torch.multinomial(output.noise, 30, replacement=True).tolist())
    assert 0 < sum(target in drawn for target in targets.tolist()) < N
    logits, expected = F.linear(hidden, output.full.weight, output.full.shift), 0.0
    corrected = logits - torch.log(1 - (1 - output.noise.double()) ** 30).float()
    for row, target, weight in zip(corrected, targets.tolist(), counts, strict=True):
        expected -= weight * row[sorted(drawn | {target})].log_softmax(0)[sorted(drawn | {target}).index(target)]
    torch.manual_seed(9)
    found = output.loss(hidden, targets, weights=counts)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad(expected, [hidden, output.full.weight], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(found, [hidden, output.full.weight]), wanted)


def test_noise_contrast_by_hand() -> None:
    output = sampled("nce", 4).train()
    output.noise.zero_()
    output.noise[[7, 9]] = torch.tensor([1.0, 1e-30])
    hidden, targets = torch.randn(2, D), torch.tensor([9, 9])
    scores = F.linear(hidden, output.full.weight, output.full.shift)
    expected = 0.0
    for row in scores:
        right = row[9].item() - math.log(4 * 1e-30)
        wrong = row[7].item() - math.log(4 * 1.0)
        expected += math.log1p(math.exp(-right)) + 4 * math.log1p(math.exp(wrong))
    assert output.loss(hidden, targets).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("make", [adaptive, lambda: sampled("nce").train()])
def test_some_outputs_cannot_smooth_labels(make) -> None:
    with pytest.raises(SettingError, match="label_smoothing"):
        make().loss(*hidden_and_targets(), label_smoothing=0.1)


def test_cutoffs_outside_the_vocabulary_are_an_error() -> None:
    with pytest.raises(SettingError, match="inside the vocabulary of 40 tokens"):
        AdaptiveSoftmax(D, COUNTS, (5, 40))


def test_what_a_sampled_softmax_learns_is_the_distribution() -> None:
    probs = torch.tensor([0.05, 0.1, 0.15, 0.3, 0.4])
    weight = nn.Parameter(torch.zeros(6, 1))
    output = SampledSoftmax(FullSoftmax(weight, bias=False), "sampled", 2, torch.tensor([9, 0, 1, 5, 2, 4]), 1.0)
    optimiser = torch.optim.Adam([weight], lr=0.05)
    targets = torch.tensor([0, 2, 3, 4, 5])
    for step in range(400):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / 400)
        loss = output.loss(torch.ones(5, 1), targets, weights=probs)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = output.log_probs(torch.ones(1, 1))[0].exp()
    torch.testing.assert_close(found[targets], probs, rtol=0, atol=0.06)


def test_the_loss_of_capped_logits_and_its_gradients_are_those_of_the_formula() -> None:
    """cap tanh(l / cap), with one token that has no probability."""
    torch.manual_seed(1)
    hidden, weight = (torch.randn(size, 6, requires_grad=True) for size in (9, 11))
    bias = torch.zeros(11)
    bias[1] = -torch.inf
    targets = torch.tensor([0, 2, 3, 4, 5, 6, 7, 8, 9])
    found = cross_entropy.cross_entropy(hidden, weight, bias, targets, cap=1.5)
    gradients = torch.autograd.grad(found, (hidden, weight))
    logits = 1.5 * torch.tanh(hidden @ weight.T / 1.5) + bias
    expected = F.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, (hidden, weight)))
    with torch.no_grad():
        torch.testing.assert_close(
            cross_entropy.cross_entropy(hidden, weight, bias, targets, cap=1.5), expected.detach()
        )


@pytest.mark.parametrize("size", [1, 33, 4096, 4097, 200_000])
def test_a_log_softmax_of_all_tokens_is_exact_and_that_of_some(size: int) -> None:
    logits = 4 * torch.randn(3, size, generator=torch.Generator().manual_seed(size))
    logits[1, ::2] = -torch.inf if size > 1 else 0
    exact = logits.double().log_softmax(1)
    with torch.inference_mode():
        found = log_softmax(logits)
        some = torch.tensor([[0, size // 2, size - 1]] * 3)
        assert torch.equal(log_softmax_at(logits, some), found.gather(1, some))
        assert torch.equal(log_softmax(logits[0]), found[0])
    torch.testing.assert_close(found.double(), exact, atol=4e-6, rtol=0)
    assert log_softmax(logits.requires_grad_()).requires_grad
