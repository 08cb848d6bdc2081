"""What is shown of a network that reads pictures: receptive fields against what pixels change, patches, the page."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import chainrule
from chainrule.errors import OutputError, SettingError
from chainrule.features.classify.network.build import build_classifier
from chainrule.features.vision.network.config import (
    AlexNetLabelling,
    EfficientNetLabelling,
    GoogLeNetLabelling,
    LeNetLabelling,
    ResNetLabelling,
    ViTLabelling,
)
from chainrule.features.vision.network.inspection import Box, ReceptiveFields, excitements, feature_maps, layer_names

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = [
    LeNetLabelling(),
    AlexNetLabelling(channels=(2, 2, 2, 2, 2), hidden=(4,), width=4),
    GoogLeNetLabelling(width=4, blocks=(1, 1, 1)),
    ResNetLabelling(width=2, blocks=(1, 2), block="bottleneck"),
    ResNetLabelling(width=2, blocks=(1, 1), stem="large"),
    EfficientNetLabelling(size=(32,), stages=3, width=4),
    ViTLabelling(patch=8, layers=1, width=8, heads=1),
]


def pixels_read(layers: list[nn.Module], layer: int, row: int, column: int) -> Box:
    """The pixels with which a gradient reaches a place, where nothing is negative and nothing is only the largest."""
    x = torch.ones(1, 3, 32, 32, requires_grad=True)
    y: Any = x
    for module in layers[: layer + 1]:
        y = module(y)
    y[0, :, row, column].sum().backward()
    assert x.grad is not None
    rows, columns = (x.grad[0].abs().sum((0, axis)).nonzero().flatten() for axis in (2, 1))
    return Box(int(rows.min()), int(columns.min()), int(rows.max()) + 1, int(columns.max()) + 1)


def positive(module: nn.Module) -> nn.Module:
    """A network of the same geometry in which all that a unit reads counts: means in place of maxima, no norms."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.MaxPool2d):
            setattr(module, name, nn.AvgPool2d(child.kernel_size, child.stride, child.padding))
        elif isinstance(child, nn.BatchNorm2d | nn.LocalResponseNorm | nn.ReLU | nn.ReLU6 | nn.Tanh):
            setattr(module, name, nn.Identity())
        else:
            positive(child)
    if isinstance(module, nn.Conv2d):
        nn.init.constant_(module.weight, 0.01)
    return module


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_receptive_fields_are_the_pixels_that_count(config: Any) -> None:
    torch.manual_seed(0)
    body = build_classifier(config, ["a", "b"], "picture", 0).eval().body
    modules = list(body.layers.children())
    fields = ReceptiveFields(modules, 3, (32, 32))
    if isinstance(config, ViTLabelling):
        assert fields.of(0, 1, 2) == Box(8, 16, 16, 24)
        assert fields.of(1, 1, 2) == Box(0, 0, 32, 32)
        return
    shapes = [own.shape[2:] for own in feature_maps(body, [np.zeros((32, 32, 3), np.uint8)]).values()]
    open_modules = list(positive(body.layers).children())
    for layer, (height, width) in enumerate(shapes):
        for row, column in ((0, 0), (height // 2, width // 2), (height - 1, 0)):
            assert fields.of(layer, row, column) == pixels_read(open_modules, layer, row, column)


def test_the_receptive_field_of_lenet_by_hand() -> None:
    """conv 5 then pool 2: 6 wide, 2 apart; conv 5: 6 + 4 * 2 = 14; pool 2: 16 wide, 4 apart."""
    body = build_classifier(LeNetLabelling(), ["a", "b"], "picture", 0).eval().body
    fields = ReceptiveFields(list(body.layers.children()), 3, (32, 32))
    assert fields.of(0, 3, 0) == Box(6, 0, 12, 6)
    assert fields.of(1, 2, 1) == Box(8, 4, 24, 20)


def test_excitements_are_the_largest_of_all_places() -> None:
    torch.manual_seed(0)
    body = build_classifier(ResNetLabelling(width=3, blocks=(1, 1)), ["a", "b"], "picture", 0).eval().body
    pictures = [np.random.default_rng(i).integers(0, 256, (32, 32, 3), np.uint8) for i in range(70)]
    found = excitements(body, pictures)
    assert list(found) == layer_names(body) == ["stem", "layer1", "layer2"]
    for name, maps in feature_maps(body, pictures).items():
        np.testing.assert_allclose(found[name].strengths, maps.max((2, 3)), atol=1e-5)
        i, unit = 66, 1
        own = maps[i, unit, found[name].rows[i, unit], found[name].columns[i, unit]]
        assert own == pytest.approx(maps[i, unit].max(), abs=1e-5)
        best = found[name].strongest(unit, 3)
        assert best == np.argsort(-found[name].strengths[:, unit], kind="stable")[:3].tolist()


def test_the_page_holds_all_that_it_shows_and_asks_for_nothing_else(tmp_path: Path) -> None:
    examples = [
        chainrule.LabelledPicture(chainrule.as_picture(np.full((32, 32, 3), 60 * i, np.uint8)), (str(i % 2),))
        for i in range(4)
    ]
    training = chainrule.ClassifierTrainingConfig(epochs=1)
    network = ResNetLabelling(width=4, blocks=(1,))
    model = chainrule.train_classifier(examples, network, training=training, progress=False)
    own = chainrule.Picture(np.zeros((32, 32, 3), np.uint8), "<script>alert(1)</script>")
    inside = chainrule.inspect(model, [own, *(each.input for each in examples)], units=2, patches=3, progress=False)
    assert [layer.name for layer in inside.layers] == ["stem", "layer1"]
    assert [len(unit.patches) for unit in inside.layers[0].units] == [3, 3]
    inside.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(images) == 4 + 2 * 2 * (1 + 3)  # filters; maps and patches
    for image in images:
        Image.open(io.BytesIO(base64.b64decode(image))).load()
    with pytest.raises(OutputError):
        inside.save(tmp_path / "page.html")
    with pytest.raises(SettingError, match=r"must end in \.html"):
        inside.save(tmp_path / "page.png")
    with pytest.raises(SettingError, match="at least one"):
        chainrule.inspect(model, [])
    with pytest.raises(SettingError, match="units is 0"):
        chainrule.inspect(model, [own], units=0)
    vectors = model.embed([own, examples[2].input])
    assert vectors.shape == (2, 4)
    [row] = model.classify([own])
    logits = model.classifier.head(torch.from_numpy(vectors[:1]))
    np.testing.assert_allclose(logits.log_softmax(-1).detach().numpy(), row.log_probs, atol=1e-5)
