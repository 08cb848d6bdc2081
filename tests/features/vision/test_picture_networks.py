"""Networks for pictures against what others publish and compute: sizes, torchvision's ResNets, paddings."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.classify.network.build import build_classifier
from chainrule.features.vision.network.body import annotation_vectors
from chainrule.features.vision.network.config import (
    VGG_BLOCKS,
    AlexNetLabelling,
    EfficientNetLabelling,
    GoogLeNetLabelling,
    LeNetLabelling,
    ResNetLabelling,
    VGGLabelling,
    ViTLabelling,
)
from chainrule.features.vision.network.convolutions import Convolution2d, SameConvolution
from chainrule.storage.safetensors import write_tensors

if TYPE_CHECKING:
    from pathlib import Path

PIXELS = [np.random.default_rng(i).integers(0, 256, (32, 32, 3), np.uint8) for i in range(3)]


def parameters(config: Any, labels: int, *, features: bool = False) -> int:
    with torch.device("meta"):
        network = build_classifier(config, [str(i) for i in range(labels)], "picture", 0)
    return sum(weight.numel() for weight in (network.body.layers if features else network).parameters())


@pytest.mark.parametrize(
    ("config", "labels", "expected"),
    [
        (LeNetLabelling(colours="grey"), 10, 61_706),  # 156 + 2,416 + 48,120 + 10,164 + 850
        (ResNetLabelling(depth=18, stem="large"), 1000, 11_689_512),  # these five: torchvision's table of models
        (ResNetLabelling(depth=34, stem="large"), 1000, 21_797_672),
        (ResNetLabelling(depth=50, stem="large"), 1000, 25_557_032),
        (ResNetLabelling(depth=101, stem="large"), 1000, 44_549_160),
        (ResNetLabelling(depth=152, stem="large"), 1000, 60_192_808),
        (EfficientNetLabelling(), 1000, 4_652_008),
    ],
)
def test_networks_have_as_many_parameters_as_published(config: Any, labels: int, expected: int) -> None:
    assert parameters(config, labels) == expected


def test_vgg_16_has_the_convolutions_of_its_paper() -> None:
    # 3x3 weights and biases: 64, 64, 128, 128, 256 x 3, 512 x 6: 14,714,688 as in torchvision's features.
    assert parameters(VGGLabelling(depth=16, norm="none"), 10, features=True) == 14_714_688


def torchvision_resnet(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The logits of a ResNet with torchvision's names, one function call after the other."""

    def norm(x: Tensor, name: str) -> Tensor:
        w = {part: weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")}
        return F.batch_norm(x, w["running_mean"], w["running_var"], w["weight"], w["bias"], eps=1e-5)

    x = F.conv2d(x, weights["conv1.weight"], stride=2, padding=3)
    x = F.max_pool2d(F.relu(norm(x, "bn1")), 3, 2, 1)
    blocks = sorted({name.rsplit(".conv1", 1)[0] for name in weights if re.match(r"layer\d\.\d+\.conv1", name)})
    for block in blocks:
        stride = 2 if re.match(r"layer[2-4]\.0", block) else 1
        is_bottleneck = f"{block}.conv3.weight" in weights
        y = x
        for i in range(1, 4 if is_bottleneck else 3):
            kernel = weights[f"{block}.conv{i}.weight"]
            strides = i == (2 if is_bottleneck else 1)
            y = F.conv2d(y, kernel, stride=stride if strides else 1, padding=kernel.shape[2] // 2)
            y = norm(y, f"{block}.bn{i}")
            y = F.relu(y) if f"{block}.conv{i + 1}.weight" in weights else y
        if f"{block}.downsample.0.weight" in weights:
            x = norm(F.conv2d(x, weights[f"{block}.downsample.0.weight"], stride=stride), f"{block}.downsample.1")
        x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), weights["fc.weight"], weights["fc.bias"])


def resnet_weights(blocks: tuple[int, ...], width: int, *, is_bottleneck: bool) -> dict[str, Tensor]:
    """Random weights with torchvision's names; all one-dimensional ones are shaken."""
    torch.manual_seed(1)
    weights: dict[str, Tensor] = {}

    def convolution(name: str, before: int, after: int, kernel: int) -> None:
        weights[name + ".weight"] = torch.randn(after, before, kernel, kernel) / (before * kernel * kernel) ** 0.5

    def norm(name: str, width: int) -> None:
        for part in ("weight", "running_var"):
            weights[f"{name}.{part}"] = torch.rand(width) + 0.5
        for part in ("bias", "running_mean"):
            weights[f"{name}.{part}"] = torch.randn(width) * 0.3
        weights[f"{name}.num_batches_tracked"] = torch.tensor(7)

    convolution("conv1", 3, width, 7)
    norm("bn1", width)
    before = width
    for i, count in enumerate(blocks):
        own = width << i
        after = 4 * own if is_bottleneck else own
        for j in range(count):
            block = f"layer{i + 1}.{j}"
            kernels = (1, 3, 1) if is_bottleneck else (3, 3)
            channels = (before, own, own, after) if is_bottleneck else (before, own, own)
            for k, kernel in enumerate(kernels):
                convolution(f"{block}.conv{k + 1}", channels[k], channels[k + 1], kernel)
                norm(f"{block}.bn{k + 1}", channels[k + 1])
            if before != after or (i and not j):
                convolution(f"{block}.downsample.0", before, after, 1)
                norm(f"{block}.downsample.1", after)
            before = after
    weights["fc.weight"], weights["fc.bias"] = torch.randn(5, before) / before**0.5, torch.randn(5)
    return weights


@pytest.mark.parametrize(("blocks", "is_bottleneck"), [((2, 1, 2, 1), False), ((2, 1, 1), True)])
def test_a_resnet_of_torchvision_gives_its_logits(blocks: tuple[int, ...], is_bottleneck: bool, tmp_path: Path) -> None:
    weights = resnet_weights(blocks, 8, is_bottleneck=is_bottleneck)
    file = tmp_path / "resnet.safetensors"
    write_tensors(file, {name: tensor.numpy() for name, tensor in weights.items()})
    model = chainrule.load(file, chainrule.ClassifierModel)
    assert model.classifier.labels == ("0", "1", "2", "3", "4")
    body = model.classifier.body
    with torch.no_grad():
        x = torch.stack([torch.from_numpy(pixels).permute(2, 0, 1) / 255 for pixels in PIXELS])
        means, deviations = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        x = (x - means[:, None, None]) / deviations[:, None, None]
        torch.testing.assert_close(body.numbers(PIXELS), x, atol=1e-5, rtol=0)
        ours = model.classifier.head(body.pool(body.layers(x)))
        torch.testing.assert_close(ours, torchvision_resnet(weights, x), atol=1e-5, rtol=0)
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model", chainrule.ClassifierModel)
    for a, b in zip(model.classify(PIXELS), again.classify(PIXELS), strict=True):
        np.testing.assert_array_equal(a.log_probs, b.log_probs)


def torchvision_vgg(blocks: tuple[int, ...], channels: int, *, has_norms: bool) -> nn.Module:
    """A VGG with random weights, as torchvision builds it, layer by layer."""
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    before = 3
    for i, count in enumerate(blocks):
        for _ in range(count):
            layers.append(nn.Conv2d(before, channels * (i + 1), 3, padding=1))
            before = channels * (i + 1)
            layers += [nn.BatchNorm2d(before)] if has_norms else []
            layers.append(nn.ReLU())
        layers.append(nn.MaxPool2d(2, 2))
    network = nn.Sequential()
    network.features = nn.Sequential(*layers)
    network.avgpool = nn.AdaptiveAvgPool2d((7, 7))
    network.flatten = nn.Flatten()
    network.classifier = nn.Sequential(
        *(nn.Linear(before * 49, 12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 9), nn.ReLU(), nn.Dropout()),
        nn.Linear(9, 5),
    )
    for weight in [*network.parameters(), *network.buffers()]:
        if weight.ndim == 1:
            nn.init.uniform_(weight, 0.5, 1.5)
    return network.eval()


@pytest.mark.parametrize("depth", [11, 16])
@pytest.mark.parametrize("has_norms", [False, True])
@torch.no_grad()
def test_a_vgg_of_torchvision_gives_its_logits(depth: int, has_norms: bool, tmp_path: Path) -> None:
    theirs = torchvision_vgg(VGG_BLOCKS[depth], 4, has_norms=has_norms)
    file = tmp_path / "vgg.safetensors"
    write_tensors(file, {name: tensor.numpy() for name, tensor in theirs.state_dict().items()})
    model = chainrule.load(file, chainrule.ClassifierModel)
    body = model.classifier.body
    x = body.numbers([np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)])
    assert body.layers(x).shape == (1, 20, 7, 7)
    torch.testing.assert_close(model.classifier.head(body.pool(body.layers(x))), theirs(x), atol=1e-4, rtol=1e-4)
    weights = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    for change, message in (
        (
            {"features.0.weight": np.zeros((4, 2, 3, 3), np.float32)},
            "expected filters of 3 x 3, and the blocks of a VGG",
        ),
        (
            {"classifier.0.weight": np.zeros((12, 9), np.float32)},
            r"classifier.0.weight has the shape \[12, 9\]; expected",
        ),
        ({"features.99.weight": np.zeros((4, 4, 3, 3), np.float32)}, "has convolutions in blocks of"),
    ):
        write_tensors(file, {**weights, **change})
        with pytest.raises(ModelFormatError, match=message):
            chainrule.load(file)


def test_files_of_other_tensors_are_refused_by_name(tmp_path: Path) -> None:
    weights = {name: tensor.numpy() for name, tensor in resnet_weights((1, 1), 4, is_bottleneck=False).items()}
    file = tmp_path / "network.safetensors"
    for change, message in (
        ({"conv1.weight": None}, r"are not those of a ResNet of torchvision"),
        ({"layer1.0.bn1.bias": None}, r"array 'body.layers.layer1.0.bn1.bias' is missing"),
        ({"layer1.0.bn1.bias": np.zeros(9, np.float32)}, r"expected float32 \[4\]"),
        ({"conv1.weight": np.zeros((4, 2, 7, 7), np.float32)}, r"conv1.weight has the shape \[4, 2, 7, 7\]"),
        ({"extra": np.zeros(2, np.float32)}, r"there is an array 'extra'"),
    ):
        changed: dict[str, Any] = {**weights, **change}
        write_tensors(file, {name: array for name, array in changed.items() if array is not None})
        with pytest.raises(ModelFormatError, match=message) as caught:
            chainrule.load(file)
        assert str(file) in str(caught.value)
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    write_tensors(file, weights)
    with pytest.raises(ModelFormatError, match=r"labels.txt: has 2 lines; expected 5"):
        chainrule.load(file)
    (tmp_path / "labels.txt").write_text("a\nb\nc\nd\ne\n")
    assert chainrule.load(file, chainrule.ClassifierModel).classifier.labels == ("a", "b", "c", "d", "e")
    pickle = tmp_path / "network.pth"
    torch.save({name: torch.from_numpy(array) for name, array in weights.items()}, pickle)
    with pytest.raises(ModelFormatError, match="allow_pickle=True"):
        chainrule.load(pickle)
    assert chainrule.load(pickle, chainrule.ClassifierModel, allow_pickle=True).classifier.labels[0] == "a"


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 2)])
def test_a_convolution_that_leaves_out_places_is_that_of_torch(kernel: int, stride: int) -> None:
    ours = Convolution2d(3, 5, kernel, stride, kernel // 2).double()
    torchs = nn.Conv2d(3, 5, kernel, stride, kernel // 2).double()
    torchs.load_state_dict(ours.state_dict())
    x, y = (torch.randn(2, 3, 9, 8, dtype=torch.float64).requires_grad_() for _ in range(2))
    with torch.no_grad():
        y.copy_(x)
    torch.testing.assert_close(ours(x), torchs(y))
    ours(x).square().sum().backward()
    torchs(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(ours.weight.grad, torchs.weight.grad)


@pytest.mark.parametrize(
    "config",
    [
        LeNetLabelling(kernels=(1, 3), stride=2),
        ResNetLabelling(depth=18, stem="large"),
        ResNetLabelling(depth=50, width=8),
    ],
)
def test_no_gradient_of_a_strided_kernel_of_one_pixel_is_left_to_onednn(config: Any) -> None:
    with torch.device("meta"):
        network = build_classifier(config, ["a", "b"], "picture", 0)
    strided = [module for module in network.modules() if isinstance(module, nn.Conv2d) and max(module.stride) > 1]
    assert strided
    assert all(isinstance(module, Convolution2d) for module in strided if max(module.kernel_size) == 1)


def test_same_padding_puts_the_odd_zero_at_the_end() -> None:
    """Of 5 places and stride 2, kernel 4: ceil(5 / 2) = 3 outputs read 2 * 2 + 4 = 8 places: 3 zeros, 1 before."""
    layer = SameConvolution(1, 1, 4, 2, bias=False)
    nn.init.ones_(layer.weight)
    row = torch.tensor([1.0, 2, 4, 8, 16]).expand(1, 1, 5, 5)
    with torch.no_grad():
        sums = layer(row)[0, 0, 1]  # the middle window has 4 rows
    assert sums.tolist() == [4 * (1 + 2 + 4), 4 * (2 + 4 + 8 + 16), 4 * (8 + 16)]


def test_annotation_vectors_are_the_places_of_the_last_maps() -> None:
    network = build_classifier(ResNetLabelling(width=4, blocks=(1, 1)), ["a", "b"], "picture", 0).eval()
    with torch.no_grad():
        vectors, maps = annotation_vectors(network.body, PIXELS), network.body.maps(PIXELS)
    assert vectors.shape == (3, 256, 8)
    torch.testing.assert_close(vectors[1, 16 * 3 + 5], maps[1, :, 3, 5])


def test_training_varies_pictures_by_the_seed_and_only_by_their_own_pixels() -> None:
    network = build_classifier(LeNetLabelling(), ["a", "b"], "picture", 0)
    torch.manual_seed(5)
    varied = network.body.numbers(PIXELS)
    torch.manual_seed(5)
    assert torch.equal(varied, network.body.numbers(PIXELS))
    assert not torch.equal(varied, network.body.numbers(PIXELS))
    plain = network.eval().body.numbers(PIXELS)
    for own, before in zip(varied, plain, strict=True):  # what is inside was inside before
        assert set(own.flatten().tolist()) <= set(before.flatten().tolist())
    still = build_classifier(LeNetLabelling(flip=False, shift=0.0), ["a", "b"], "picture", 0)
    assert torch.equal(still.body.numbers(PIXELS), plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VGGLabelling(depth=12), "depth is 12; expected 11, 13, 16 or 19"),
        (lambda: ResNetLabelling(depth=20), "depth is 20; expected 18, 34, 50, 101 or 152"),
        (lambda: LeNetLabelling(size=(1, 2, 3)), "one number, or height and width"),
        (lambda: LeNetLabelling(kernels=(5, 5, 5)), "3 kernels for 2 convolutions"),
        (lambda: LeNetLabelling(pooled=(3,)), "pooled has 3"),
        (lambda: AlexNetLabelling(channels=()), "channels is empty"),
        (lambda: ViTLabelling(patch=5), "does not divide into patches of 5"),
        (lambda: ViTLabelling(width=10, heads=4), "cannot be shared by 4 heads"),
        (lambda: GoogLeNetLabelling(blocks=(3, 1, 1)), "at most 2, 5 and 2"),
        (lambda: GoogLeNetLabelling(norm="local"), "expected none or batch"),
        (lambda: LeNetLabelling(fit="wide"), "fit is 'wide'"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_contradict_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


def test_pictures_too_small_for_the_layers_are_refused() -> None:
    for config in (LeNetLabelling(size=(8,)), replace(VGGLabelling(), size=(16,))):
        with pytest.raises(SettingError, match="are too small for these layers"):
            build_classifier(config, ["a", "b"], "picture", 0)
