"""Pictures with captions to a model, its captions, attention and page; and what is wrong with files."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import chainrule
from chainrule.api.conditional.picture_encoder import PictureEncoder, encode_pictures, open_encoder
from chainrule.base.progress import silent
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.neural.captioner_saving import attached_body, body_of
from chainrule.neural.config.pictures import ResNetLabelling, ViTLabelling
from chainrule.neural.saving import arrays_of
from chainrule.neural.source_vectors import vectors_of_pictures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NETWORK = ResNetLabelling(size=(12, 24), width=4, blocks=(1, 1))
SMALL = chainrule.CaptionConfig(width=16, dropout=0.0)
QUICK = chainrule.TrainingConfig(steps=3, batch=8, compile="no", precision="float32")
COLOURS = {"red": (200, 30, 30), "blue": (30, 60, 200)}


def scene(colour: str, side: str) -> np.ndarray:
    """A disc on the left or right half of a white picture."""
    picture = Image.new("RGB", (24, 12), "white")
    left = 2 if side == "left" else 14
    ImageDraw.Draw(picture).ellipse((left, 2, left + 8, 10), fill=COLOURS[colour])
    return np.asarray(picture)


def texts(written: list[list[chainrule.Caption]]) -> list[list[str]]:
    return [[caption.text for caption in several] for several in written]


SCENES = [(colour, side) for colour in COLOURS for side in ("left", "right")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """captions.jsonl with 24 pictures, and a classifier of their colours, network/."""
    folder = tmp_path_factory.mktemp("scenes")
    lines, labelled = [], []
    for i in range(24):
        colour, side = SCENES[i % 4]
        Image.fromarray(scene(colour, side)).save(folder / f"{i}.png")
        lines.append({"image": f"{i}.png", "captions": [f"a {colour} disc on the {side}", f"{side} : {colour}"]})
        labelled.append(chainrule.LabelledPicture(chainrule.as_picture(scene(colour, side)), (colour,)))
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    learning = chainrule.LabelTraining(epochs=1)
    chainrule.train_classifier(labelled, NETWORK, training=learning, progress=False).save(folder / "network")
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
    with pytest.raises(SettingError, match=r"ends in \.html, \.svg or \.png"):
        drawn.save(tmp_path / "page.pdf")
    none = chainrule.train_captions(
        captioned, replace(SMALL, attention="none"), encoder=NETWORK, training=QUICK, progress=False
    )
    with pytest.raises(SettingError, match="none: has no attention to draw"):
        chainrule.attend_picture(none, picture)


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
        training=chainrule.LabelTraining(epochs=1),
        progress=False,
    )
    with pytest.raises(SettingError, match="reads pictures of 12 x 24 pixels only"):
        open_encoder(vit, silent, size=(24,))


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
    with pytest.raises(ModelFormatError, match="captions pictures, a CaptionModel"):
        chainrule.load(tmp_path / "model", chainrule.CausalModel)
    with pytest.raises(ModelFormatError, match="expected one that captions pictures"):
        chainrule.load(folder / "network", chainrule.CaptionModel)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda settings: settings.update(encoder=None), "source_embedding.body"),
        (lambda settings: settings.update(encoder={"network": "lstm"}), "the encoder is 'lstm', which is no"),
        (lambda settings: settings.update(encoder=[1]), "the encoder is None"),
        (lambda settings: settings["encoder"].update(width=7), "6 x 12 vectors of 14 numbers, but"),
        (lambda settings: settings["encoder"].update(blocks=[10**6]), "have 1000000 layers, but the file has"),
        (lambda settings: settings["encoder"].update(colours="red"), "a setting of the network is wrong"),
        (lambda settings: settings["encoder"].update(network=["resnet"]), "is no network of pictures"),
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
        "chainrule.neural.source_vectors.vectors_of_pictures",
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
        (lambda path: path.write_bytes(b"broken"), "is no array of NumPy"),
        (lambda path: np.save(path, np.zeros((3, 4), np.float32)), r"float32 of the shape \(3, 4\); expected floats"),
        (lambda path: np.save(path, np.zeros((3, 4, 2), np.int64)), "int64 of the shape"),
        (lambda path: np.save(path, np.full((3, 4, 2), np.nan)), "numbers that are not finite"),
        (lambda path: np.save(path, np.array([object()]), allow_pickle=True), "is no array of NumPy"),
        (lambda path: None, "there is no such file"),
    ],
)
def test_bad_vectors_are_refused(write: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    write(tmp_path / "v.npy")
    with pytest.raises(TextError, match=rf"v\.npy: .*{message}"):
        open_encoder(tmp_path / "v.npy", silent)


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
