"""chainrule translate: texts, lists, samples, alignments, references and trees."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
import sacrebleu
from tiny_pairs import QUICK, TARGETS

import chainrule as package
from chainrule.verbs import attend

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_line_is_written_for_each_line_that_is_read(chainrule, mt: Path, stdin, tmp_path: Path) -> None:
    stdin(b"zwei hunde\n\nein mann liest\n")
    plain = chainrule("translate", mt, "--max-tokens", 6)
    assert plain.status == 0, plain.err
    assert len(plain.lines) == 3
    assert plain.err == ""
    assert plain.lines[1] == ""
    model = package.load(mt, package.Seq2SeqModel)
    expected = model.write(["zwei hunde", "ein mann liest"], max_tokens=6)
    assert [plain.lines[0], plain.lines[2]] == [texts[0].text for texts in expected]
    given = model.given("zwei hunde")
    scored = given.score([expected[0][0].text])[0]
    assert (
        scored == pytest.approx(expected[0][0].log_prob, abs=1e-3) or len(expected[0][0].tokens) == 6
    )  # cut, so no </s>
    assert chainrule("verify", mt).status == 0


def test_lists_alignments_and_json(chainrule, mt: Path, stdin) -> None:
    stdin(b"zwei hunde\nein mann liest\n")
    lines = chainrule("translate", mt, "--nbest", 3, "--max-tokens", 4).lines
    stdin(b"\n")
    assert chainrule("translate", mt, "--nbest", 3).lines == ["0 |||  ||| log_prob= 0.0000 ||| 0.0000"]
    assert [line.split(" ||| ")[0] for line in lines] == ["0"] * 3 + ["1"] * 3
    scores = [float(line.split(" ||| ")[3]) for line in lines[:3]]
    assert scores == sorted(scores, reverse=True)
    assert "a beam of 2 cannot return the 3 best" in chainrule("translate", mt, "--beam", 2, "--nbest", 3).error
    stdin(b"zwei hunde\n")
    text, alignment = chainrule("translate", mt, "--alignments", "--max-tokens", 4).out.rstrip("\n").split("\t")
    pairs = [tuple(map(int, each.split("-"))) for each in alignment.split()]
    assert [target for target, _ in pairs] == list(range(len(text.split())))
    assert all(source in (0, 1) for _, source in pairs)
    stdin(b"zwei hunde\n")
    [found] = chainrule("translate", mt, "--json", "--max-tokens", 4).json["texts"]
    assert found["source_tokens"] == ["zwei", "hunde"]
    assert found["ending"] == ("length" if len(found["tokens"]) == 4 else "end")
    np.testing.assert_allclose(np.sum(found["attention"], axis=1), 1, atol=1e-3)


def test_bad_input_is_a_one_line_error(chainrule, mt: Path, pairs: list[Path], stdin, tmp_path: Path) -> None:
    assert "train.de: a model is a folder" in chainrule("translate", pairs[0], pairs[1]).error
    stdin(b"ein hund\n" + b"a " * 600 + b"\n")
    refused = chainrule("translate", mt, "--max-tokens", 3)
    assert "line 2: the source has 600 tokens; the model reads at most 511" in refused.err
    assert len(refused.out.splitlines()) == 1  # the line before is written
    stdin(b"ein hund\n")
    assert "leave out --nbest" in chainrule("translate", mt, "--nbest", 2, "--alignments").error
    stdin(b"x y hund\n")
    assert "does not know 2 tokens of the sources" in chainrule("translate", mt, "--max-tokens", 3).err
    stdin(b"x\n")
    assert "--max-tokens is 0" in chainrule("translate", mt, "--max-tokens", 0).error
    broken = tmp_path / "broken"
    shutil.copytree(mt, broken)
    config = json.loads((broken / "config.json").read_text())
    config["settings"]["network"]["decoder_layers"] = 3
    (broken / "config.json").write_text(json.dumps(config))
    stdin(b"x\n")
    assert "is missing" in chainrule("translate", broken).error
    config["settings"]["network"]["decoder"] = "oracle"
    (broken / "config.json").write_text(json.dumps(config))
    stdin(b"x\n")
    assert "a setting of the network is wrong" in chainrule("translate", broken).error


def test_texts_are_sampled_and_do_not_depend_on_the_lines_beside_them(chainrule, mt: Path, stdin) -> None:
    arguments = ["translate", mt, "--sample", "--temperature", 0.9, "--top-k", 5, "--seed", 3, "--max-tokens", 6]
    stdin(b"zwei hunde\n\nein mann liest ein buch\n")
    lines = chainrule(*arguments).lines
    assert len(lines) == 3
    assert lines[1] == ""
    stdin(b"x\n\nein mann liest ein buch\n")
    assert chainrule(*arguments).lines[2] == lines[2]
    stdin(b"zwei hunde\n")
    several = chainrule(*arguments, "--nbest", 40).lines
    assert len({line.split(" ||| ")[1] for line in several}) > 1
    assert float(several[0].split(" ||| ")[3]) == pytest.approx(float(several[0].split(" ||| ")[2].split()[1]))
    stdin(b"zwei hunde\n")
    greedy = chainrule("translate", mt, "--sample", "--temperature", 0, "--max-tokens", 3)
    assert "--seed" not in greedy.err
    stdin(b"ein Hund\n")
    unseeded = chainrule("translate", mt, "--sample", "--max-tokens", 3)
    assert "gives these texts again" in unseeded.err


def test_texts_begin_with_given_words_which_are_scored(chainrule, mt: Path, stdin) -> None:
    stdin(b"zwei hunde\n")
    arguments = ["translate", mt, "--begin", "a dog", "--max-tokens", 4]
    [found] = chainrule(*arguments, "--json").json["texts"]
    assert found["tokens"][:2] == ["a", "dog"]
    assert len(found["attention"]) == len(found["tokens"]) + (found["ending"] == "end")
    model = package.load(mt, package.Seq2SeqModel)
    if found["ending"] == "end":
        assert model.given("zwei hunde").score([found["text"]])[0] == pytest.approx(found["log_prob"], abs=1e-3)
    else:
        tokens = model.target.encode_texts([found["text"]]).ids[:-1]
        language_model = model.given("zwei hunde").language_model
        assert language_model.score([tokens], end=False)[0].sum() == pytest.approx(found["log_prob"], abs=1e-3)
    # Attention to the given words is that of the same words when the model writes them by itself.
    maps = {each.title: each.weights.mean(0) for each in attend.attend(model, "zwei hunde", "a dog").maps}
    np.testing.assert_allclose(np.array(found["attention"])[:3], maps["target on source, layer 1"][:3], atol=1e-3)
    stdin(b"zwei hunde\n")
    assert all(
        text["tokens"][:1] == ["two"]
        for text in chainrule("translate", mt, "--begin", "two", "--sample", "--seed", 1, "--json").json["texts"]
    )
    stdin(b"zwei hunde\n")
    refused = chainrule("translate", mt, "--begin", "zebra").error
    assert refused == "texts must begin with 'zebra', but the vocabulary lacks a word of it; choose other words"


def test_translations_are_measured_against_references(chainrule, mt: Path, pairs: list[Path], tmp_path: Path) -> None:
    arguments = ["translate", mt, pairs[0], "--beam", 1, "--max-tokens", 5]
    plain = chainrule(*arguments)
    measured = chainrule(*arguments, "--references", pairs[1])
    assert measured.out == plain.out
    assert "20 lines measured" in measured.err
    assert "BLEU" in measured.err
    *_, last = chainrule(*arguments, "--references", pairs[1], "--json").lines
    scores = json.loads(last)["scores"]
    assert scores["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(plain.lines, [TARGETS]).score, abs=1e-9)
    assert scores["chrF"] == pytest.approx(sacrebleu.corpus_chrf(plain.lines, [TARGETS]).score, abs=1e-9)
    assert scores["BLEU_low"] <= scores["BLEU"] <= scores["BLEU_high"]
    assert "version:" in scores["variants"]["BLEU"]
    gaps = tmp_path / "gaps.en"
    gaps.write_text("\n" + "".join(line + "\n" for line in TARGETS[1:]))
    assert "note: 1 line not measured" in chainrule(*arguments, "--references", gaps).err
    short = tmp_path / "short.en"
    short.write_text("a dog runs\n")
    refused = chainrule(*arguments, "--references", short)
    assert (refused.out, refused.status) == ("", 1)
    assert "short.en: has 1 line, but the source has 20; expected a reference for each line" in refused.error


def test_several_files_are_translated_one_after_the_other(
    chainrule, mt: Path, stdin, pairs: list[Path], tmp_path: Path
) -> None:
    lines = pairs[0].read_text().splitlines()
    (tmp_path / "a.txt").write_text("".join(line + "\n" for line in lines[:3]))
    (tmp_path / "b.csv").write_text("id,text\n" + "".join(f'{i},"{line}"\n' for i, line in enumerate(lines[3:5])))
    say = ("translate", mt, "--max-tokens", 3)
    (tmp_path / "all.txt").write_text("".join(line + "\n" for line in lines[:5]))
    together = chainrule(*say, tmp_path / "all.txt").lines
    assert chainrule(*say, tmp_path / "a.txt", tmp_path / "b.csv").lines == together
    stdin((tmp_path / "a.txt").read_bytes())
    assert chainrule(*say, "-", tmp_path / "b.csv").lines == together
    assert "Standard input, -, can be read only once." in chainrule(*say, "-", "-").error


def test_references_of_standard_input_are_counted_as_it_comes(chainrule, mt: Path, stdin, tmp_path: Path) -> None:
    (tmp_path / "two.en").write_text("a dog\na cat\n")
    arguments = ["translate", mt, "--max-tokens", 3, "--references", tmp_path / "two.en"]
    stdin(b"ein hund\n")
    assert "two.en: has 2 lines, but the source has 1; expected" in chainrule(*arguments).err
    stdin(b"ein hund\neine katze\nein mann\n")
    assert "two.en: has 2 lines, but the source has more; expected" in chainrule(*arguments).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--sample --beam 3", "--beam has no effect with --sample, which does not search."),
        ("--sample --alignments", "--alignments has no effect with --sample, which does not search."),
        ("--sample --tree t.svg", "--tree has no effect with --sample, which does not search."),
        ("--tree t.png", "its name must end in .json, .svg or .html."),
        ("--temperature 0.5", "--temperature needs --sample."),
        ("--seed 3", "--seed needs --sample."),
        ("--alpha 0.3", "--alpha needs --rank-by wu."),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(arguments: str, message: str, chainrule, mt: Path) -> None:
    result = chainrule("translate", mt, *arguments.split())
    assert result.status == 2
    assert message in result.error


def test_a_model_without_attention_writes_json(chainrule, pairs: list[Path], stdin, tmp_path: Path) -> None:
    parts = ["--encoder", "gru", "--decoder", "gru", "--attention", "none"]
    arguments = ["--source", pairs[0], "--target", pairs[1], "-o", tmp_path / "mt", *QUICK, *parts]
    assert chainrule("train", "seq2seq", *arguments).status == 0
    stdin(b"zwei hunde\n")
    [found] = chainrule("translate", tmp_path / "mt", "--json", "--max-tokens", 3).json["texts"]
    assert found["attention"] is None


def test_the_tree_of_a_translation_has_the_text_that_is_printed(chainrule, mt: Path, stdin, tmp_path: Path) -> None:
    stdin(b"\nzwei hunde\n")
    tree = tmp_path / "tree.json"
    result = chainrule("translate", mt, "--beam", 2, "--max-tokens", 4, "--tree", tree)
    assert result.status == 0, result.err
    drawn = json.loads(tree.read_text())
    nodes = drawn["nodes"]
    model = package.load(mt, package.Seq2SeqModel)
    [[best]] = model.write(["zwei hunde"], package.BeamConfig(size=2, rank_by="mean", stop="likely"), max_tokens=4)
    assert result.lines == ["", best.text]
    path = [nodes[i] for i in drawn["best"]]
    ended = ["</s>"] if best.ending == "end" else []
    assert [node["token"] for node in path] == [*best.tokens, *ended]
    assert path[-1]["total"] == pytest.approx(best.log_prob, abs=1e-5)
    assert path[-1]["total"] == pytest.approx(sum(node["log_prob"] for node in path), abs=1e-4)
    greedy = model.sample(["zwei hunde"], 1, package.SamplingConfig(temperature=0), max_tokens=4)[0][0]
    way = [nodes[i] for i in drawn["greedy"]]
    assert [node["token"] for node in way if node["token"] != "</s>"] == greedy.tokens
    assert way[-1]["total"] == pytest.approx(greedy.log_prob, abs=1e-4)
    stdin(b"ein hund\nzwei hunde\n")
    assert "is that of one search" in chainrule("translate", mt, "--tree", tmp_path / "b.svg").error
