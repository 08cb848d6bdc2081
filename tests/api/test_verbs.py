"""Every verb of the command line has its function in `chainrule`, and both give the same."""

from __future__ import annotations

import inspect
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.cli.main import app, run, train

if TYPE_CHECKING:
    from collections.abc import Callable

GUIDE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
TABLE = dict(re.findall(r"^\| `([a-z0-9 ]+(?:-[a-z]+)?)` \| (.*) \|$", GUIDE.partition("|---|---|")[2], re.MULTILINE))
FUNCTIONS = sorted({name for cell in TABLE.values() for name in re.findall(r"`([\w.]+)`", cell)} - {"NGramConfig"})
NETWORK = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=16)
ONE_STEP = chainrule.TrainingConfig(steps=1, compile="no")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """An n-gram model, a network, and a seq2seq model: lm, net and mt; train.txt and heldout.txt."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("train.txt", "heldout.txt"):
        (folder / name).write_bytes((fixtures / name).read_bytes())
    chainrule.train(folder / "train.txt", chainrule.NGramConfig(order=2)).save(folder / "lm")
    chainrule.train(folder / "train.txt", NETWORK, training=ONE_STEP).save(folder / "net")
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    small = chainrule.Seq2SeqConfig(width=16)
    chainrule.train_pairs(pairs, small, training=ONE_STEP).save(folder / "mt")
    return folder


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints on standard output."""

    def call(*arguments: object) -> str:
        capsys.readouterr()
        assert run([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return call


def test_the_table_has_every_verb() -> None:
    verbs = {name for name in app if not name.startswith("-")}
    assert len(verbs) > 25
    assert TABLE.keys() == verbs | {
        *("train caption", "train channel", "train classifier", "train seq2seq", "train speech"),
    }
    assert {name for name in train if not name.startswith("-")} > {"seq2seq"}  # the others are `train`, by settings


TRAINED = {  # by the verb of `train`: its function, and the class of settings that makes it
    "ngram": ("train", "NGramConfig"),
    "bilinear": ("train", "BilinearConfig"),
    "bag": ("train", "BagConfig"),
    "feedforward": ("train", "FeedforwardConfig"),
    "convolution": ("train", "ConvolutionConfig"),
    "recurrent": ("train", "RecurrentConfig"),
    "grid": ("train", "GridConfig"),
    "transformer": ("train", "TransformerConfig"),
    "tree": ("train", "TreeConfig"),
    "masked": ("train", "MaskedConfig"),
    "masked-recurrent": ("train", "MaskedRecurrentConfig"),
    "bidirectional": ("train", "BidirectionalConfig"),
    "uniform": ("train", "UniformConfig"),
    "seq2seq": ("train_pairs", "Seq2SeqConfig"),
    "caption": ("train_captions", "CaptionConfig"),
    "paragraph": ("train_captions", "CaptionConfig"),
    "speech": ("train_speech", "SpeechConfig"),
    "classifier": ("train_classifier", None),  # a configuration, or its name
    "channel": ("train_channel", None),
    "vectors": ("train_vectors", "VectorsConfig"),
}
SCREENS = {"lsp"}  # a program of its own: chainrule.editors


def test_every_model_that_train_lists_has_its_function_and_its_settings() -> None:
    assert TRAINED.keys() == {name for name in train if not name.startswith("-")}
    for verb, (function, config) in TRAINED.items():
        parameters = inspect.signature(getattr(chainrule, function)).parameters
        if config is not None:
            assert config in chainrule.__all__, verb
            assert "config" in parameters, verb


def test_no_function_of_a_verb_is_the_command_line_s() -> None:
    """`api` and the rooms above it do the work; the command line reads arguments and prints."""
    for verb, cell in TABLE.items():
        names = [name for name in re.findall(r"`([\w.]+)`", cell) if name.split(".")[0] in chainrule.__all__]
        assert names or verb in SCREENS, verb
        for name in names:
            home: Any = chainrule
            for part in name.split("."):
                home = getattr(home, part)
            assert home.__module__.startswith("chainrule."), name
            assert not home.__module__.startswith("chainrule.cli"), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_the_table_is_there_typed_and_documented(name: str) -> None:
    function: Any = chainrule
    for part in name.split("."):
        function = getattr(function, part)
    if isinstance(function, type):
        return
    assert inspect.getdoc(function)
    parameters = inspect.signature(function).parameters.values()
    assert all(one.annotation is not one.empty for one in parameters if one.name != "self")
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


def test_all_public_names_are_there_and_no_module_hides_one() -> None:
    for name in chainrule.__all__:
        assert not inspect.ismodule(getattr(chainrule, name)), name
    from chainrule.features.compare import compare  # noqa: F401
    from chainrule.features.correct import noise  # noqa: F401 (importing them must not hide the functions)

    assert callable(chainrule.compare)
    assert callable(chainrule.filter)


def test_load_opens_what_a_folder_or_a_file_holds(folder: Path, fixtures: Path) -> None:
    assert chainrule.load(folder / "lm").family == "ngram"
    assert chainrule.load(folder / "net").family == "transformer"
    assert chainrule.load(fixtures / "order1.arpa.gz").vocabulary_size > 3
    assert isinstance(chainrule.load(folder / "mt"), chainrule.Seq2SeqModel)
    assert chainrule.load(folder / "mt", chainrule.Seq2SeqModel).write(["ein Hund"], max_tokens=2)
    with pytest.raises(chainrule.SettingError, match="mt: a model of family 'conditional' writes texts"):
        chainrule.load(folder / "mt", chainrule.Model)
    with pytest.raises(chainrule.SettingError, match="lm: a model of family 'ngram' continues texts; this takes"):
        chainrule.load(folder / "lm", chainrule.Seq2SeqModel)
    with pytest.raises(chainrule.SettingError, match="mt: a seq2seq model takes no tokenizer"):
        chainrule.load(folder / "mt", tokenizer="word")
    with pytest.raises(chainrule.SettingError, match="kind is 3; expected a class of models"):
        chainrule.load(folder / "lm", 3)  # type: ignore[call-overload]
    with pytest.raises(chainrule.ModelFormatError, match="nowhere: there is no such folder or file"):
        chainrule.load(folder / "nowhere")


def test_adapt_trains_a_network_on(folder: Path) -> None:
    adapted = chainrule.adapt(folder / "net", folder / "heldout.txt", training=ONE_STEP)
    assert adapted.record["start"] == str(folder / "net")
    assert adapted.tokenizer.vocabulary.tokens() == chainrule.load(folder / "net").tokenizer.vocabulary.tokens()
    with pytest.raises(chainrule.SettingError, match="mt: a seq2seq model cannot be trained further on plain text"):
        chainrule.adapt(folder / "mt", folder / "heldout.txt")
    with pytest.raises(chainrule.SettingError, match="lm: an n-gram model cannot be trained further"):
        chainrule.adapt(folder / "lm", folder / "heldout.txt")


def test_attend_gives_the_maps_that_the_verb_draws(folder: Path, tmp_path: Path, printed) -> None:
    maps = chainrule.attend(chainrule.load(folder / "net"), "a b")
    [found] = maps.maps
    assert found.weights.shape == (2, 3, 3)  # heads, </s> and two words
    np.testing.assert_allclose(found.weights.sum(axis=2), 1, atol=1e-5)
    maps.save(tmp_path / "python.html")
    printed("attend", folder / "net", "a b", "-o", tmp_path / "verb.html")
    assert (tmp_path / "python.html").read_bytes() == (tmp_path / "verb.html").read_bytes()
    with pytest.raises(chainrule.OutputError, match="exists already"):
        maps.save(tmp_path / "python.html")
    with pytest.raises(chainrule.SettingError, match=r"maps.png: the name of a page or a picture must end in"):
        maps.save(tmp_path / "maps.png")
    with pytest.raises(chainrule.SettingError, match="a language model reads one text"):
        chainrule.attend(chainrule.load(folder / "net"), "a", "b")
    pairs = chainrule.attend(chainrule.load(folder / "mt", chainrule.Seq2SeqModel), "ein Hund", "a dog")
    looks = next(one for one in pairs.maps if one.title.startswith("target on source"))
    assert list(looks.columns) == ["ein", "Hund", "</s>"]


def test_compare_measures_as_the_verb_does(folder: Path, printed) -> None:
    models = [folder / "lm", folder / "net"]
    comparison = chainrule.compare(models, folder / "heldout.txt")
    rows = json.loads(printed("compare", *models, "--text", folder / "heldout.txt", "--json"))
    assert [row["model"] for row in rows] == [str(model) for model in models]
    for row, record in zip(rows, comparison.to_records(), strict=True):
        assert (row["model"], row["bits_per_byte"]) == (record["model"], record["bits_per_byte"])
        assert all(isinstance(value, int | float | str | None) for value in record.values())
    named = chainrule.compare({"old": chainrule.load(folder / "lm")}, folder / "heldout.txt")
    assert named.best.name == "old"
    for nothing in ([], {}):
        with pytest.raises(chainrule.SettingError, match="there is no model to compare"):
            chainrule.compare(nothing, folder / "heldout.txt")
    with pytest.raises(chainrule.SettingError, match=r"there are two models called .*lm; expected different names"):
        chainrule.compare([folder / "lm", folder / "lm"], folder / "heldout.txt")
    with pytest.raises(chainrule.SettingError, match="takes several models"):
        chainrule.compare(str(folder / "lm"), folder / "heldout.txt")


def test_families_and_smoothings_are_compared_as_the_verb_does(folder: Path, printed) -> None:
    text, heldout = folder / "train.txt", folder / "heldout.txt"
    families = chainrule.compare_families(text, order=2)
    rows = json.loads(printed("compare", text, "--order", 2, "--json"))
    assert [row["bits_per_byte"] for row in rows] == [row["bits_per_byte"] for row in families.to_records()]
    table = chainrule.compare_smoothings(text, heldout, smoothings=["lidstone", "witten-bell"], order=2)
    command = ("compare", text, "--heldout", heldout, "--smoothing", "lidstone", "witten-bell", "--order", 2)
    assert printed(*command).endswith(f"\n\n{table}\n")
    assert len(table.to_records()) == 4


def test_filter_keeps_what_the_verb_keeps(folder: Path, tmp_path: Path, printed) -> None:
    model = chainrule.load(folder / "lm")
    found = chainrule.filter(folder / "heldout.txt", model, keep=0.3)
    out = tmp_path / "likely.txt"
    figures = json.loads(
        printed("filter", folder / "heldout.txt", "--model", folder / "lm", "--keep", 0.3, "-o", out, "--json")
    )
    assert out.read_text().splitlines() == found.texts
    assert (figures["documents"], figures["kept"], figures["threshold"]) == (102, found.kept, found.threshold)
    assert found.kept == 31  # round(0.3 * 102)
    written = chainrule.filter(folder / "heldout.txt", model, below=found.threshold, output=tmp_path / "below.txt")
    assert (written.kept, written.texts) == (found.kept, None)
    assert (tmp_path / "below.txt").read_bytes() == out.read_bytes()
    for wrong, message in (
        ({}, "give either keep, a share of the documents, or below"),
        ({"keep": 0.3, "below": 2.0}, "give either keep"),
        ({"keep": 1.5}, "keep is 1.5; expected a share above 0 and at most 1"),
        ({"below": float("nan")}, "below is not a number"),
    ):
        with pytest.raises(chainrule.SettingError, match=message):
            chainrule.filter(folder / "heldout.txt", model, **wrong)


def test_nearest_gives_what_the_verb_prints(folder: Path, printed) -> None:
    word = (folder / "heldout.txt").read_text().split()[0]
    found = chainrule.nearest(chainrule.load(folder / "net"), f"[{word}]", folder / "heldout.txt", top=3)
    lines = printed("nearest", folder / "net", f"[{word}]", folder / "heldout.txt", "--top", 3, "--json").splitlines()
    assert [one._asdict() for one in found] == [json.loads(line) for line in lines]
    assert found[0].text[found[0].start :].startswith(found[0].word)
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    with pytest.raises(chainrule.SettingError, match="top is 0; expected 1 or more"):
        chainrule.nearest(chainrule.load(folder / "net"), "[a]", top=0)
    with pytest.raises(chainrule.SettingError, match="layer is for the words of a text"):
        chainrule.nearest(chainrule.load(folder / "net"), "[a]", layer=1)
    with pytest.raises(chainrule.SettingError, match="this takes one that gives vectors"):
        chainrule.nearest(chainrule.load(folder / "lm"), "[a]")


def test_noise_spoils_and_proposes_as_the_verb_does(folder: Path, printed) -> None:
    options = ("--rate", 0.2, "--seed", 4)
    spoilt = list(chainrule.noise(folder / "heldout.txt", rate=0.2, seed=4))
    assert "".join(one.observed + "\n" for one in spoilt) == printed("noise", folder / "heldout.txt", *options)
    assert all(one.proposals is None for one in spoilt)
    proposed = list(
        chainrule.noise(folder / "heldout.txt", rate=0.2, seed=4, model=chainrule.load(folder / "lm"), best=3)
    )
    lists = printed("noise", folder / "heldout.txt", *options, "--model", folder / "lm", "--best", 3).splitlines()
    assert [one.as_json(str(number)) for number, one in enumerate(proposed, 1)] == [json.loads(line) for line in lists]
    with pytest.raises(chainrule.SettingError, match="there is no channel called 'radio'"):
        chainrule.noise(folder / "heldout.txt", channel="radio")  # type: ignore[arg-type]


def test_ctc_decodes_as_the_verb_does(folder: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    labels = ["<pad>", "|", *"abdefgiklmnoprstuvz"]
    np.save(tmp_path / "logits.npy", np.random.default_rng(0).normal(0, 3, (2, 20, len(labels))))
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    options = ("--labels", tmp_path / "labels.json", "--alpha", 0.7, "--beam", 20)
    lines = printed("ctc", tmp_path / "logits.npy", folder / "lm", *options).splitlines()
    model = chainrule.load(folder / "lm")
    decoded = chainrule.decode_ctc(tmp_path / "logits.npy", model, labels=labels, alpha=0.7, beam=20)
    assert [utterance.text for utterance in decoded] == lines
    assert len(lines) == 2


def test_rescore_chooses_as_the_verb_does(folder: Path, tmp_path: Path, printed) -> None:
    lists = tmp_path / "nbest.jsonl"
    lines = (folder / "heldout.txt").read_text().splitlines()[:8]
    records = [
        {
            "id": f"u{i}",
            "hypotheses": [{"text": other, "score": -1.0}, {"text": line, "score": -1.5}],
            "reference": line,
        }
        for i, (line, other) in enumerate(pairwise(lines))
    ]
    lists.write_text("".join(json.dumps(record) + "\n" for record in records))
    model = chainrule.load(folder / "lm")
    found = chainrule.rescore(str(lists), model, weights={"words": 0.5}, bleu=False)
    out = tmp_path / "best.txt"
    command = ("rescore", lists, "--model", f"lm={folder / 'lm'}", "--weight", "words=0.5", "--no-bleu", "-o", out)
    figures = json.loads(printed(*command, "--json"))
    assert out.read_text().splitlines() == found.best
    assert found.ids == [record["id"] for record in records]
    assert found.as_json() == figures
    assert found.weights == {"score": 1.0, "lm": 1.0, "words": 0.5}
    for record, best in zip(records, found.best, strict=True):  # the sum, by hand
        totals = [
            one["score"] + model_score(model, one["text"]) + 0.5 * len(one["text"].split())
            for one in record["hypotheses"]
        ]
        assert best == record["hypotheses"][int(np.argmax(totals))]["text"]
    tuned = chainrule.rescore(str(lists), {"bigrams": model}, tune=str(lists), bleu=False, restarts=1)
    assert tuned.as_json()["tuned"]["objective"] == "wer"
    assert str(lists.name) in tuned.as_json()["tuned"]["lists"]
    with pytest.raises(chainrule.SettingError, match="there is a weight for nobody, but no such score"):
        chainrule.rescore(str(lists), model, weights={"nobody": 1.0})


def model_score(model: chainrule.Model, text: str) -> float:
    """log P of a text, its unknown words spelled."""
    from chainrule.evaluation.token_scores import score_documents

    log_probs, _ = score_documents(model.language_model, model.speller, model.tokenizer.encode_texts([text]))
    return float(log_probs[0])


def test_convert_and_verify(folder: Path, tmp_path: Path, printed) -> None:
    chainrule.convert(folder / "lm", tmp_path / "lm.arpa")
    compact = chainrule.convert(tmp_path / "lm.arpa", tmp_path / "compact", tokenizer="word", compact=True)
    assert compact.layout == "compact"
    assert chainrule.convert(tmp_path / "compact", tmp_path / "fast").layout == "fast"
    found = chainrule.verify(tmp_path / "fast")
    assert f"{found.bytes:,} bytes of data match their checksums" in printed("verify", tmp_path / "fast")
    assert found.has_card
    with pytest.raises(chainrule.ModelFormatError, match="is a file; expected a model folder"):
        chainrule.verify(tmp_path / "lm.arpa")


def test_an_experiment_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.drawing.plots import Axis, Line
    from chainrule.features.lectures.experiments import recurrence as gradients
    from chainrule.features.lectures.experiments.findings import Findings

    given: list[int] = []

    def quick(*, seed: int, progress: object) -> Findings:
        given.append(seed)
        lines = [Line(label="one", x=[1, 2, 3], y=[0.5, 0.25, 1.0]), Line(label="short", x=[1], y=[2.0])]
        return Findings(title="A title", x=Axis(label="place"), y=Axis(label="share"), lines=lines, says=["So it is."])

    monkeypatch.setattr(gradients, "gradients", quick)
    findings = chainrule.experiment("gradients", seed=7)
    assert given == [7]
    assert str(findings).splitlines() == [
        "A title",
        "share, by place    1     2  3",
        "one              0.5  0.25  1",
        "short              2     -  -",
        "So it is.",
    ]
    assert findings._repr_html_().startswith("<svg")
    with pytest.raises(chainrule.SettingError, match="there is no experiment 'smell'; expected one of memory, cost"):
        chainrule.experiment("smell")  # type: ignore[arg-type]


def test_a_path_in_the_place_of_a_model_is_named(fixtures: Path) -> None:
    text = fixtures / "heldout.txt"
    for call in (
        lambda: chainrule.filter(text, "lm/", keep=0.5),
        lambda: chainrule.attend("lm/", "a"),
        lambda: chainrule.rescore("nbest.jsonl", "lm/"),
        lambda: chainrule.nearest("lm/", "a [b]"),
        lambda: chainrule.noise(text, model="lm/"),
        lambda: chainrule.finetune("lm/", []),
    ):
        with pytest.raises(TypeError, match=r"takes a model, as chainrule\.load gives one; found 'lm/'"):
            call()
