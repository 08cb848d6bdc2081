"""The encoders against their formulas, written out a position at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from random_networks import VOCABULARY_SIZE, random_model, random_network

from chainrule.errors import SettingError
from chainrule.neural.config import BagConfig, BilinearConfig, ConvolutionConfig, FeedforwardConfig

TEXT = torch.randint(3, VOCABULARY_SIZE, (2, 9), generator=torch.Generator().manual_seed(1))
CLOSE = {"rtol": 0, "atol": 1e-5}


def last(vectors: torch.Tensor, position: int, window: int) -> list[torch.Tensor]:
    """Of one row, (T, D): the vector at a position and those before it, zeros before the row; `window` in all."""
    return [vectors[position - i] if position >= i else torch.zeros_like(vectors[0]) for i in range(window)]


def log_probs(network, hidden: torch.Tensor) -> torch.Tensor:
    return network.output.log_probs(hidden)


@pytest.mark.parametrize("kind", ["matrix", "diagonal", "none"])
def test_log_bilinear_is_a_sum_of_weighted_vectors(kind: str) -> None:
    network = random_network(BilinearConfig(width=6, window=3, position_weights=kind)).eval()  # type: ignore[arg-type]
    encoder, vectors = network.encoder, network.embedding(TEXT)
    if kind == "matrix":
        weights = list(encoder.matrices.weight.split(6, 1))
    else:
        weights = [torch.diag(each) for each in (encoder.diagonals if kind == "diagonal" else torch.ones(18)).split(6)]
    found, _ = network(TEXT)
    for row, position in [(0, 0), (0, 1), (1, 2), (1, 8)]:
        expected = sum(c @ v for c, v in zip(weights, last(vectors[row], position, 3), strict=True))
        torch.testing.assert_close(found[row, position], expected, **CLOSE)


def test_log_bilinear_with_one_word_is_the_softmax_of_skip_gram() -> None:
    model = random_model(BilinearConfig(width=6, window=1, position_weights="none"))
    network = model.network
    torch.nn.init.zeros_(network.output.bias)
    v, c = network.embedding.weight, network.output.weight
    expected = (v @ c.T).index_fill(1, torch.tensor(1), -torch.inf).softmax(1)  # <s> is never predicted
    state = model.start([torch.tensor([word], dtype=torch.int32).numpy() for word in range(3, VOCABULARY_SIZE)])
    found = torch.from_numpy(model.next_log_probs(state)).exp()
    torch.testing.assert_close(found, expected[3:], **CLOSE)


@pytest.mark.parametrize("window", [1, 3, 20, None])
def test_a_bag_is_the_average_through_layers(window: int | None) -> None:
    network = random_network(BagConfig(width=8, embedding_width=5, layers=2, window=window)).eval()
    first, second = (each for each in network.encoder.layers if isinstance(each, torch.nn.Linear))
    vectors = network.embedding(TEXT)
    found, _ = network(TEXT)
    for row, position in [(0, 0), (1, 2), (1, 8)]:
        begin = 0 if window is None else max(0, position + 1 - window)
        mean = vectors[row, begin : position + 1].mean(0)
        expected = second(first(mean).relu()).relu()
        torch.testing.assert_close(found[row, position], expected, **CLOSE)


@pytest.mark.parametrize("window", [6, None])
def test_a_bag_is_blind_to_order_and_the_others_are_not(window: int | None) -> None:
    reversed_text = TEXT.clone()
    reversed_text[:, 3:] = TEXT[:, 3:].flip(1)  # the last six

    def changes(config) -> float:
        network = random_network(config).eval()
        return float((network(TEXT)[0][:, -1] - network(reversed_text)[0][:, -1]).abs().max().detach())

    assert changes(BagConfig(width=8, window=window)) < 1e-5
    for config in (BilinearConfig(width=8), FeedforwardConfig(width=8), ConvolutionConfig(width=8, layers=2)):
        assert changes(config) > 1e-2


@pytest.mark.parametrize("direct", [True, False])
def test_feed_forward_is_bengio_s_formula(direct: bool) -> None:
    config = FeedforwardConfig(width=8, embedding_width=5, window=3, direct=direct, activation="tanh")
    network = random_network(config).eval()
    encoder, output, vectors = network.encoder, network.output, network.embedding(TEXT)
    h, d = encoder.layers[0].weight, encoder.layers[0].bias
    u, w = output.weight[:, :8], output.weight[:, 8:]
    assert w.shape == (VOCABULARY_SIZE, 15 if direct else 0)
    found = log_probs(network, network(TEXT)[0])
    for row, position in [(0, 0), (0, 1), (1, 8)]:
        x = torch.cat(last(vectors[row], position, 3))
        y = output.bias + u @ torch.tanh(d + h @ x)
        if direct:
            y = y + w @ x
        y[1] = -torch.inf
        torch.testing.assert_close(found[row, position], y.log_softmax(0), **CLOSE)


@pytest.mark.parametrize("gate", ["glu", "gtu", "none"])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (3, 2)])
def test_a_convolution_is_torch_s_with_padding_at_the_left(gate: str, kernel: int, dilation: int) -> None:
    config = ConvolutionConfig(width=6, layers=3, kernel=kernel, dilation=dilation, gate=gate)  # type: ignore[arg-type]
    network = random_network(config).eval()
    x = network.embedding(TEXT)
    for i, layer in enumerate(network.encoder.layers):
        apart = dilation**i
        weight = (
            layer.weight.weight.unflatten(1, (kernel, 6)).permute(0, 2, 1).flip(2)
        )  # torch's last tap is the newest
        padded = F.pad(F.rms_norm(x, (6,)).mT, ((kernel - 1) * apart, 0))
        found = F.conv1d(padded, weight, layer.weight.bias, dilation=apart).mT
        if gate == "glu":
            found = F.glu(found)
        elif gate == "gtu":
            found = found[..., :6].tanh() * found[..., 6:].sigmoid()
        else:
            found = found.relu()
        x = x + found
    torch.testing.assert_close(network(TEXT)[0], F.rms_norm(x, (6,)), **CLOSE)


@pytest.mark.parametrize(
    "config",
    [
        BilinearConfig(width=6, window=4),
        BagConfig(width=6, window=4),
        FeedforwardConfig(width=6, window=4),
        ConvolutionConfig(width=6, layers=2, kernel=2),
    ],
    ids=lambda config: type(config).__name__,
)
def test_a_prediction_depends_on_as_many_tokens_as_the_reach_says(config) -> None:
    network = random_network(config).eval()
    assert network.encoder.reach == 4
    vectors = network.embedding(TEXT).detach().requires_grad_()
    given = network.encoder(vectors)[0][0, -1]
    (given * torch.arange(6)).sum().backward()  # not of squares: the norm at the end makes their sum a constant
    assert vectors.grad is not None
    felt = vectors.grad[0].abs().sum(1) > 0
    assert felt.tolist() == [False] * 5 + [True] * 4


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (FeedforwardConfig, {"direct": True, "tied": True}, "direct connections make the output wider"),
        (ConvolutionConfig, {"layers": 30}, "the layers reach 2,147,483,647 tokens back"),
        (BilinearConfig, {"window": 0}, "window is 0; expected 1 or more"),
        (BagConfig, {"activation": "swish"}, "expected tanh, relu or gelu"),
    ],
)
def test_settings_that_cannot_be_are_errors(kind: type, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        kind(**changes)
