"""Networks that label pictures, on CIFAR-10: how right they are after some minutes, and what a picture costs them.

    python bench/images.py FOLDER [--networks resnet torchvision ...] [--minutes 10] [--seed 0] [--batch 64]

FOLDER holds train/ and test/, each a folder of class folders. Every network is trained by the same loop, with the same
augmentation. `torchvision` is torchvision's resnet18: the ResNet of depth 18 with the large stem, whose outputs
tests/features/vision/test_picture_networks.py shows to be equal; `resnet` has as many multiplications, for small
pictures.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from machine import circumstances

import chainrule
from chainrule import ClassifierTrainingConfig
from chainrule.features.classify.network.build import build_classifier
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.vision.network.config import ResNetLabelling

if TYPE_CHECKING:
    from chainrule.features.vision.network.config import PictureLabelling

OWN: dict[str, PictureLabelling] = {
    "resnet": ResNetLabelling(width=24, blocks=(1, 1, 1, 1)),
    "torchvision": ResNetLabelling(depth=18, stem="large", starts_as_identity=False),
}


def multiplications(config: PictureLabelling) -> int:
    """Multiply-adds of one picture."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    body = build_classifier(config, ["a", "b"], "picture", 0).body.eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        body.layers(torch.zeros(1, config.frame.channels, config.frame.height, config.frame.width))
    return int(counter.get_total_flops()) // 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="+", default=["resnet", "torchvision"])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    given = parser.parse_args()
    print(circumstances())
    train, test = (chainrule.read_pictures(given.folder / part) for part in ("train", "test"))
    training = ClassifierTrainingConfig(minutes=given.minutes, batch=given.batch, seed=given.seed, patience=100)
    print(f"{len(train):,} pictures to train on, {len(test):,} to test on; {training}\n")
    for name in given.networks:
        config = OWN[name] if name in OWN else LABELLING[name]()
        cost = multiplications(config)  # type: ignore[arg-type]
        began, processor = time.perf_counter(), time.process_time()
        model = chainrule.train_classifier(train, config, training=training, progress=False)
        seconds, busy = time.perf_counter() - began, time.process_time() - processor
        result = model.assess(test, progress=False)
        low, high = result.accuracy.interval
        record = model.record
        print(
            f"{name:<12} {record['parameters']:>10,} parameters {cost / 1e6:>7.1f} M multiply-adds a picture; "
            f"{record['steps']:,} steps, {record['epochs']} epochs, {seconds:.0f} s ({busy:.0f} s of processor): "
            f"{result.accuracy.share:.2%} right ({100 * low:.2f} to {100 * high:.2f} at 95 %), {result.nats:.4f} nats",
            flush=True,
        )


if __name__ == "__main__":
    main()
