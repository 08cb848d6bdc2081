"""Two-dimensional LSTMs: diagonals against cell by cell, pixels of NLVR's scenes, and bits per dimension of pictures.

python bench/grids.py --parts diagonals
python bench/grids.py --parts segmentation --scenes OUT       OUT: as bench/nlvr_pixels.py wrote it
python bench/grids.py --parts pixels --pictures cifar10.zip --minutes 4
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from machine import circumstances
from torch import nn

import chainrule
from chainrule.features.vision.network.config import GridLabelling, LeNetLabelling
from chainrule.features.vision.network.grid_layers import GridLayer, wire_grids
from chainrule.features.vision.pictures.labelled import read_pixel_labels
from chainrule.training.config import ClassifierTrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.features.vision.network.grid_layers import Wiring

SIZE = (100, 400)  # of NLVR's scenes
GRID = GridLabelling(size=SIZE, patch=4, width=96)
CONVOLUTION = LeNetLabelling(  # of as many weights, and as many pixels of context as fit
    size=SIZE, channels=(32, 48, 62, 62), kernels=(5, 3, 3, 3), pooled=(1, 2), pooling="max", padded=True,
    activation="relu", hidden=(), width=96,
)  # fmt: skip


def cell_by_cell(layer: GridLayer, x: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The textbook's loops over the cells of grids of one size, from each corner. x: (B h w, I)."""
    results = []
    own = layer.own(x).view(-1, height, width, len(layer.of_neighbours), layer.cell.gates * layer.width // 4)
    for k, neighbours in enumerate(layer.of_neighbours):
        weight = cast("nn.Linear", neighbours).weight
        nothing = x.new_zeros(1, len(own), weight.shape[1] // 2)
        states: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        down, right = (1, -1)[k // 2], (1, -1)[k % 2]
        for i in range(height)[::down]:
            for j in range(width)[::right]:
                left = states.get((i, j - right), (nothing, nothing))
                above = states.get((i - down, j), (nothing, nothing))
                gates = own[None, :, i, j, k] + layer.cell.read(left[0], above[0]) @ weight.T
                states[i, j] = layer.cell(gates, left[1], above[1])
        rows = [torch.stack([states[i, j][0][0] for j in range(width)], 1) for i in range(height)]
        results.append(torch.stack(rows, 1))
    return torch.cat(results, 3).flatten(0, 2)


def measure_diagonals(options: argparse.Namespace) -> None:
    """Forward and back, with one thread."""
    torch.set_num_threads(1)
    for batch, height, width in ((1, 32, 32), (16, 32, 32), (4, 25, 100)):
        torch.manual_seed(0)
        layer = GridLayer(12, 24, "lstm", 4)
        x = torch.randn(batch * height * width, 12)
        wiring = partial(wire_grids, [(height, width)] * batch, 4, x.device)
        own, found = timed(partial(by_diagonals, layer, x, wiring), 3)
        other, expected = timed(partial(cell_by_cell, layer, x, height, width), 1)
        print(
            f"{batch} grids of {height} x {width}, width 24, four corners: {1e3 * own:.0f} ms by diagonals, "
            f"{1e3 * other:.0f} ms cell by cell, {other / own:.0f} times; greatest difference "
            f"{float((found - expected).abs().max()):.1e}",
            flush=True,
        )


def by_diagonals(layer: GridLayer, x: torch.Tensor, wiring: Callable[[], Wiring]) -> torch.Tensor:
    return cast("torch.Tensor", layer(x, wiring()))


def timed(run: Callable[[], torch.Tensor], times: int) -> tuple[float, torch.Tensor]:
    """The best of several times of a run and its gradients, in seconds; and its result."""
    best = math.inf
    for _ in range(times):
        began = time.perf_counter()
        found = run()
        found.square().sum().backward()
        best = min(best, time.perf_counter() - began)
    return best, found.detach()


def measure_segmentation(options: argparse.Namespace) -> None:
    """Which pixels are background, square, circle or triangle: the share that is right, of all and of the shapes'."""
    train, valid = (read_pixel_labels(options.scenes / f"{part}.jsonl") for part in ("train", "valid"))
    training = ClassifierTrainingConfig(batch=4, learning_rate=5e-3, minutes=options.minutes, valid_share=0.05)
    for name, config in {"2-D LSTM": GRID, "convolutions": CONVOLUTION}.items():
        if name not in options.networks:
            continue
        began = time.perf_counter()
        model = chainrule.train_classifier(train, config, unit="pixel", training=training, progress=False)
        seconds = time.perf_counter() - began
        found = model.assess(valid)
        low, high = found.accuracy.interval
        print(
            f"{name}: {100 * found.accuracy.share:.2f} % of pixels ({100 * low:.2f} to {100 * high:.2f}); "
            + ", ".join(f"{label} F1 {100 * f1:.1f}" for label, f1 in zip(found.labels, found.f1, strict=True))
            + f"; {model.record['parameters']:,} parameters, {model.record['epochs']} epochs of {len(train)} scenes in "
            f"{seconds:.0f} s",
            flush=True,
        )
        if options.out is not None:
            model.save(options.out / name.replace(" ", "-"))


def measure_pixels(options: argparse.Namespace) -> None:
    """Bits per dimension of CIFAR-10 in 16 x 16 pixels and 16 shades of grey, the end of each picture included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(options.pictures) as file:
            file.extractall(folder)
        for part in ("train", "test"):
            chainrule.write_pixels(folder / part, folder / f"{part}.txt", size=(16, 16), levels=16, progress=False)
        networks = {
            "2-D LSTM": chainrule.GridConfig(columns=16, width=160, embedding_width=48, context=514),
            "LSTM": chainrule.RecurrentConfig(layers=1, width=288, embedding_width=48, context=514, memory="document"),
        }
        for name, config in networks.items():
            if name not in options.networks:
                continue
            training = chainrule.TrainingConfig(
                minutes=options.minutes, optimiser="adamw", learning_rate=4e-3, batch=12
            )
            model = chainrule.train(
                folder / "train.txt", config, tokenizer="whitespace", training=training, progress=False
            )
            found = model.evaluate(folder / "test.txt", progress=False)
            print(
                f"{name}: {-found.log_prob / math.log(2) / (256 * 2000):.4f} bits per dimension; "
                f"{model.record['parameters']:,} parameters, "
                f"{model.record['tokens_seen'] / model.record['tokens']:.2f} epochs in "
                f"{model.record['training_seconds']:.0f} s",
                flush=True,
            )
            if options.out is not None:
                model.save(options.out / f"pixels-{name.replace(' ', '-')}")
                texts = model.sample("", 16, seed=1, limits=chainrule.Limits(max_tokens=256, min_tokens=256))
                (options.out / f"{name.replace(' ', '-')}.txt").write_text("".join(f"{text.text}\n" for text in texts))


PARTS = {"diagonals": measure_diagonals, "segmentation": measure_segmentation, "pixels": measure_pixels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--scenes", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--networks", nargs="+", default=["2-D LSTM", "convolutions", "LSTM"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    print(circumstances(), flush=True)
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
