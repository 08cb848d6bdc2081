"""Models of one text given another from the command line: trained on pairs, saved, opened, and written with."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest
import sacrebleu
import torch

import chainrule as package
from chainrule.api import attend
from chainrule.mixture.components import Components
from chainrule.mixture.linear import LinearMixture
from chainrule.uniform import UniformModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chainrule.report.attention import AttentionMap

SOURCES = ["ein hund rennt", "eine katze schläft", "zwei hunde rennen", "ein mann liest", "eine frau läuft"] * 4
TARGETS = ["a dog runs", "a cat sleeps", "two dogs run", "a man reads", "a woman walks"] * 4
TINY = ["--width", 16, "--heads", 2, "--encoder-layers", 1, "--decoder-layers", 1, "--steps", 4, "--batch", 4]
QUICK = [*TINY, "--precision", "float32", "--compile", "no", "--tokenizer", "whitespace"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    package.set_threads(1)
    torch.set_num_threads(1)
    yield
    package.set_threads(None)
    torch.set_num_threads(before)


@pytest.fixture
def pairs(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "train.de", tmp_path / "train.en"]
    for file, lines in zip(files, (SOURCES, TARGETS), strict=True):
        file.write_text("".join(line + "\n" for line in lines))
    return files


@pytest.fixture
def mt(chainrule, pairs: list[Path], tmp_path: Path) -> Path:
    result = chainrule(
        "train", "translation", "--source", pairs[0], "--target", pairs[1], "-o", tmp_path / "mt", *QUICK
    )
    assert result.status == 0, result.err
    assert "target tokens of" in result.out
    return tmp_path / "mt"


def test_a_line_is_written_for_each_line_that_is_read(chainrule, mt: Path, stdin, tmp_path: Path) -> None:
    stdin(b"zwei hunde\n\nein mann liest\n")
    plain = chainrule("translate", mt, "--max-tokens", 6)
    assert plain.status == 0, plain.err
    assert len(plain.lines) == 3
    assert plain.err == ""
    assert plain.lines[1] == ""
    model = package.load_pairs(mt)
    expected = model.write(["zwei hunde", "ein mann liest"], max_tokens=6)
    assert [plain.lines[0], plain.lines[2]] == [texts[0].text for texts in expected]
    given = model.given("zwei hunde")
    scored = given.score([expected[0][0].text])[0]
    assert (
        scored == pytest.approx(expected[0][0].log_prob, abs=1e-3) or len(expected[0][0].tokens) == 6
    )  # cut, so no </s>
    assert chainrule("verify", mt).status == 0


def test_a_run_that_has_ended_is_gone_on_with_only_as_it_was(chainrule, mt: Path, pairs: list[Path]) -> None:
    again = ["train", "translation", "--source", pairs[0], "--target", pairs[1], "-o", mt, "--resume", *QUICK]
    result = chainrule(*again)
    assert result.status == 0, result.err
    assert f"the run has ended, after 4 steps; {mt} is its model" in result.err
    assert "with other settings: dropout was 0.1 and is 0.5" in chainrule(*again, "--dropout", 0.5).error
    assert "with other settings: seed was 0 and is 5" in chainrule(*again, "--seed", 5).error
    pairs[0].write_text(pairs[0].read_text().replace("hund", "kater"))
    assert "with other settings: the text differs. Use --overwrite" in chainrule(*again).error


def test_lists_alignments_and_json(chainrule, mt: Path, stdin) -> None:
    stdin(b"zwei hunde\nein mann liest\n")
    lines = chainrule("translate", mt, "--nbest", 3, "--max-tokens", 4).lines
    stdin(b"\n")
    assert chainrule("translate", mt, "--nbest", 3).lines == ["0 |||  ||| log_prob= 0.0000 ||| 0.0000"]
    assert [line.split(" ||| ")[0] for line in lines] == ["0"] * 3 + ["1"] * 3
    scores = [float(line.split(" ||| ")[3]) for line in lines[:3]]
    assert scores == sorted(scores, reverse=True)
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


def test_separate_tokenizers_and_pairs_to_validate_on(chainrule, pairs: list[Path], tmp_path: Path) -> None:
    records = tmp_path / "pairs.jsonl"
    rows = [json.dumps({"de": s, "en": t}) for s, t in zip(SOURCES, TARGETS, strict=True)]
    records.write_text("\n".join(rows))
    arguments = ["--pairs", records, "--source-field", "de", "--target-field", "en", "--valid", *pairs]
    separate = ["--source-tokenizer", "character", "--encoder", "lstm", "--decoder", "lstm", "--score", "additive"]
    result = chainrule("train", "translation", *arguments, "-o", tmp_path / "mt", *QUICK, *separate)
    assert result.status == 0, result.err
    model = package.load_pairs(tmp_path / "mt")
    assert (model.source.name, model.target.name) == ("character", "whitespace")
    assert model.record["validation"]["pairs"] == 20
    model.save(tmp_path / "again")
    again = package.load_pairs(tmp_path / "again")
    assert again.write(SOURCES[:2], max_tokens=5) == model.write(SOURCES[:2], max_tokens=5)


def test_bad_input_is_a_one_line_error(chainrule, mt: Path, pairs: list[Path], stdin, tmp_path: Path) -> None:
    short = tmp_path / "short.en"
    short.write_text("a dog\n")
    out = tmp_path / "new"
    both = ["--source", pairs[0], "--target", short]
    assert "short.en: ends after line 1, but" in chainrule("train", "translation", *both, "-o", out, *QUICK).error
    assert not out.exists()
    missing = chainrule("train", "translation", "--source", pairs[0], "-o", out)
    assert (missing.status, "--target is missing" in missing.error) == (2, True)
    assert "there is a model already" in chainrule("train", "translation", *both, "-o", mt).error
    assert "is a model of pairs and needs a source" in chainrule("score", mt, short).error
    assert "heads of an even width" in chainrule("train", "translation", *both, "-o", out, "--heads", 7).error
    alike = ["--source-tokenizer", "bpe", "--tokenizer", "bpe", "--vocabulary-size", 300, "--shared", "all"]
    refused = chainrule("train", "translation", "--source", pairs[0], "--target", pairs[1], "-o", out, *TINY, *alike)
    assert "source and target cannot share vectors: their vocabularies" in refused.error
    marked = tmp_path / "marked.tsv"
    marked.write_text("a dog\tein hund\n\na </s> cat\teine katze\n")
    for marker in (b"a </s> cat\teine katze", b"a cat\teine <unk> katze"):
        marked.write_bytes(b"a dog\tein hund\n\n" + marker + b"\n")
        given = ["--pairs", marked, "-o", out, *QUICK, "--valid-share", 0]
        assert "marked.tsv, line 3: <" in chainrule("train", "translation", *given).error
    clean = ["--source", pairs[0], "--target", pairs[1], "--valid", marked, "-o", out, *QUICK]
    assert "marked.tsv, line 3: <unk> occurs" in chainrule("train", "translation", *clean).error
    assert chainrule("train", "translation", *given, "--markers", "skip").status == 0
    assert "train.de: is a file; expected the folder" in chainrule("translate", pairs[0], short).error
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


def test_where_a_model_of_pairs_looks_is_a_page_and_a_picture(chainrule, mt: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    result = chainrule("attend", mt, "zwei <b>hunde", "two <script>dogs", "-o", page)
    assert result.out.endswith("6 maps\n"), result.err  # source, target, and the one on the other; two heads
    text = page.read_text()
    assert "<script" not in text
    assert "<b>" not in text
    assert "target on source, layer 1" in text
    assert chainrule("attend", mt, "zwei hunde", "-o", picture).status == 0
    ElementTree.fromstring(picture.read_text())
    assert "exists already" in chainrule("attend", mt, "zwei", "-o", page).error
    assert chainrule("attend", mt, "zwei", "-o", tmp_path / "a.png").status == 2
    assert "the source is empty" in chainrule("attend", mt, "", "-o", tmp_path / "b.svg").error


def test_a_row_of_a_target_is_the_token_that_is_written_there(
    chainrule, mt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels and weights are those of translate --json, whose rows are the tokens written."""
    drawn: list[AttentionMap] = []
    monkeypatch.setitem(attend._DRAWN, ".html", lambda heading, maps: str(drawn.extend(maps)))
    (tmp_path / "in").write_text("zwei hunde\n")
    texts = chainrule("translate", mt, tmp_path / "in", "--json", "--nbest", 9, "--max-tokens", 4).json["texts"]
    written = max(texts, key=lambda text: len(text["tokens"]))  # the model has learned little, and may write nothing
    assert chainrule("attend", mt, "zwei hunde", written["text"], "-o", tmp_path / "a.html").status == 0
    maps = {each.title: each for each in drawn}
    across, own = maps["target on source, layer 1"], maps["target, layer 1"]
    assert across.rows == own.rows == [*written["tokens"], "</s>"]
    assert across.columns == [*written["source_tokens"], "</s>"]
    assert own.columns == ["</s>", *written["tokens"]]
    attention = np.array(written["attention"])
    np.testing.assert_allclose(across.weights.mean(0)[: len(attention)], attention, atol=1e-4)
    assert len(attention) >= len(written["tokens"]) > 0


def test_where_a_language_model_looks(chainrule, corpus: Path, model: Path, tmp_path: Path) -> None:
    tiny = ["--tokenizer", "character", "--layers", 2, "--width", 16, "--context", 8, "--steps", 1, "--compile", "no"]
    assert chainrule("train", "transformer", corpus, "-o", tmp_path / "lm", *tiny).status == 0
    result = chainrule("attend", tmp_path / "lm", "a man", "-o", tmp_path / "a.html")
    assert result.out.endswith("8 maps\n"), result.err
    assert (
        "reads at most 7 at once; shorten it"
        in chainrule("attend", tmp_path / "lm", "a long man", "-o", tmp_path / "b.svg").error
    )
    assert "leave out the target, 'x'" in chainrule("attend", tmp_path / "lm", "a", "x", "-o", tmp_path / "b.svg").error
    assert "has no attention" in chainrule("attend", model, "a", "-o", tmp_path / "b.svg").error
    assert not (tmp_path / "b.svg").exists()


def test_many_pairs_are_scored_as_each_by_itself(mt: Path) -> None:
    model = package.load_pairs(mt)
    found = model.score(package.Pairs(SOURCES[:5], TARGETS[:5]))
    alone = [model.given(source).score([target])[0] for source, target in zip(SOURCES[:5], TARGETS[:5], strict=True)]
    np.testing.assert_allclose(found, alone, atol=1e-3)


def test_what_is_no_pair_of_lists_is_refused(mt: Path) -> None:
    model = package.load_pairs(mt)
    with pytest.raises(TypeError, match="several texts"):
        model.write("ein hund")
    with pytest.raises(TypeError, match="one text, not list"):
        model.given(["ein hund"])
    with pytest.raises(TypeError, match="takes Pairs, not str"):
        package.train_pairs("train.tsv")


def test_given_its_source_a_model_is_mixed_measured_and_written_with_as_any_other(mt: Path, tmp_path: Path) -> None:
    given = package.load_pairs(mt).given("zwei hunde")
    text = tmp_path / "text"
    text.write_text("two dogs\na dog runs\n")
    measured = given.evaluate(text)
    assert measured.log_prob == pytest.approx(given.score(["two dogs", "a dog runs"]).sum(), rel=1e-5)
    assert len(given.generate("two", n=2, seed=1, limits=package.Limits(max_tokens=4))) == 2
    with pytest.raises(package.SettingError, match="save the model of pairs itself"):
        given.save(tmp_path / "given")
    uniform = UniformModel(given.vocabulary_size)
    mixture = LinearMixture(
        Components(("conditional", "uniform"), (given.language_model, uniform)), np.array([[0.6, 0.4]])
    )
    tokens = given.tokenizer.encode_texts(["two dogs"]).ids[:-1]
    parts = [np.exp(model.score([tokens])[0]) for model in (given.language_model, uniform)]
    np.testing.assert_allclose(np.exp(mixture.score([tokens])[0]), 0.6 * parts[0] + 0.4 * parts[1], rtol=1e-4)


def test_a_model_of_pairs_is_measured_on_sources_and_targets(chainrule, mt: Path, pairs: list[Path]) -> None:
    result = chainrule(
        "evaluate", mt, "--source", pairs[0], "--target", pairs[1], "--beam", 1, "--max-tokens", 5, "--json"
    )
    assert result.status == 0, result.err
    figures = json.loads(result.out)
    written = chainrule("translate", mt, pairs[0], "--beam", 1, "--max-tokens", 5).out.splitlines()
    assert figures["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(written, [TARGETS]).score, abs=1e-9)
    assert figures["chrF"] == pytest.approx(sacrebleu.corpus_chrf(written, [TARGETS]).score, abs=1e-9)
    model = package.load_pairs(mt)
    nats = -sum(float(model.given(one).score([other])[0]) for one, other in zip(SOURCES, TARGETS, strict=True))
    tokens = sum(len(target.split()) + 1 for target in TARGETS)
    assert figures["tokens"] == tokens
    assert figures["perplexity"] == pytest.approx(np.exp(nats / tokens), rel=1e-4)
    assert figures["bits_per_byte"] == pytest.approx(nats / np.log(2) / pairs[1].stat().st_size, rel=1e-4)
    assert "--target is missing" in chainrule("evaluate", mt, "--source", pairs[0]).err


def test_bits_per_byte_are_not_measured_with_unknown_tokens(chainrule, mt: Path, tmp_path: Path) -> None:
    (tmp_path / "one.de").write_text("ein hund\n")
    (tmp_path / "one.en").write_text("a zebra\n")
    result = chainrule("evaluate", mt, "--source", tmp_path / "one.de", "--target", tmp_path / "one.en")
    assert result.status == 0, result.err
    assert "bits per byte  not measured; target tokens that the model does not know: 1\n" in result.out
    assert result.out.startswith("1 pair, 3 target tokens\n")


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
    unseeded = chainrule("translate", mt, "--sample", "--max-tokens", 3)
    assert "gives these texts again" in unseeded.err


def test_a_sample_at_temperature_zero_is_the_greedy_text_with_its_score(mt: Path) -> None:
    model = package.load_pairs(mt)
    texts = ["zwei hunde", "ein mann liest", " "]
    greedy = model.write(texts, package.BeamConfig(size=1, rank_by="total"))
    sampled = model.sample(texts, 2, package.SamplingConfig(temperature=0), seed=1)
    assert sampled[2] == greedy[2] == []
    for own, [likeliest] in zip(sampled[:2], greedy[:2], strict=True):
        assert [text.tokens for text in own] == [likeliest.tokens] * 2
        assert own[0].log_prob == pytest.approx(likeliest.log_prob, abs=1e-4)
        assert (own[0].ending, len(own[0].tokens)) == (likeliest.ending, len(likeliest.tokens))
    longest = model.sample(["zwei hunde", "ein mann liest"], 20, seed=1)
    assert all(len(text.tokens) <= 24 for text in longest[0])  # twice two tokens, and 20
    assert all((text.ending == "length") == (len(text.tokens) == 24) for text in longest[0])
    with pytest.raises(TypeError, match="several texts"):
        model.sample("ein hund")


def test_texts_begin_with_given_words_which_are_scored(chainrule, mt: Path, stdin) -> None:
    stdin(b"zwei hunde\n")
    arguments = ["translate", mt, "--begin", "a dog", "--max-tokens", 4]
    [found] = chainrule(*arguments, "--json").json["texts"]
    assert found["tokens"][:2] == ["a", "dog"]
    assert len(found["attention"]) == len(found["tokens"]) + (found["ending"] == "end")
    model = package.load_pairs(mt)
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
    assert chainrule("train", "translation", *arguments).status == 0
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
    model = package.load_pairs(mt)
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


def test_lists_are_rescored_by_a_model_that_reads_their_sources(chainrule, mt: Path, tmp_path: Path) -> None:
    hypotheses = [["a dog runs", "two dogs", "a cat"], ["a man reads", "a"]]
    sources = ["ein hund rennt", "ein mann liest"]
    rows = [f"{i} ||| {text} ||| x ||| 0" for i, texts in enumerate(hypotheses) for text in texts]
    (tmp_path / "lists").write_text("".join(row + "\n" for row in rows))
    (tmp_path / "sources").write_text("".join(source + "\n" for source in sources))
    lists = ["rescore", tmp_path / "lists", "--model", f"mt={mt}"]
    result = chainrule(*lists, "--sources", tmp_path / "sources", "--nbest-out", tmp_path / "out.jsonl")
    assert result.status == 0, result.err
    model = package.load_pairs(mt)
    for line, source, texts, best in zip(
        (tmp_path / "out.jsonl").read_text().splitlines(), sources, hypotheses, result.lines, strict=True
    ):
        expected = {text: float(model.given(source).score([text])[0]) for text in texts}
        record = json.loads(line)
        assert record["source"] == source
        for each in record["hypotheses"]:
            assert each["scores"]["mt"] == pytest.approx(expected[each["text"]], abs=1e-3)
        assert best == max(expected, key=lambda text: expected[text])
    again = chainrule("rescore", tmp_path / "out.jsonl", "--model", f"model={mt}", "--weight", "mt=0", "total=0")
    assert again.lines == result.lines  # JSON lists have their sources themselves
    from_python = package.rescore(str(tmp_path / "lists"), model, sources=str(tmp_path / "sources"))
    assert from_python.best == result.lines
    assert "which the lists lack; name a file of sources" in chainrule(*lists).error
    (tmp_path / "sources").write_text("ein hund\n")
    assert "there are more lists" in chainrule(*lists, "--sources", tmp_path / "sources").error


def test_models_of_pairs_are_compared_on_the_same_pairs(chainrule, mt: Path, pairs: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    arguments = ["--source", pairs[0], "--target", pairs[1]]
    assert chainrule("train", "translation", *arguments, "-o", other, *QUICK, "--seed", 5).status == 0
    options = [*arguments, "--beam", 2, "--max-tokens", 5]
    rows = json.loads(chainrule("compare", mt, other, *options, "--json").out)
    for row, model in zip(rows, (mt, other), strict=True):
        alone = json.loads(chainrule("evaluate", model, *options, "--json").out)
        assert row["model"] == str(model)
        assert {name: row[name] for name in alone} == alone
    assert sorted(row["p_value"] is None for row in rows) == [False, True]
    assert all(row["p_value"] is None or 0 < row["p_value"] <= 1 for row in rows)
    table = chainrule("compare", mt, other, *options)
    assert "20 pairs; p: a paired test of BLEU against the best" in table.out
    assert "perplexity" in table.lines[0]
    assert "--target is missing" in chainrule("compare", mt, "--source", pairs[0]).err
    assert "go with models of pairs" in chainrule("compare", mt, *options, "--order", 3).err


TALKS = [
    {"messages": [{"role": "user", "content": f"my name is {name}"}, {"role": "assistant", "content": f"hello {name}"}]}
    for name in ("ann", "bob", "cid", "dan")
] * 5


def test_a_model_of_pairs_answers_a_conversation(chainrule, tmp_path: Path, stdin) -> None:
    talks = tmp_path / "talks.jsonl"
    talks.write_text("".join(json.dumps(talk) + "\n" for talk in TALKS))
    mt = tmp_path / "mt"
    options = ["--max-source", 9, "--long-sources", "front"]
    result = chainrule("train", "translation", "--pairs", talks, "-o", mt, *QUICK, *options)
    assert result.status == 0, result.err
    model = package.load_pairs(mt)
    assert model.sources(["user: my name is ann"])[0].size == 5
    stdin(b"my name is bob\nmy name is cid\n")
    talked = chainrule("chat", mt, "--temperature", 0, "--max-tokens", 3, "--json")
    assert talked.status == 0, talked.err
    answers = [json.loads(line)["content"] for line in talked.lines]
    expected = model.sample(["user: my name is bob"], 1, package.SamplingConfig(temperature=0), max_tokens=3)
    assert answers[0] == expected[0][0].text
    assert "the first 2 messages no longer fit" in talked.err  # 5 tokens, at least 1, and 5 again, of 8
    again = model.chat([{"role": "user", "content": "my name is bob"}], package.SamplingConfig(temperature=0), seed=1)
    assert again.startswith(answers[0])
    assert "--template is for models" in chainrule("chat", mt, "--template", talks).err
    with pytest.raises(package.SettingError, match="the model answers a message from the user"):
        model.chat([{"role": "assistant", "content": "hello"}])


def test_long_sources_are_cut_and_that_is_said(chainrule, tmp_path: Path, pairs: list[Path], stdin) -> None:
    both = ["--source", pairs[0], "--target", pairs[1]]
    cut = ["--max-source", 3]  # two tokens and </s>
    model = tmp_path / "cut"
    result = chainrule("train", "translation", *both, "-o", model, *QUICK, *cut, "--long-sources", "end")
    assert "note: 20 sources of more than 2 tokens: their ends were cut off" in result.err
    stdin(b"ein hund rennt\nein hund schl\xc3\xa4ft\n")
    written = chainrule("translate", model, "--max-tokens", 3)
    assert written.lines[0] == written.lines[1]  # only their beginnings are read
    assert "note: 2 sources longer than the model reads" in written.err
    measured = chainrule("evaluate", model, *both, "--beam", 1, "--max-tokens", 2)
    assert "note: 20 sources longer than the model reads" in measured.err
    refused = chainrule("train", "translation", *both, "-o", tmp_path / "no", *QUICK, *cut)
    assert "every source is longer than 2 tokens" in refused.error
