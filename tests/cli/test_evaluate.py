"""chainrule evaluate: the same figures as the library's, for people and for programs."""

from __future__ import annotations

import gzip
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


def test_the_json_figures_are_the_librarys(chainrule, model: Path, heldout: Path) -> None:
    result = chainrule("evaluate", model, heldout, "--json")
    assert (result.status, result.err) == (0, "")
    figures = result.json
    measurement = library.load(model).evaluate(heldout)
    for name in (
        "documents",
        "tokens",
        "oov",
        "log_prob",
        "perplexity",
        "perplexity_without_oov",
        "bits_per_byte",
        "bytes",
        "signature",
    ):
        assert figures[name] == getattr(measurement, name), name
    assert figures["seconds"] > 0


def test_the_figures_follow_from_kenlms_scores(
    chainrule, model: Path, corpus: Path, heldout: Path, fixtures: Path
) -> None:
    with gzip.open(fixtures / "order3.scores.tsv.gz", "rt") as file:
        tokens = [token.split(":") for line in file.read().splitlines()[1:] for token in line.split("\t")[1].split()]
    nats = [float(log10) * math.log(10) for log10, _, _ in tokens]
    known = [value for value, (_, _, oov) in zip(nats, tokens, strict=True) if oov == "0"]
    vocabulary = set(corpus.read_text().split())
    unknown = [word for word in heldout.read_text().split() if word not in vocabulary]
    spelling = -library.load(model).speller.log_probs([word.encode() for word in unknown]).sum()

    figures = chainrule("evaluate", model, heldout, "--json").json
    assert figures["tokens"] == len(tokens)
    assert figures["oov"] == len(tokens) - len(known) == len(unknown) > 0
    assert figures["log_prob"] == pytest.approx(sum(nats), rel=1e-6)
    assert figures["perplexity"] == pytest.approx(math.exp(-sum(nats) / len(nats)), rel=1e-6)
    assert figures["perplexity_without_oov"] == pytest.approx(math.exp(-sum(known) / len(known)), rel=1e-6)
    assert figures["bytes"] == heldout.stat().st_size
    assert figures["spelling_log_prob"] == pytest.approx(-spelling, rel=1e-9)
    assert figures["bits_per_byte"] == pytest.approx(-figures["text_log_prob"] / math.log(2) / figures["bytes"])
    assert figures["text_log_prob"] == pytest.approx(-spelling - mass_of_unseen(model, heldout) + sum(nats), rel=1e-6)


def mass_of_unseen(model: Path, heldout: Path) -> float:
    """What is lost by counting all unseen types: log Z at every place, less log U for each unknown word."""
    loaded = library.load(model)
    unseen = loaded.speller.unseen_types
    total = 0.0
    for line in heldout.read_text().split("\n")[:-1]:
        ids = loaded.tokenizer.encode_texts([line]).ids
        for place, token in enumerate(ids.tolist()):
            state = loaded.language_model.start([ids[:place]])
            share = math.exp(loaded.language_model.next_log_probs(state)[0, 0])
            total += math.log(1 + (unseen - 1) * share) - (token == 0) * math.log(unseen)
    return total


def test_the_text_shows_each_figure_on_a_line_of_its_own(chainrule, model: Path, heldout: Path) -> None:
    result = chainrule("evaluate", model, heldout)
    assert (result.status, result.err) == (0, "")
    figures = chainrule("evaluate", model, heldout, "--json").json
    values = [line[26:42].strip() for line in result.lines[:-1]]
    assert values == [
        f"{figures['perplexity']:,.4f}",
        f"{figures['perplexity_without_oov']:,.4f}",
        f"{figures['bits_per_byte']:.4f}",
        f"{figures['word_perplexity']:,.4f}",
        f"{figures['character_perplexity']:,.4f}",
        f"{figures['tokens']:,}",
        f"{figures['oov']:,}",
        f"{figures['log_prob']:,.2f}",
        f"{sum(n * count for n, count in enumerate(figures['matched'], 1)) / figures['tokens']:.2f}",
        f"{figures['mean_row_sum']:.6f}",
    ]
    assert f"; {figures['bits_per_byte_low']:.4f} to {figures['bits_per_byte_high']:.4f} at 95 %" in result.out
    assert result.lines[-1] == f"signature  {figures['signature']}"


def test_ends_can_be_left_out(chainrule, model: Path, heldout: Path) -> None:
    whole, inside = (chainrule("evaluate", model, heldout, *options, "--json").json for options in ((), ("--no-ends",)))
    assert inside["tokens"] == whole["tokens"] - whole["documents"]
    assert inside["bytes"] == whole["bytes"] - whole["documents"]
    assert inside["log_prob"] > whole["log_prob"]
    assert "</s> left out" in chainrule("evaluate", model, heldout, "--no-ends").out


def test_what_has_no_probability_is_infinite_for_people_and_null_for_programs(
    chainrule, impossible: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("a\na zz\n")
    result = chainrule("evaluate", impossible, tmp_path / "text")
    assert [line.split()[1] for line in result.lines if line.startswith("perplexity")] == ["inf"]
    figures = chainrule("evaluate", impossible, tmp_path / "text", "--json").json
    assert figures["perplexity"] is figures["log_prob"] is figures["bits_per_byte"] is None
    assert figures["perplexity_without_oov"] == pytest.approx(2, rel=1e-6)  # four known tokens, one half each


def test_several_texts_are_measured_as_one(chainrule, stdin, model: Path, heldout: Path, tmp_path: Path) -> None:
    lines = heldout.read_bytes().splitlines(keepends=True)
    (tmp_path / "first").write_bytes(b"".join(lines[:40]))
    stdin(b"".join(lines[40:]))
    parts = chainrule("evaluate", model, tmp_path / "first", "-", "--json").json
    whole = chainrule("evaluate", model, heldout, "--json").json
    assert parts["signature"] == whole["signature"]
    assert parts["log_prob"] == pytest.approx(whole["log_prob"], rel=1e-12)


@pytest.mark.parametrize(("rule", "tokens", "oov"), [("skip", 5, 0), ("keep", 6, 1)])
def test_markers_in_the_text_are_treated_as_asked(
    rule: str, tokens: int, oov: int, chainrule, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("<s> ka <unk> vi </s>\nka\n")
    figures = chainrule("evaluate", model, tmp_path / "text", "--markers", rule, "--json").json
    assert (figures["tokens"], figures["oov"]) == (tokens, oov)


def test_rows_that_do_not_sum_to_one_are_remarked_upon(chainrule, tmp_path: Path) -> None:
    grams = ["-0.3\t<unk>", "-99\t<s>\t-0.1", "-0.3\t</s>", "-0.3\ta\t0"]
    lines = [
        "\\data\\",
        "ngram 1=4",
        "ngram 2=1",
        "",
        "\\1-grams:",
        *grams,
        "",
        "\\2-grams:",
        "-0.1\ta a",
        "",
        "\\end\\",
    ]
    (tmp_path / "odd.arpa").write_text("\n".join([*lines, ""]))
    (tmp_path / "text.txt").write_text("a a b\na\n")
    result = chainrule("evaluate", tmp_path / "odd.arpa", tmp_path / "text.txt")
    [line] = [line for line in result.lines if line.startswith("mean row sum")]
    assert "not a distribution" in line
    assert float(line.split()[3]) == pytest.approx(1.55, abs=0.1)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    lines = (
        {"sentence_good": "ka vi", "sentence_bad": "vi vi vi ka ka zz", "UID": "order", "field": "syntax"},
        {"sentence_good": "ka zz vi", "sentence_bad": "zz", "UID": "length"},
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_minimal_pairs_are_judged_by_set_and_field(chainrule, model: Path, pairs: Path) -> None:
    rows = chainrule("evaluate", model, "--minimal-pairs", pairs, "--json").json
    assert [(row["kind"], row["name"], row["pairs"]) for row in rows] == [
        ("set", "order", 1),
        ("set", "length", 1),
        ("field", "syntax", 1),
        ("all", "", 2),
    ]
    log_probs = library.load(model).score(["ka vi", "vi vi vi ka ka zz"])
    assert rows[0]["sum"]["accuracy"] == float(log_probs[0] > log_probs[1])
    table = chainrule("evaluate", model, "--minimal-pairs", pairs)
    assert (table.status, table.err) == (0, "")
    assert [line.split()[0] for line in table.lines] == ["pairs", "order", "length", "field", "all"]


def test_pairs_that_are_no_pairs_are_noted_or_errors(chainrule, model: Path, pairs: Path) -> None:
    whole = chainrule("evaluate", model, "--minimal-pairs", pairs, "--json").json
    with open(pairs, "a") as file:
        file.write('{"sentence_good": "ka", "sentence_bad": "ka", "UID": "order"}\n' + "no JSON\n" * 12)
    result = chainrule("evaluate", model, "--minimal-pairs", pairs, "--json")
    assert result.status == 0
    assert [row["pairs"] - before["pairs"] for row, before in zip(result.json, whole, strict=True)] == [1, 0, 0, 1]
    assert result.json[0]["sum"]["ties"] == 1
    notes = result.err.splitlines()
    assert notes[0].startswith(f"note: {pairs}, line 4 and 11 other records: is not JSON: ")
    assert notes[1:] == [
        "note: --bad-records stop stops at the first, --bad-records-out FILE.jsonl keeps them",
        f"note: {pairs}, line 3: both sentences are the same, so that there is a tie",
    ]
    stopped = chainrule("evaluate", model, "--minimal-pairs", pairs, "--bad-records", "stop")
    assert stopped.status == 1
    assert f"{pairs}, line 4: is not JSON" in stopped.error


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["heldout", "--minimal-pairs", "pairs.jsonl"], 2, "TEXTS and --minimal-pairs are both given"),
        (["--minimal-pairs", "pairs.jsonl", "--document", "line"], 2, "are for TEXTS, not for --minimal-pairs"),
        (["--minimal-pairs", "pairs.jsonl", "--field", "x"], 2, "name both columns, with a comma between"),
        (["--minimal-pairs", "missing.jsonl"], 1, "missing.jsonl"),
        (["--minimal-pairs", "-"], 2, "for standard input, name /dev/stdin"),
        ([], 2, "TEXTS is missing"),
    ],
)
def test_what_is_to_be_judged_must_be_said(
    arguments: list[str], status: int, message: str, chainrule, model: Path
) -> None:
    result = chainrule("evaluate", model, *arguments)
    assert result.status == status
    assert message in result.error


def test_rules_for_bad_records_need_records(chainrule, model: Path, heldout: Path, tmp_path: Path) -> None:
    refused = chainrule("evaluate", model, heldout, "--bad-records", "skip")
    assert (refused.status, "--bad-records is for records; found plain text alone" in refused.error) == (2, True)
    refused = chainrule("evaluate", model, "--minimal-pairs", heldout, "--bad-records-out", tmp_path / "bad.txt")
    assert (refused.status, "the name of a table ends in .csv, .tsv, .jsonl, .parquet" in refused.error) == (1, True)
    rules = ("--bad-records", "stop", "--bad-records-out", "x.csv")
    refused = chainrule("evaluate", model, "--minimal-pairs", heldout, *rules)
    assert "--bad-records-out is for skipped records; set --bad-records skip, too" in refused.error


def test_a_document_is_what_it_was_in_training_unless_an_option_says_otherwise(chainrule, tmp_path: Path) -> None:
    text, lm = tmp_path / "a.txt", tmp_path / "lm"
    text.write_text("ab\nba\nab\n" * 20)
    assert chainrule("train", "ngram", text, "--document", "file", "--tokenizer", "character", "-o", lm).status == 0
    by_default, whole, lines = (
        chainrule("evaluate", lm, text, "--json", *option)
        for option in ((), ("--document", "file"), ("--document", "line"))
    )
    assert (by_default.json["documents"], whole.json["documents"], lines.json["documents"]) == (1, 1, 60)
    assert by_default.json["signature"] == whole.json["signature"] != lines.json["signature"]
    told = f"note: a document is a whole file, as in the training of {lm}; --document changes that\n"
    assert (by_default.err, whole.err, lines.err) == (told, "", "")


_MODELS_OF_FILES = {
    "score": "score {lm} {text}",
    "compare": "compare {lm} {other} --text {text}",
    "filter": "filter {text} --model {lm} --below 99 -o {out}.jsonl",
    "mix": "mix {lm} {other} --tune {text} -o {out}",
    "merge": "mix {lm} {other} --static --tune {text} -o {out}",
    "prune": "prune {lm} --to-ngrams 9 --histories {text} -o {out}",
}


@pytest.mark.parametrize("verb", _MODELS_OF_FILES)
def test_a_verb_reads_texts_as_the_training_of_its_model_did(verb: str, chainrule, tmp_path: Path) -> None:
    """What it gives by default is what it gives with --document file."""
    places = {"text": tmp_path / "a.txt", "lm": tmp_path / "lm", "other": tmp_path / "other"}
    places["text"].write_text("ab ba\nba\nab\n" * 20)
    source = library.Corpus.of(places["text"], library.Reading(document="file"))
    for order, name in enumerate(("lm", "other"), 2):
        library.train(source, library.NGramConfig(order=order)).save(places[name])

    def result(name: str, *option: str) -> list[Any]:
        command = _MODELS_OF_FILES[verb].format(**places, out=tmp_path / name).split()
        shown = chainrule(*command, *option, "--json")
        assert shown.status == 0, shown.err
        record = (
            json.loads((tmp_path / name / "config.json").read_text())["record"] if (tmp_path / name).exists() else 0
        )
        return [_without_what_differs(value) for value in ([*map(json.loads, shown.lines)], record)]

    assert result("default") == result("file", "--document", "file") != result("line", "--document", "line")
    if (tmp_path / "default").exists():  # a model of such models reads as these do
        assert chainrule("evaluate", tmp_path / "default", places["text"], "--json").json["documents"] == 1


def _without_what_differs(value: Any) -> Any:
    """JSON without times, and without names of what was written."""
    if isinstance(value, dict):
        hidden = ("seconds", "mixed", "merged", "model", "command")
        return {key: _without_what_differs(each) for key, each in value.items() if key not in hidden}
    return [_without_what_differs(each) for each in value] if isinstance(value, list) else value


def test_models_that_were_trained_on_different_documents_read_as_usual_with_a_note(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("ab ba\nba\nab\n" * 20)
    for document in ("file", "line"):
        source = library.Corpus.of(text, library.Reading(document=document))
        library.train(source, library.NGramConfig(order=2)).save(tmp_path / document)
    found = chainrule("compare", tmp_path / "file", tmp_path / "line", "--text", text, "--json")
    assert [row["documents"] for row in found.json] == [60, 60]
    assert found.err == (
        f"note: a document was a whole file in the training of {tmp_path / 'file'}, a line in the training of "
        f"{tmp_path / 'line'}; here it is a line; --document changes that\n"
    )
