"""The verb inspect, of texts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["the movie was not great", "a dog ran", "the dog was great", "a movie"] * 3


def test_a_page_and_a_file_of_numbers(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(line + "\n" for line in TEXTS))
    tiny = ["--width", 8, "--layers", 1, "--context", 8, "--steps", 2, "--tokenizer", "whitespace", "--compile", "no"]
    assert chainrule("train", "recurrent", text, "-o", tmp_path / "lm", *tiny).status == 0
    given = ["inspect", tmp_path / "lm", "the <b>movie"]
    result = chainrule(*given, "-o", tmp_path / "a.html", "--unit", 3)
    assert result.out.endswith("1 layer, 3 tokens\n"), result.err
    page = (tmp_path / "a.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "<script" not in page
    assert page.count("<image") == 6
    assert re.findall(r"Unit (\d+) along the text", page) == ["3"]
    assert chainrule(*given, "-o", tmp_path / "a.json").status == 0
    numbers = json.loads((tmp_path / "a.json").read_text())
    inside = library.inspect(library.load(tmp_path / "lm"), "the <b>movie")
    assert numbers["tokens"] == inside.tokens == ["<s>", "the", "<unk>"]
    np.testing.assert_allclose(numbers["layers"][0]["f"], inside.layers[0].values["f"], atol=1e-6)
    np.testing.assert_allclose(inside.unit(3)["c"], inside.layers[0].values["c"][:, 3])
    assert "there is no unit 8; expected 0 to 7" in chainrule(*given, "-o", tmp_path / "b.html", "--unit", 8).error
    assert "exists already" in chainrule(*given, "-o", tmp_path / "a.html").error
    assert "--patches is for networks" in chainrule(*given, "-o", tmp_path / "b.html", "--patches", 3).error
    with pytest.raises(library.SettingError, match="layer is 2; expected 1 to 1"):
        inside.unit(0, layer=2)


def test_a_transformer_without_its_parts(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(line + "\n" for line in TEXTS))
    tiny = ["--width", 8, "--layers", 2, "--heads", 2, "--context", 8, "--steps", 20, "--tokenizer", "whitespace"]
    assert chainrule("train", "transformer", text, "-o", tmp_path / "lm", *tiny, "--compile", "no").status == 0
    given = ["inspect", tmp_path / "lm", "the movie was", "-o"]
    result = chainrule(*given, tmp_path / "a.html", "--remove", "zero", "--answer", "great", "--head", "2.1")
    assert re.search(r"a.html: log P -\d.*; most by layer \d, head \d: .*; layer 2, head 1 at once: ", result.out)
    page = (tmp_path / "a.html").read_text()
    assert "<script" not in page
    assert page.count("<image") == 1
    assert "the movie was great" in page
    assert chainrule(*given, tmp_path / "a.json", "--patch", "the dog was", "--answer", "great").status == 0
    numbers = json.loads((tmp_path / "a.json").read_text())
    model = library.load(tmp_path / "lm")
    effects = library.inspect(model, "the movie was", patch="the dog was", answer="great")
    assert effects.tokens == numbers["tokens"] == ["the", "movie", "was", "great"]
    assert numbers["watched"] == [3, 4]
    np.testing.assert_allclose(numbers["change"], effects.by_token, atol=1e-6)
    np.testing.assert_allclose(effects.effects, effects.by_token[:, :, 3], atol=1e-6)
    assert effects.parts == ["head 1", "head 2", "attention", "feed-forward", "layer"]
    plain = library.inspect(model, "the movie was great", remove="zero", heads=[(1, 1), (1, 2), (1, 1)])
    scores = model.engine.score([model.tokenizer.encode_texts(["the movie was great"]).ids[:-1]], end=False)[0]
    np.testing.assert_allclose(plain.log_probs, scores, atol=1e-5)
    assert plain.together is not None
    np.testing.assert_allclose(plain.together, plain.by_token[0, 2], atol=1e-5)  # both heads: the attention
    assert "layer 1, head 1 and layer 1, head 2 at once" in plain.contents


def test_what_cannot_be_removed_or_patched_is_told_in_a_line(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(line + "\n" for line in TEXTS))
    tiny = ["--width", 8, "--layers", 1, "--context", 8, "--steps", 2, "--tokenizer", "whitespace", "--compile", "no"]
    assert chainrule("train", "transformer", text, "-o", tmp_path / "lm", "--heads", 2, *tiny).status == 0
    assert chainrule("train", "recurrent", text, "-o", tmp_path / "rnn", *tiny).status == 0
    assert chainrule("train", "ngram", text, "-o", tmp_path / "ngram").status == 0

    def error(model: str, *more: object) -> str:
        result = chainrule("inspect", tmp_path / model, "a movie", "-o", tmp_path / "x.html", *more)
        assert result.status != 0
        return result.error

    assert "there is no head 2.1; expected layer 1 to 1 and head 1 to 2" in error(
        "lm", "--remove", "zero", "--head", "2.1"
    )
    assert "--head 3: expected LAYER.HEAD, such as 2.1" in error("lm", "--remove", "zero", "--head", "3")
    patched = error("lm", "--patch", "movie", "--answer", "was")
    assert "the text has 2 tokens and the one to patch from has 1" in patched
    assert "has no heads to remove; expected a Transformer" in error("rnn", "--remove", "mean")
    assert "has no heads to remove; expected a Transformer" in error("ngram", "--remove", "mean")
    assert "--answer and --head are for --remove or --patch" in error("lm", "--answer", "was")
    assert "either --remove or --patch" in error("lm", "--remove", "zero", "--patch", "a dog")
    assert "--units does not go with --remove" in error("lm", "--remove", "zero", "--units", 3)
    assert "the answer is empty" in error("lm", "--remove", "zero", "--answer", "")
    assert "of a Transformer, --remove zero shows what its heads do" in error("lm")
    model = library.load(tmp_path / "lm")
    with pytest.raises(library.SettingError, match="remove is 'half'; expected zero or mean"):
        library.inspect(model, "a movie", remove="half")  # type: ignore[call-overload]
    with pytest.raises(library.SettingError, match="leave out units"):
        library.inspect(model, "a movie", remove="zero", units=3)  # type: ignore[call-overload]
