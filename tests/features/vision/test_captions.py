"""Pictures with captions to a model, its captions, attention and page; and what is wrong with its files."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from coloured_discs import COLOURS, NETWORK, QUICK, SMALL, scene, texts, write_scenes
from PIL import Image

import chainrule
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.features.vision.network.captioner import attached_body, body_of
from chainrule.features.vision.network.config import ViTLabelling
from chainrule.features.vision.network.visual_sources import vectors_of_pictures
from chainrule.neural.saving import arrays_of

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


@pytest.fixture(scope="module")
def frozen(folder: Path, captioned: list[chainrule.CaptionedPicture]) -> chainrule.CaptionModel:
    training = replace(QUICK, steps=120, learning_rate=0.01, optimiser="adamw")
    return chainrule.train_captions(
        captioned, replace(SMALL, width=32), encoder=folder / "network", training=training, progress=False
    )


def test_a_picture_has_a_captioner_of_its_own_words(
    frozen: chainrule.CaptionModel, captioned: list[chainrule.CaptionedPicture]
) -> None:
    """What it has learned by heart is the right sentence for each of the four scenes."""
    for captions, item in zip(frozen.caption([item.picture for item in captioned[:4]]), captioned, strict=False):
        assert captions[0].text in item.captions
        assert captions[0].ending == "end"
    measured = frozen.evaluate(captioned[:8], progress=False)
    assert measured.to_dict()["BLEU-1"] == pytest.approx(100)
    assert measured.to_dict()["pictures"] == 8
    texts_only = [item._replace(picture=None) for item in captioned[:8]]
    vectors = np.stack(frozen.vectors([item.picture for item in captioned[:8]]))
    assert frozen.evaluate(texts_only, vectors=vectors, progress=False).to_dict() == measured.to_dict()
    scores = frozen.score(captioned[:2], progress=False)
    for item, own in zip(captioned, scores, strict=False):
        given = frozen.given(item.picture)
        assert given.score(list(item.captions)).tolist() == pytest.approx(own.tolist(), abs=1e-4)


def test_given_its_picture_a_captioner_mixes_with_an_ngram_model(
    frozen: chainrule.CaptionModel, captioned: list[chainrule.CaptionedPicture], tmp_path: Path
) -> None:
    """The n-gram model expects both colours alike; what the picture shows decides."""
    frozen.save(tmp_path / "captioner")
    lines = [caption for item in captioned for caption in item.captions]
    (tmp_path / "captions.txt").write_text("".join(line + "\n" for line in lines))
    ngram = chainrule.train(tmp_path / "captions.txt", tokenizer=str(tmp_path / "captioner"), progress=False)
    both = ["a red disc on the left", "a blue disc on the left"]
    red, blue = ngram.score(both)
    assert red == pytest.approx(blue)
    for colour in COLOURS:
        given = frozen.given(scene(colour, "left"))
        mixture = chainrule.mix([given, ngram], chainrule.MixtureConfig(weights=(0.5, 0.5)))
        red, blue = mixture.score(both)
        assert (red > blue) == (colour == "red")
        prefix = mixture.tokenizer.encode_texts(["a"]).ids[:-1]
        chances = np.exp(mixture.engine.next_log_probs(mixture.engine.start([prefix])), dtype=np.float64)
        assert chances.sum() == pytest.approx(1, abs=1e-5)


def test_attention_is_a_distribution_over_the_places_for_each_token(frozen: chainrule.CaptionModel) -> None:
    [[caption]] = frozen.caption([scene("red", "left")], chainrule.BeamConfig(size=1), alignments=True)
    assert caption.attention is not None
    assert caption.attention.shape == (len(caption.tokens) + 1, *frozen.grid)  # with </s>
    np.testing.assert_allclose(caption.attention.sum((1, 2)), 1, atol=1e-5)


def test_attention_is_drawn_on_the_picture(
    frozen: chainrule.CaptionModel, captioned: list[chainrule.CaptionedPicture], tmp_path: Path
) -> None:
    hard = chainrule.train_captions(
        captioned, replace(SMALL, attention="hard"), encoder=NETWORK, training=QUICK, progress=False
    )
    picture = scene("red", "left")
    drawn = chainrule.attend_picture({"soft": frozen, "<hard>": hard}, picture, "a red disc on the left")
    assert drawn.picture.shape == (108, 216, 3)  # nine times what the network reads, without a change of shape
    for caption, model in zip(drawn.captions, (frozen, hard), strict=True):
        assert caption.tokens == ["a", "red", "disc", "on", "the", "left", "</s>"]
        [[own]] = model.caption([picture], chainrule.BeamConfig(size=1), alignments=True, max_tokens=1)
        assert own.attention is not None
        np.testing.assert_allclose(own.attention[0], caption.attention[0], atol=1e-5)  # before its first token
    for name in ("page.html", "panels.svg", "panels.png"):
        drawn.save(tmp_path / name)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<figure>") == 14
    assert "&lt;hard&gt;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    with Image.open(tmp_path / "panels.png") as shown:
        assert shown.size[0] > 1000
    written = chainrule.attend(frozen, picture)
    assert written.captions[0].text == frozen.caption([picture])[0][0].text
    with pytest.raises(SettingError, match=r"must end in \.html, \.svg or \.png"):
        drawn.save(tmp_path / "page.pdf")
    none = chainrule.train_captions(
        captioned, replace(SMALL, attention="none"), encoder=NETWORK, training=QUICK, progress=False
    )
    with pytest.raises(SettingError, match="none: has no attention to draw"):
        chainrule.attend_picture(none, picture)


@pytest.mark.thorough
def test_a_hierarchical_decoder_writes_sentence_by_sentence(folder: Path) -> None:
    """Two sentences of the left half and the right half, which a topic each has to keep apart."""
    halves = [(one, other) for one in COLOURS for other in COLOURS]
    pictures = [
        chainrule.CaptionedPicture(
            chainrule.as_picture(np.hstack([scene(one, "left")[:, :12], scene(other, "right")[:, 12:]])),
            (f"on the left is a {one} disc . on the right is a {other} disc .",),
        )
        for one, other in halves * 6
    ]
    model = chainrule.train_captions(
        pictures,
        replace(SMALL, width=32, decoder="hierarchical"),
        encoder=ViTLabelling(size=(12, 24), patch=6, width=16, heads=2, layers=1, dropout=0.0),
        training=replace(QUICK, steps=150, learning_rate=0.01, valid_share=0.1),
        progress=False,
    )
    assert model.tokenizer.vocabulary.token(model.model.network.config.sentence_end) == "."
    for captions, item in zip(model.caption([item.picture for item in pictures[:4]]), pictures, strict=False):
        assert captions[0].text in item.captions
    with pytest.raises(SettingError, match="the vocabulary has no period"):
        chainrule.train_captions(
            chainrule.read_captions(folder / "captions.jsonl"),
            replace(SMALL, decoder="hierarchical"),
            encoder=NETWORK,
            training=QUICK,
            progress=False,
        )


def test_a_captioner_with_a_patch_transformer_is_opened_again(tmp_path: Path) -> None:
    """Its folder was refused: on the device that has shapes only, attention asked for the state of autocast."""
    pictures = [
        chainrule.CaptionedPicture(chainrule.as_picture(scene(colour, "left")), (colour,))
        for colour in ("blue", "red") * 10
    ]
    encoder = ViTLabelling(size=(8,), patch=4, width=8, layers=1, heads=2)
    model = chainrule.train_captions(pictures, SMALL, encoder=encoder, training=QUICK, progress=False)
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model", chainrule.CaptionModel)
    assert texts(again.caption([pictures[0].picture])) == texts(model.caption([pictures[0].picture]))


def test_an_encoder_that_is_kept_does_not_change_and_is_saved_with_the_rest(
    frozen: chainrule.CaptionModel, folder: Path, tmp_path: Path
) -> None:
    network = chainrule.load(folder / "network", chainrule.ClassifierModel).classifier
    body = attached_body(frozen.model)
    assert body is not None
    before, after = arrays_of(body_of(network).layers), arrays_of(body.layers)
    assert before.keys() == after.keys()
    for name, array in before.items():  # the running means of batch normalisation, too
        np.testing.assert_array_equal(array, after[name])
    frozen.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    assert isinstance(again, chainrule.CaptionModel)
    picture = scene("blue", "right")
    assert texts(again.caption([picture])) == texts(frozen.caption([picture]))
    assert chainrule.info(tmp_path / "model").family == "caption"
    vectors = vectors_of_pictures(body.eval(), [picture])
    assert again.caption([vectors[0]])[0][0].text == again.caption([picture])[0][0].text
    with pytest.raises(SettingError, match=r"captions pictures .* this takes one that continues texts"):
        chainrule.load(tmp_path / "model", chainrule.CausalModel)
    with pytest.raises(SettingError, match="this takes one that captions pictures"):
        chainrule.load(folder / "network", chainrule.CaptionModel)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda settings: settings.update(encoder=None), "source_embedding.body"),
        (
            lambda settings: settings.update(encoder={"network": "lstm"}),
            "the encoder is 'lstm', which this version does not know",
        ),
        (lambda settings: settings.update(encoder=[1]), "the encoder is None"),
        (lambda settings: settings["encoder"].update(width=7), "6 x 12 vectors of 14 numbers, but"),
        (lambda settings: settings["encoder"].update(blocks=[10**6]), "have 1000000 layers, but the file has"),
        (lambda settings: settings["encoder"].update(colours="red"), "a setting of the network is wrong"),
        (lambda settings: settings["encoder"].update(network=["resnet"]), "as a network of pictures"),
        (lambda settings: settings["encoder"].update(size=[24, 24]), "but the network reads 6 x 12 of"),
        (lambda settings: settings["network"].pop("source_width"), "source_width is missing"),
        (lambda settings: settings["network"].update(source_grid=[9, 9]), "expected rows and columns"),
        (lambda settings: settings["network"].update(source_grid=[6]), "expected rows and columns"),
        (lambda settings: settings["network"].update(source_width=1 << 40), "source_width"),
        (lambda settings: settings["network"].update(decoder="lstmm"), "decoder is 'lstmm'"),
        (lambda settings: settings.pop("network"), "expected an object"),
    ],
)
def test_a_damaged_folder_is_refused(
    damage: Callable[[Any], Any], message: str, frozen: chainrule.CaptionModel, tmp_path: Path
) -> None:
    frozen.save(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    whole = json.loads(config.read_text())
    damage(whole["settings"])
    config.write_text(json.dumps(whole))
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(tmp_path / "model")


def test_truncated_arrays_are_refused(frozen: chainrule.CaptionModel, tmp_path: Path) -> None:
    frozen.save(tmp_path / "model")
    [arrays] = (tmp_path / "model").glob("arrays-*")
    data = arrays.read_bytes()
    for size in (0, 7, len(data) // 2, len(data) - 1):
        arrays.write_bytes(data[:size])
        with pytest.raises(ModelFormatError, match="it was cut off or changed"):
            chainrule.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("config", "encoder"),
    [
        (replace(SMALL, dropout=0.1, doubly_stochastic=1.0, gate=True), "network"),
        (replace(SMALL, attention="hard", estimator="reinforce", entropy=0.01, soft_share=0.5), NETWORK),
        (replace(SMALL, decoder="transformer", heads=2), "network"),
    ],
    ids=["soft", "hard, tuned", "transformer"],
)
def test_an_interrupted_run_goes_on_bit_for_bit(
    config: chainrule.CaptionConfig, encoder: Any, folder: Path, captioned: list[Any], tmp_path: Path
) -> None:
    encoder = folder / encoder if isinstance(encoder, str) else encoder
    training = replace(QUICK, steps=6, save_every=2)

    def trained(**more: Any) -> chainrule.CaptionModel:
        return chainrule.train_captions(captioned, config, encoder=encoder, training=training, **more)

    whole = trained(progress=False)

    def interrupt(report: Any) -> None:
        if report.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trained(folder=tmp_path / "run", on_report=interrupt)
    resumed = trained(folder=tmp_path / "run", resume=True, progress=False)
    ours, theirs = (arrays_of(model.model.network) for model in (whole, resumed))
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])
    others = captioned[1:]
    with pytest.raises(SettingError, match="pictures"):
        chainrule.train_captions(
            others, config, encoder=encoder, training=training, folder=tmp_path / "run", resume=True, progress=False
        )


def test_settings_that_do_not_suit_are_refused(folder: Path, captioned: list[chainrule.CaptionedPicture]) -> None:
    for settings, message in [
        ({"encoder": "lstm"}, "there is no encoder 'lstm'; expected lenet"),
        ({"encoder": "resnet", "tuned": False}, "has no trained weights to keep"),
        ({"encoder": NETWORK, "features": folder / "v.safetensors"}, "not tuned; leave it out"),
        ({"encoder": folder / "network", "config": replace(SMALL, width=16, shared="none"), "validation": []}, None),
    ]:
        error = SettingError if message else TextError
        with pytest.raises(error, match=message or "no captioned pictures"):
            chainrule.train_captions(captioned, training=QUICK, progress=False, **settings)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="of 1 pictures leaves nothing to train"):
        chainrule.train_captions(captioned[:1], encoder=folder / "network", training=QUICK, progress=False)
    for bad, message in [
        ({"attention": "hard", "decoder": "transformer"}, "a transformer decoder has soft attention only"),
        ({"gate": True, "attention": "none"}, "need attention"),
        ({"entropy": 0.1}, "for hard attention"),
        ({"deep_output": True, "decoder": "transformer"}, "for recurrent decoders"),
        ({"shared": "all", "source_width": 3, "source_grid": (1, 512)}, "sources are vectors, not tokens"),
        ({"source_width": 3}, "and 4 that say where it is"),
        ({"source_width": 9, "source_grid": (2,)}, "expected rows and columns"),
    ]:
        with pytest.raises(SettingError, match=message):
            chainrule.CaptionConfig(**bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="several pictures"):
        chainrule.CaptionModel.caption(None, "a.png")  # type: ignore[arg-type]
