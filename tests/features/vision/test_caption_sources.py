"""What a captioner reads of a picture: the vectors of an encoder, new or kept, or those of another program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from coloured_discs import NETWORK, QUICK, SMALL, scene, texts, write_scenes

import chainrule
from chainrule.base.progress import silent
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.features.vision.network.captioner import attached_body
from chainrule.features.vision.network.config import ViTLabelling
from chainrule.features.vision.network.visual_sources import vectors_of_pictures
from chainrule.features.vision.picture_encoder import PictureEncoder, encode_pictures, open_encoder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder)
    return folder


@pytest.fixture(scope="module")
def captioned(folder: Path) -> list[chainrule.CaptionedPicture]:
    return chainrule.read_captions(folder / "captions.jsonl")


def test_a_larger_picture_has_more_places(folder: Path) -> None:
    """A ConvNet slides: the places of the left half of a wider picture are those of that half, but for the edge."""
    encoder = open_encoder(folder / "network", silent)
    wide = open_encoder(folder / "network", silent, size=(12, 48))
    assert (encoder.grid(), wide.grid()) == ((6, 12, 8), (6, 24, 8))
    assert encoder.digest() != wide.digest()
    one = chainrule.as_picture(scene("red", "left"))
    two = chainrule.as_picture(np.hstack([scene("red", "left"), scene("blue", "left")]))
    [own], [both] = encode_pictures(encoder, [one], None, silent), encode_pictures(wide, [two], None, silent)
    np.testing.assert_allclose(both.reshape(6, 24, 8)[:, :6], own.reshape(6, 12, 8)[:, :6], atol=1e-4)
    vit = chainrule.train_classifier(
        [chainrule.LabelledPicture(one, ("a",)), chainrule.LabelledPicture(two, ("b",))] * 6,
        ViTLabelling(size=(12, 24), patch=6, width=8, heads=2, layers=1),
        training=chainrule.ClassifierTrainingConfig(epochs=1),
        progress=False,
    )
    with pytest.raises(SettingError, match="reads pictures of 12 x 24 pixels only"):
        open_encoder(vit, silent, size=(24,))


def test_a_new_encoder_is_trained_with_the_rest(captioned: list[chainrule.CaptionedPicture]) -> None:
    models = [
        chainrule.train_captions(captioned, SMALL, encoder=encoder, training=QUICK, progress=False)
        for encoder in (NETWORK, ViTLabelling(size=(12, 24), patch=6, width=8, heads=2, layers=1))
    ]
    for model, grid in zip(models, [(6, 12), (2, 4)], strict=True):
        assert model.grid == grid
        assert model.record["tuned"]
        body = attached_body(model.model)
        assert body is not None
        assert (body.flip, body.shift) == (False, (0, 0))  # left and right stay what they are


def test_vectors_are_computed_once_and_only_by_their_own_encoder(
    folder: Path, captioned: list[chainrule.CaptionedPicture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, pictures = tmp_path / "vectors.safetensors", [item.picture for item in captioned if item.picture is not None]
    encoder = open_encoder(folder / "network", silent)
    first = encode_pictures(encoder, pictures[:3], cache, silent)
    assert encode_pictures(encoder, pictures, None, silent)[:3] == pytest.approx(first)
    computed: list[int] = []
    own = vectors_of_pictures
    monkeypatch.setattr(
        "chainrule.features.vision.network.visual_sources.vectors_of_pictures",
        lambda body, given, progress: (computed.append(len(given)), own(body, given, progress))[1],
    )
    again = encode_pictures(encoder, pictures[:4], cache, silent)
    np.testing.assert_array_equal(again[:3], first)
    assert computed == [1]  # the fourth
    encode_pictures(encoder, pictures[:4], cache, silent)
    assert computed == [1, 0]
    assert encoder.config is not None
    other = PictureEncoder("other", replace(encoder.config, size=(12, 23)), encoder.body)
    with pytest.raises(SettingError, match="of another encoder, or of pictures of another size"):
        encode_pictures(other, pictures, cache, silent)
    cache.write_bytes(cache.read_bytes()[:-7])
    with pytest.raises(ModelFormatError, match=r"vectors\.safetensors"):
        encode_pictures(encoder, pictures, cache, silent)


def test_vectors_of_another_program_are_sources_too(
    folder: Path, captioned: list[chainrule.CaptionedPicture], tmp_path: Path
) -> None:
    rows = np.random.default_rng(0).normal(size=(24, 2, 3, 5)).astype(np.float32)
    np.save(tmp_path / "v.npy", rows)
    only_texts = chainrule.read_captions(folder / "captions.jsonl", with_pictures=False)
    model = chainrule.train_captions(only_texts, SMALL, encoder=tmp_path / "v.npy", training=QUICK, progress=False)
    assert (model.grid, model.encoder) == ((2, 3), None)
    assert model.given(rows[0]).vocabulary_size == model.tokenizer.vocabulary_size
    assert model.evaluate(only_texts[:2], vectors=rows[:2].reshape(2, 6, 5), progress=False).scores.texts == 2
    model.save(tmp_path / "model")
    loaded = chainrule.load(tmp_path / "model", chainrule.CaptionModel)
    assert texts(loaded.caption([rows[1]])) == texts(model.caption([rows[1]]))
    for given, message in [
        (scene("red", "left"), "trained on vectors, not on pictures"),
        (rows[0, :, :, :4], r"float32 of the shape \(6, 4\); expected float32 of \(6, 5\)"),
    ]:
        with pytest.raises(SettingError, match=message):
            model.caption([given])
    np.save(tmp_path / "few.npy", rows[:5])
    with pytest.raises(SettingError, match="of 5 pictures, but there are captions of 24"):
        chainrule.train_captions(only_texts, SMALL, encoder=tmp_path / "few.npy", training=QUICK, progress=False)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: path.write_bytes(b"broken"), "is not a NumPy array"),
        (lambda path: np.save(path, np.zeros((3, 4), np.float32)), r"float32 of the shape \(3, 4\); expected floats"),
        (lambda path: np.save(path, np.zeros((3, 4, 2), np.int64)), "int64 of the shape"),
        (lambda path: np.save(path, np.full((3, 4, 2), np.nan)), "numbers that are not finite"),
        (lambda path: np.save(path, np.array([object()]), allow_pickle=True), "is not a NumPy array"),
        (lambda path: None, "there is no such file"),
    ],
)
def test_bad_vectors_are_refused(write: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    write(tmp_path / "v.npy")
    with pytest.raises(TextError, match=rf"v\.npy: .*{message}"):
        open_encoder(tmp_path / "v.npy", silent)
