"""Paragraphs from regions and their phrases: learned, saved, resumed and drawn; and what is wrong with files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import chainrule
from chainrule.cli.main import run
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.features.vision.network.config import ResNetLabelling

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLOURS = {"red": (220, 20, 20), "blue": (20, 20, 220)}
NETWORK = ResNetLabelling(size=(16, 32), width=4, blocks=(1, 1))
SMALL = chainrule.CaptionConfig(width=24, dropout=0.0, decoder="hierarchical")
QUICK = chainrule.TrainingConfig(steps=4, batch=8, compile="no", precision="float32", valid_share=0.1)


def scene(left: str, right: str) -> np.ndarray:
    """Two squares on white."""
    pixels = np.full((16, 32, 3), 255, np.uint8)
    pixels[4:12, 4:12], pixels[4:12, 20:28] = COLOURS[left], COLOURS[right]
    return pixels


def story(left: str, right: str) -> str:
    return f"left {left} . right {right} ."


SCENES = [(left, right) for left in COLOURS for right in COLOURS]
BOXES = [[4.0, 4.0, 12.0, 12.0], [20.0, 4.0, 28.0, 12.0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scenes.jsonl, a classifier of whole pictures, network/, and a detector, detector/, neither trained out."""
    folder, lines, labelled, boxed = tmp_path_factory.mktemp("scenes"), [], [], []
    for i in range(24):
        colours = SCENES[i % 4]
        Image.fromarray(scene(*colours)).save(folder / f"{i}.png")
        boxes = [
            {"box": box, "label": "square", "phrase": f"a {colour} square"}
            for box, colour in zip(BOXES, colours, strict=True)
        ]
        lines.append(json.dumps({"image": f"{i}.png", "captions": [story(*colours)], "boxes": boxes}) + "\n")
        picture = chainrule.as_picture(scene(*colours))
        labelled.append(chainrule.LabelledPicture(picture, (colours[0],)))
        boxed.append(chainrule.LabelledPicture(picture, chainrule.BoxLabels(BOXES, ["square"] * 2)))
    (folder / "scenes.jsonl").write_text("".join(lines))
    learning = chainrule.ClassifierTrainingConfig(epochs=3, batch=8)
    chainrule.train_classifier(labelled, NETWORK, training=learning, progress=False).save(folder / "network")
    detector = chainrule.train_classifier(boxed, NETWORK, unit="box", training=learning, progress=False)
    detector.save(folder / "detector")
    return folder


@pytest.fixture(scope="module")
def scenes(folder: Path) -> list[chainrule.CaptionedPicture]:
    return chainrule.read_captions(folder / "scenes.jsonl", with_boxes=True)


@pytest.fixture(scope="module")
def teller(folder: Path, scenes: list[chainrule.CaptionedPicture]) -> chainrule.CaptionModel:
    """Of given regions and their phrases."""
    training = replace(QUICK, steps=100, batch=24, learning_rate=0.02, optimiser="adamw")
    return chainrule.train_captions(
        scenes, SMALL, encoder=folder / "network", regions="given", phrases=True, training=training, progress=False
    )


def test_a_paragraph_tells_what_regions_show(
    teller: chainrule.CaptionModel, scenes: list[chainrule.CaptionedPicture]
) -> None:
    for captions, item in zip(teller.caption(scenes[:4], max_tokens=40), scenes, strict=False):
        assert captions[0].text == item.captions[0]
    assert teller.regions is not None
    whole, left, right = teller.regions.regions(scenes[1])
    assert whole.box == (0, 0, 32, 16)
    assert (left.box, right.box) == (tuple(BOXES[0]), tuple(BOXES[1]))
    assert (left.phrase, right.phrase) == ("a red square", "a blue square")
    turned = scenes[1]._replace(boxes=chainrule.BoxLabels(BOXES[::-1], ["square"] * 2))
    assert teller.regions.regions(turned) == [whole, left, right]  # from left to right, as they are read
    writer = teller.regions.phrases
    assert writer is not None
    networks = (teller.model.network, writer.network)
    assert teller.record["parameters"] == sum(weight.numel() for own in networks for weight in own.parameters())
    [[caption]] = teller.caption([scenes[1]], chainrule.BeamConfig(size=1), alignments=True)
    assert caption.attention is not None
    assert caption.attention.shape == (len(caption.tokens) + 1, 3)
    np.testing.assert_allclose(caption.attention.sum(1), 1, atol=1e-5)


def test_a_paragraph_stops_after_its_last_sentence(
    teller: chainrule.CaptionModel, scenes: list[chainrule.CaptionedPicture]
) -> None:
    first, second = teller.sentences(scenes[1], story("red", "blue"))
    assert (first.text, second.text) == ("left red .", "right blue .")
    assert first.stop < 0.1
    assert second.stop > 0.9
    tokens = teller.tokenizer.encode_texts(["left red ."]).ids[:-1]
    [log_probs] = teller.model.given(teller.sources([scenes[1]])).score([tokens])
    assert np.exp(log_probs[-1]) == pytest.approx(first.stop, rel=1e-3)


def test_a_model_of_regions_scores_and_is_saved(
    teller: chainrule.CaptionModel, scenes: list[chainrule.CaptionedPicture], tmp_path: Path
) -> None:
    teller.save(tmp_path / "teller")
    again = chainrule.load(tmp_path / "teller", chainrule.CaptionModel)
    for own, other in zip(teller.score(scenes[:3]), again.score(scenes[:3]), strict=True):
        assert own.tolist() == pytest.approx(other.tolist(), abs=1e-4)
    one = again.given(scenes[0]).score([story(*SCENES[0])])
    assert one.tolist() == pytest.approx(teller.score(scenes[:1])[0].tolist(), abs=1e-3)  # alone as among others
    assert again.evaluate(scenes[:4], max_tokens=40, progress=False).to_dict()["CIDEr-D"] > 0
    with pytest.raises(SettingError, match="has no boxes, but its regions are to be given"):
        again.caption([scenes[0].picture])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda settings: settings.update(regions=3), "the settings of regions are 3; expected an object"),
        (
            lambda settings: settings["regions"].update(encoder=None),
            "the encoder is None, which this version does not know",
        ),
        (lambda settings: settings["regions"]["encoder"].update(network=[]), r"the encoder is \[\], which this"),
        (lambda settings: settings["regions"]["encoder"].update(width=8), "expected float32"),
        (lambda settings: settings["regions"]["encoder"].update(blocks=[10**6]), "have 1000000 layers, but the file"),
        (
            lambda settings: settings["regions"]["encoder"].update(width=1 << 63),
            "width is 9223372036854775808; expected",
        ),
        (lambda settings: settings["regions"].update(labels=["a"]), "but the file has 0 arrays"),
        (lambda settings: settings["regions"].update(labels="a"), "but the file has 0 arrays"),
        (lambda settings: settings["regions"].update(phrases=None), "phrase_width and source_grid of the network are"),
        (lambda settings: settings["regions"]["phrases"].update(source_width=9), "expected float32"),
        (lambda settings: settings["regions"]["phrases"].pop("source_width"), "source_width is missing"),
        (lambda settings: settings["network"].update(phrase_width=1 << 30), "phrase_width"),
        (lambda settings: settings["network"].update(source_grid=[2, 2]), "expected rows and columns"),
    ],
)
def test_damaged_settings_of_regions_are_refused(
    damage: Callable[[Any], Any], message: str, teller: chainrule.CaptionModel, tmp_path: Path
) -> None:
    teller.save(tmp_path / "teller")
    config = tmp_path / "teller" / "config.json"
    whole = json.loads(config.read_text())
    damage(whole["settings"])
    config.write_text(json.dumps(whole))
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(tmp_path / "teller")


def test_each_sentence_is_drawn(
    teller: chainrule.CaptionModel, scenes: list[chainrule.CaptionedPicture], tmp_path: Path
) -> None:
    drawn = chainrule.attend_picture(teller, scenes[1], unit="sentence")
    [caption] = drawn.captions
    assert caption.tokens == ["left red .", "right blue ."]
    np.testing.assert_allclose(caption.attention.sum((1, 2)), 1, atol=1e-4)
    for name in ("page.html", "panels.svg", "panels.png"):
        drawn.save(tmp_path / name)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<figure>") == 2
    assert "A panel for each sentence" in page


def test_a_run_goes_on_in_both_phases(
    folder: Path, scenes: list[chainrule.CaptionedPicture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the phrases were learned, it resumes to the same weights as a run in one go."""
    from chainrule.features.vision import training as module

    def train(output: Path, *, steps: int = 4, resume: bool = False) -> chainrule.CaptionModel:
        return chainrule.train_captions(
            scenes,
            SMALL,
            encoder=folder / "detector",
            regions="proposed",
            phrases=True,
            training=replace(QUICK, steps=steps),
            folder=output,
            resume=resume,
            progress=False,
        )

    whole = train(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(module, "resolve_config", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts")
    assert (tmp_path / "parts" / "phrases").is_dir()
    with pytest.raises(SettingError, match="cannot resume with other settings: steps was 4 and is 8"):
        train(tmp_path / "parts", steps=8, resume=True)
    parts = train(tmp_path / "parts", resume=True)
    assert [own.tolist() for own in parts.score(scenes[:2])] == [own.tolist() for own in whole.score(scenes[:2])]


def test_a_discriminator_is_a_phase_of_its_own(
    folder: Path, scenes: list[chainrule.CaptionedPicture], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before it, a run resumes to the same weights, which are not those without it."""
    from chainrule.features.vision import training as module

    def train(output: Path, weight: float, *, resume: bool = False) -> chainrule.CaptionModel:
        return chainrule.train_captions(
            scenes,
            SMALL,
            encoder=folder / "network",
            regions="given",
            discriminator=weight,
            training=QUICK,
            folder=output,
            resume=resume,
            progress=False,
        )

    plain, judged = (train(tmp_path / str(weight), weight) for weight in (0.0, 0.5))
    assert "discriminator" not in plain.record
    assert judged.record["discriminator"] == 0.5
    with monkeypatch.context() as patch:
        patch.setattr(module, "train_adversarial", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts", 0.5)
    parts = train(tmp_path / "parts", 0.5, resume=True)
    scores = [model.score(scenes[:1])[0].item() for model in (plain, judged, parts)]
    assert scores[0] != scores[1] == scores[2]
    with pytest.raises(SettingError, match="discriminator is -1; expected 0 or more"):
        train(tmp_path / "negative", -1)
    with pytest.raises(SettingError, match="set decoder to hierarchical"):
        chainrule.train_captions(scenes, replace(SMALL, decoder="lstm"), encoder=folder / "network", discriminator=1.0)


def test_paragraphs_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, teller, page = str(folder / "scenes.jsonl"), str(folder / "teller"), folder / "sentences.html"
    train = ["train", "paragraph", "--pictures", data, "--encoder", str(folder / "detector"), "-o", teller]
    settings = ["--width", "8", "--steps", "4", "--batch", "8"]
    assert run([*train, *settings]) == 0
    assert "proposed regions and their phrases" in capsys.readouterr().out
    assert run([*train, *settings, "--resume"]) == 0
    assert (
        json.loads((folder / "teller" / "config.json").read_text())["settings"]["network"]["encoder"] == "transformer"
    )
    assert run([*train, *settings, "--reader", "none", "--resume"]) != 0
    assert "encoder was transformer and is not set" in capsys.readouterr().err
    assert run([*train[:4], "--encoder", str(folder / "network"), *train[6:], "--overwrite"]) != 0
    assert "train a classifier with --unit box, or use --regions given" in capsys.readouterr().err
    assert run([*train, *settings, "--no-phrases", "--resume"]) != 0
    assert "phrases was True and is False" in capsys.readouterr().err
    assert run(["caption", teller, str(folder / "0.png"), "--max-tokens", "30", "--paragraph", str(page)]) == 0
    assert "A panel for each sentence" in page.read_text()
    assert run(["caption", teller, str(folder), "--paragraph", str(folder / "other.html")]) != 0
    assert "--paragraph draws the sentences of one picture" in capsys.readouterr().err
    given = [*train[:-1], str(folder / "given"), *settings, "--regions", "given", "--no-phrases"]
    assert run(given) == 0
    capsys.readouterr()
    assert run(["caption", str(folder / "given"), data, "--json", "--max-tokens", "8"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(records) == 24
    assert all(0 <= sentence["stop"] <= 1 for record in records for sentence in record["sentences"])
    assert run(["caption", str(folder / "given"), str(folder / "0.png")]) != 0
    assert "this model needs the boxes of each picture" in capsys.readouterr().err
    assert run(["evaluate", str(folder / "given"), "--pictures", data, "--max-tokens", "8"]) == 0


def test_what_regions_need_is_said(folder: Path, scenes: list[chainrule.CaptionedPicture]) -> None:
    def train(**options: object) -> None:
        chainrule.train_captions(scenes, SMALL, training=QUICK, progress=False, **options)  # type: ignore[arg-type]

    for message, options in {
        "proposes no boxes; train a classifier with unit='box'": {"encoder": folder / "network", "regions": "proposed"},
        "regions need an encoder that is not trained further": {"encoder": NETWORK, "regions": "given"},
        "features keeps the vectors of a grid": {"encoder": folder / "network", "regions": "given", "features": "a"},
        "a grid has no phrases; use regions='given'": {"encoder": folder / "network", "phrases": True},
        "expected grid, given or proposed": {"encoder": folder / "network", "regions": "all"},
    }.items():
        with pytest.raises(SettingError, match=message):
            train(**options)
    without = [item._replace(boxes=None) for item in scenes]
    with pytest.raises(TextError, match="line 1: there are no boxes, whose phrases are to be learned"):
        chainrule.train_captions(without, SMALL, encoder=folder / "network", regions="given", phrases=True)
    empty = [item._replace(boxes=chainrule.BoxLabels([], [])) for item in scenes]
    with pytest.raises(TextError, match="line 1: neither here nor in what follows is there a box with a phrase"):
        chainrule.train_captions(empty, SMALL, encoder=folder / "network", regions="given", phrases=True)
    outside = [scenes[0]._replace(boxes=chainrule.BoxLabels([[0, 0, 40, 16]], ["a"]))]
    with pytest.raises(TextError, match="the box of 'a' is 0, 0, 40, 16, outside its picture of 32 x 16 pixels"):
        chainrule.train_captions(outside * 20, SMALL, encoder=folder / "network", regions="given", training=QUICK)


def test_captions_are_checked_before_phrases_are_learned(
    folder: Path, scenes: list[chainrule.CaptionedPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_nothing(*given: object) -> None:
        raise AssertionError("phrases were learned first")

    monkeypatch.setattr("chainrule.features.vision.training.train_phrases", train_nothing)
    unended = [item._replace(captions=("left red",)) for item in scenes]
    for pictures, message in ((scenes[:4], "of 4 pictures leaves nothing to train"), (unended, "has no period")):
        with pytest.raises((SettingError, TextError), match=message):
            chainrule.train_captions(
                pictures,
                SMALL,
                encoder=folder / "network",
                regions="given",
                phrases=True,
                training=QUICK,
                progress=False,
            )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"steps": 400}, {"steps": 100}),
        ({"epochs": 2.0}, {"epochs": 0.5}),
        ({"tokens": 1000}, {"tokens": 250}),
        ({"minutes": 2.0}, {"minutes": 0.5}),
        ({}, {"minutes": 1.25}),
    ],
)
def test_a_phase_has_a_quarter_of_the_budget(given: dict[str, Any], expected: dict[str, Any]) -> None:
    from chainrule.features.vision.training import phase_budget

    part = phase_budget(chainrule.TrainingConfig(**given))
    assert {name: budget for name, budget in part.items() if budget is not None} == expected
