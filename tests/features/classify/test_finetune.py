"""chainrule finetune and classify: what they print, write and refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from random_networks import random_network

from chainrule.models.model import Model
from chainrule.neural.config import BagConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

LABELLED = "the dog barks\tanimal\nthe soup boils\tfood\n" * 10
QUICK = ("--epochs", 5, "--batch", 4, "--learning-rate", "0.05", "--dropout", 0)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = Tokenizer.untrained("word")
    tokenizer.encode(np.frombuffer(bytearray(LABELLED.encode()), np.uint8), grow=True)
    path = tmp_path_factory.mktemp("network") / "lm"
    Model("bag", NeuralModel(random_network(BagConfig(width=16), tokenizer.vocabulary_size)), tokenizer).save(path)
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "labelled.tsv"
    path.write_text(LABELLED)
    return path


def test_a_classifier_is_trained_reported_and_used(
    chainrule, stdin, network: Path, labelled: Path, tmp_path: Path
) -> None:
    made = tmp_path / "classifier"
    result = chainrule("finetune", network, "--data", labelled, "-o", made, "--test", labelled, *QUICK)
    assert result.status == 0, result.err
    assert result.lines[1].startswith("validation: ")
    report = result.lines[2:]
    shown = ["accuracy", "majority", "macro", "nats", "calibration", "examples", "label", "animal", "food"]
    assert [line.split()[0] for line in report] == shown
    assert report[1].split()[1:3] == ["50.00%", "if"]
    assert result.err.startswith("step 4 of 20  loss ")
    stdin(b"the dog boils\nsoup soup\n")
    lines = [line.split("\t") for line in chainrule("classify", made).lines]
    assert [line[2] for line in lines] == ["the dog boils", "soup soup"]
    assert lines[1][0] == "food"
    stdin(b"soup soup\n")
    [record] = [json.loads(line) for line in chainrule("classify", made, "--json").lines]
    assert record["label"] == "food"
    assert sum(record["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert float(lines[1][1]) == pytest.approx(record["probabilities"]["food"], abs=1e-6)
    stdin(labelled.read_bytes())
    assert chainrule("classify", made, "--data", "-").lines == report
    figures = chainrule("classify", made, "--data", labelled, "--json").json
    assert figures == json.loads((made / "config.json").read_text())["record"]["test"]
    assert chainrule("verify", made).status == 0


def test_a_document_of_several_lines_is_shown_on_one(
    chainrule, stdin, network: Path, labelled: Path, tmp_path: Path
) -> None:
    made = tmp_path / "classifier"
    assert chainrule("finetune", network, "--data", labelled, "-o", made, *QUICK, "--valid-share", 0).status == 0
    stdin(b'{"text": "the dog\\nbarks\\tloud"}\n')
    result = chainrule("classify", made, "--document", "record")
    assert [line.split("\t")[2] for line in result.lines] == ["the dog barks loud"]


def test_words_are_a_line_each(chainrule, stdin, network: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.jsonl"
    words.write_text('{"words": ["the", "dog"], "labels": ["DET", "NOUN"]}\n' * 9)
    made = tmp_path / "classifier"
    assert (
        chainrule("finetune", network, "--data", words, "--words", "-o", made, *QUICK, "--json").json["examples"] == 9
    )
    stdin(b"the dog\n")
    lines = chainrule("classify", made).lines
    assert [line.split("\t")[2] for line in lines if line] == ["the", "dog"]
    assert lines[-1] == ""
    stdin(b"the dog\n\nthe\n")
    first, empty, last = (json.loads(line) for line in chainrule("classify", made, "--json").lines)
    assert first["words"] == ["the", "dog"]
    assert len(first["labels"]) == 2
    assert all(sum(each.values()) == pytest.approx(1) for each in first["probabilities"])
    assert empty == {"words": [], "labels": [], "probabilities": []}
    assert last["words"] == ["the"]


def test_words_that_normalising_takes_away_or_cuts_keep_their_labels(
    chainrule, stdin, network: Path, tmp_path: Path
) -> None:
    words, made = tmp_path / "words.tsv", tmp_path / "out"
    words.write_text("the\tDET\n\0\tX\nU.S.\tNOUN\n\n" * 4 + "the\tDET\nsoup\tVERB\n\nthe\tX\nnew\tX\n")
    arguments = ("finetune", network, "--data", words, "--words", "-o", made, "--test", words)
    result = chainrule(*arguments, *QUICK)
    assert result.status == 0, result.err
    # Of 16 words, the, \0, U.S. and soup have their own label 4 + 1, 4, 4 and 1 times, and new its X.
    assert "by word" + "93.75%".rjust(25) in result.out
    stdin(b"the U.S. soup\n")
    assert [line.split("\t")[2] for line in chainrule("classify", made).lines if line] == ["the", "U.S.", "soup"]


def test_labels_that_training_has_not_seen_count_as_wrong_with_a_note(
    chainrule, network: Path, labelled: Path, tmp_path: Path
) -> None:
    test, made = tmp_path / "test.tsv", tmp_path / "classifier"
    test.write_text(LABELLED + "a saw\ttool\na saw\ttool\na car\tengine\n")
    known = len(LABELLED.splitlines())
    result = chainrule("finetune", network, "--data", labelled, "-o", made, "--test", test, *QUICK, "--json")
    note = (
        f"note: 2 of the labels were not seen in training (engine, tool); 3 of {known + 3} examples have one: "
        "they count as wrong, and are left out of nats\n"
    )
    assert result.err.endswith(note)
    of_known = chainrule("classify", made, "--data", labelled, "--json").json
    found = chainrule("classify", made, "--data", test, "--json")
    assert found.err == note
    assert found.json == result.json["test"]
    assert found.json["unseen"] == {"engine": 1, "tool": 2}
    assert found.json["accuracy"] == of_known["accuracy"] * known / (known + 3)
    assert found.json["nats"] == pytest.approx(of_known["nats"])
    assert found.json["recall"]["tool"] == found.json["f1"]["engine"] == 0


def test_texts_of_single_words_are_noted(chainrule, network: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.tsv"
    words.write_text("the\tDET\ndog\tNOUN\n\n" * 5)
    result = chainrule("finetune", network, "--data", words, "-o", tmp_path / "out", *QUICK)
    assert "note: every text is a single word; to label the words of texts, use --words\n" in result.err
    result = chainrule("train", "classifier", words, "-o", tmp_path / "scratch", "--width", 8, "--epochs", 1)
    assert "note: every text is a single word; to label the words of texts, use --unit word\n" in result.err


def test_without_a_network_texts_take_a_convolution_and_a_bag_words_an_lstm_and_pairs_a_bag(
    chainrule, labelled: Path, tmp_path: Path
) -> None:
    small = ("--width", 8, "--embedding-width", 8, "--epochs", 1, "--json")
    words, pairs = tmp_path / "words.tsv", tmp_path / "pairs.tsv"
    words.write_text("the\tDET\ndog\tNOUN\n\n" * 5)
    pairs.write_text("the dog\ta dog\tsame\nthe dog\tthe soup\tother\n" * 5)
    for data, unit, network in ((labelled, "text", "convolution-bag"), (words, "word", "lstm"), (pairs, "pair", "bag")):
        result = chainrule("train", "classifier", data, "-o", tmp_path / unit, "--unit", unit, *small)
        assert result.status == 0, result.err
        assert result.json["network"]["name"] == network
    untold = chainrule("train", "classifier", labelled, "-o", tmp_path / "untold", *small).json["network"]
    assert (untold["name"], untold["filters"]) == ("convolution-bag", [1, 2, 3])


@pytest.mark.parametrize(
    ("option", "advised", "others"),
    [
        (("--directions", "both"), "lstm", "gru, rnn"),
        (("--pooling", "max"), "lstm", "gru, rnn"),
        (("--layers", 2), "lstm", "bag, gru, rnn, transformer"),
        (("--heads", 2), "transformer", ""),
        (("--steps", 2), "graph", ""),
    ],
)
def test_an_option_that_the_default_network_lacks_names_those_that_have_it(
    chainrule, labelled: Path, tmp_path: Path, option: tuple[str, object], advised: str, others: str
) -> None:
    result = chainrule("train", "classifier", labelled, "-o", tmp_path / "out", *option)
    assert result.status == 1
    expected = f"{option[0]} is not a setting of convolution-bag, the default network; add --network {advised}"
    assert expected + (f", or another that has it: {others}" if others else "") in result.error
    assert not (tmp_path / "out").exists()
    named = chainrule("train", "classifier", labelled, "-o", tmp_path / "out", "--network", "convolution", *option)
    assert f"{option[0]} is not a setting of --network convolution, but of " in named.error


def test_labels_that_occur_once_and_too_few_texts_to_validate_on_are_noted(
    chainrule, network: Path, tmp_path: Path
) -> None:
    labelled = tmp_path / "few.tsv"
    labelled.write_text("the dog barks\tanimal\nthe soup boils\tfood\nthe dog boils\tfood\n")
    result = chainrule("finetune", network, "--data", labelled, "-o", tmp_path / "out", *QUICK)
    assert result.status == 0, result.err
    assert "note: of 2 labels, 1 occurs only once: 'animal'" in result.err
    assert "validation" not in result.err
    assert "too few examples to hold one out" in result.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("finetune NETWORK -o OUT", 2, "--data"),
        ("finetune NETWORK --data missing.tsv -o OUT", 1, "missing.tsv"),
        ("finetune NETWORK --data LABELLED --words -o OUT", 1, "the word is 'the dog barks'"),
        ("finetune NETWORK --data LABELLED -o OUT --test OTHER", 1, "the label 'tool' was not seen in training"),
        ("finetune NETWORK --data LABELLED -o NETWORK", 1, "is the network to start from"),
        ("finetune NETWORK --data LABELLED -o NETWORK --overwrite", 1, "is the network to start from"),
        ("finetune NETWORK --data LABELLED -o OUT --frozen --fresh", 1, "choose one of them"),
        ("finetune NETWORK --data LABELLED -o OUT --epochs 0", 1, "epochs is 0"),
        ("classify NETWORK LABELLED", 1, "this takes one that labels texts"),
        ("classify NETWORK LABELLED --data LABELLED", 2, "--data names the texts"),
        (
            "classify NETWORK --data LABELLED --document line",
            2,
            "only --field, --encoding and those of bad records are",
        ),
    ],
)
def test_bad_input_is_an_error_and_writes_nothing(
    arguments: str, status: int, message: str, chainrule, network: Path, labelled: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.tsv").write_text("a saw\ttool\n")
    names = {"NETWORK": network, "LABELLED": labelled, "OUT": tmp_path / "out", "OTHER": tmp_path / "other.tsv"}
    result = chainrule(*(names.get(argument, argument) for argument in arguments.split()))
    assert result.status == status
    assert message in result.err.splitlines()[-1]
    assert result.out == ""
    assert not (tmp_path / "out").exists()


def test_a_finished_run_is_not_begun_again(chainrule, network: Path, labelled: Path, tmp_path: Path) -> None:
    arguments = ("finetune", network, "--data", labelled, "-o", tmp_path / "made", "--resume")
    assert chainrule(*arguments, *QUICK).status == 0
    assert sorted(path.name for path in (tmp_path / "made").iterdir() if path.suffix != ".safetensors") == [
        "README.md",
        "config.json",
        "log.jsonl",
    ]
    again = chainrule(*arguments, *QUICK)
    assert again.status == 0
    assert "note: the run has ended, after 20 steps" in again.err
    assert "with other settings: batch was 4 and is 3" in chainrule(*arguments, "--batch", 3).err
    labelled.write_text(LABELLED + "the cat sleeps\tanimal\n")
    assert "with other settings: the text differs" in chainrule(*arguments, *QUICK).err
    assert "--resume continues a run" in chainrule(*arguments, "--overwrite").err


def test_pairs_are_fine_tuned_tested_and_classified(chainrule, network: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the dog\tthe soup\tno\nthe dog\tbarks\tyes\n" * 10)
    made = tmp_path / "classifier"
    result = chainrule("finetune", network, "--data", pairs, "--pairs", "-o", made, "--test", pairs, *QUICK)
    assert result.status == 0, result.err
    lines = [line.split("\t") for line in chainrule("classify", made, pairs).lines]
    assert [line[2] for line in lines[:2]] == ["the dog / the soup", "the dog / barks"]
    measured = chainrule("evaluate", made, pairs, "--json").json
    assert measured["accuracy"] == float(result.lines[2].split()[1].rstrip("%")) / 100
    both = chainrule("finetune", network, "--data", pairs, "--pairs", "--words", "-o", tmp_path / "x")
    assert "give one of them" in both.error


def test_a_classifier_learns_from_named_columns_and_is_measured_on_them(chainrule, tmp_path: Path) -> None:
    rows = "".join(f'{i},"{text}, café",{label}\n' for i, (text, label) in enumerate([("good", 5), ("bad", 1)] * 8))
    (tmp_path / "t.csv").write_bytes(("id,review,stars\n" + rows).encode("latin-1"))
    columns = ("--field", "review", "--label-field", "stars", "--encoding", "latin-1")
    train = ("train", "classifier", tmp_path / "t.csv", "-o", tmp_path / "made", "--network", "bag", "--width", 8)
    result = chainrule(*train, "--epochs", 2, *columns, "--test", tmp_path / "t.csv", "--json")
    assert result.status == 0, result.err
    by_evaluate = chainrule("evaluate", tmp_path / "made", tmp_path / "t.csv", *columns, "--json").json
    by_classify = chainrule("classify", tmp_path / "made", "--data", tmp_path / "t.csv", *columns, "--json").json
    assert by_evaluate == by_classify == result.json["test"]
    labels = chainrule("classify", tmp_path / "made", tmp_path / "t.csv", "--field", "review", "--encoding", "latin-1")
    assert {line.split("\t")[0] for line in labels.lines} <= {"1", "5"}
    assert labels.err == ""
    (tmp_path / "labelled.tsv").write_text("text\tlabel\ngood\t5\nbad\t1\n")
    noted = chainrule("classify", tmp_path / "made", tmp_path / "labelled.tsv")
    assert "2 of the 3 texts end in a tab and a label" in noted.err
    refused = chainrule("train", "classifier", tmp_path / "t.csv", "-o", tmp_path / "x", "--network", "tree", *columns)
    assert "--field, --label-field and --encoding are for texts and pairs with labels, not trees" in refused.error


def test_pairs_in_named_columns_of_another_encoding(chainrule, tmp_path: Path) -> None:
    rows = "".join(f"{i},café {i},un thé,{i % 5}\n" for i in range(20))
    (tmp_path / "t.csv").write_bytes(("id,a,b,gold\n" + rows).encode("latin-1"))
    train = ("train", "classifier", tmp_path / "t.csv", "-o", tmp_path / "made", "--unit", "rating", "--width", 8)
    columns = ("--field", "a,b", "--label-field", "gold", "--encoding", "latin-1")
    result = chainrule(*train, "--epochs", 1, *columns, "--test", tmp_path / "t.csv", "--json")
    assert result.status == 0, result.err
    assert result.json["examples"] + result.json["validation_examples"] == 20
    by_evaluate = chainrule("evaluate", tmp_path / "made", tmp_path / "t.csv", *columns, "--json").json
    assert by_evaluate == result.json["test"]
    rated = chainrule("classify", tmp_path / "made", tmp_path / "t.csv", "--field", "a,b", "--encoding", "latin-1")
    assert [line.split("\t")[1] for line in rated.lines] == [f"café {i} / un thé" for i in range(20)]
    unnamed = chainrule(*train[:3], "-o", tmp_path / "x", "--unit", "rating", "--encoding", "latin-1")
    assert "the columns" in unnamed.error or "names of columns" in unnamed.error
    assert "with --field, and that of labels or ratings with --label-field" in unnamed.error
    one = chainrule(*train[:3], "-o", tmp_path / "x", "--unit", "rating", "--field", "a")
    assert "--field is a; of pairs, name both columns, with a comma between" in one.error


def test_a_table_has_a_row_for_each_text_and_word(chainrule, network: Path, labelled: Path, tmp_path: Path) -> None:
    """What `classify` gives each text alone, beside its label; their mean is the accuracy."""
    made, words = tmp_path / "classifier", tmp_path / "words"
    assert chainrule("finetune", network, "--data", labelled, "-o", made, *QUICK).status == 0
    mixed = tmp_path / "mixed.tsv"
    mixed.write_text("the dog barks\tanimal\nthe soup boils\tanimal\nthe soup\tstone\n")
    done = chainrule("evaluate", made, mixed, "-o", tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert done.lines[0].split()[:2] == ["accuracy", f"{np.mean([row['right'] for row in rows]):.2%}"]
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(row["text"] + "\n" for row in rows))
    alone = [json.loads(line) for line in chainrule("classify", made, texts, "--json").lines]
    for row, one, label in zip(rows, alone, ("animal", "animal", "stone"), strict=True):
        assert (row["label"], row["predicted"], row["right"]) == (label, one["label"], label == one["label"])
        assert np.exp(row["log_prob_predicted"]) == pytest.approx(one["probabilities"][one["label"]], abs=1e-6)
        known = one["probabilities"].get(label)
        assert row["log_prob_label"] is None if known is None else np.exp(row["log_prob_label"]) == pytest.approx(known)
    tagged = tmp_path / "tagged.tsv"
    tagged.write_text("the\tD\ndog\tN\n\nthe\tD\nsoup\tN\n\n" * 6)
    assert chainrule("finetune", network, "--data", tagged, "--words", "-o", words, *QUICK).status == 0
    chainrule("evaluate", words, tagged, "-o", tmp_path / "words.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "words.jsonl").read_text().splitlines()]
    assert [(row["text"], row["word"], row["label"]) for row in rows[:4]] == [
        (1, "the", "D"),
        (1, "dog", "N"),
        (2, "the", "D"),
        (2, "soup", "N"),
    ]
    assert len(rows) == 24
