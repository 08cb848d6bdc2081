"""What people see of models and figures in Python: one line, a table, HTML for notebooks, rows for pandas."""

from __future__ import annotations

import html.parser
import json
import math

import numpy as np
import pytest

import chainrule
from chainrule.features.compare.supervised import LabelComparison, LabelRow
from chainrule.features.metrics.classification import measure_classification
from chainrule.features.vectors.evaluate import VectorsMeasurement
from chainrule.features.vectors.learning.intrinsic import Accuracy, Agreement
from chainrule.models.model_info import ModelInfo


@pytest.fixture(scope="module")
def model(fixtures) -> chainrule.Model:
    return chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=2))


@pytest.fixture(scope="module")
def network(fixtures) -> chainrule.Model:
    config = chainrule.TransformerConfig(layers=1, width=16, heads=1, context=16)
    return chainrule.train(fixtures / "heldout.txt", config, training=chainrule.TrainingConfig(steps=2, compile="no"))


class Text(html.parser.HTMLParser):
    """The text between the tags, which must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.parts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def test_a_measurement_shows_perplexity_and_bits_per_byte_first(model, fixtures) -> None:
    found = model.evaluate(fixtures / "heldout.txt")
    start = (
        f"<Measurement: perplexity {found.perplexity:.4f}, {found.bits_per_byte:.4f} bits per byte; 1,174 tokens in 102"
    )
    assert repr(found).startswith(start)
    assert "\n" not in repr(found)
    assert str(found).splitlines()[0].split()[:2] == ["perplexity", f"{found.perplexity:.4f}"]
    parts = Text(found._repr_html_()).parts
    assert parts[parts.index("perplexity") + 1] == f"{found.perplexity:.4f}"
    assert found.signature in parts


def test_the_figures_of_a_measurement_are_a_row_of_numbers(model, fixtures) -> None:
    found = model.evaluate(fixtures / "heldout.txt")
    row = found.to_dict()
    assert all(isinstance(value, int | float | str) for value in row.values())
    assert (row["perplexity"], row["tokens"]) == (found.perplexity, 1174)
    assert {name: value for name, value in found.as_json().items() if name in row} == row
    unseen = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=1, smoothing="maximum-likelihood"))
    infinite = unseen.evaluate(fixtures / "heldout.txt")
    assert infinite.to_dict()["perplexity"] == math.inf
    assert infinite.as_json()["perplexity"] is None


def test_scores_that_are_no_distribution_are_marked(fixtures) -> None:
    model = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=2, smoothing="stupid-backoff"))
    found = model.evaluate(fixtures / "heldout.txt")
    assert "perplexity* " in repr(found)
    assert "* from scores that do not sum to one" in str(found)
    assert any("from scores that do not sum to one" in part for part in Text(found._repr_html_()).parts)


def test_a_comparison_shows_its_table(model, fixtures) -> None:
    name = "<b>odd</b> | name"
    comparison = chainrule.compare({name: model, "again": model}, fixtures / "heldout.txt")
    lines = str(comparison).splitlines()
    assert lines[0].split()[:2] == ["model", "bits/byte"]
    assert lines[1].startswith(name)
    assert repr(comparison) == f"<Comparison of 2 models>\n{comparison}"
    page = comparison._repr_html_()
    assert "<b>" not in page
    assert name in Text(page).parts
    assert f"{comparison.best.measurement.bits_per_byte:.4f}" in Text(page).parts


def test_models_show_what_they_are_and_how_large(model, network) -> None:
    assert repr(model) == "<CausalModel: ngram, word tokenizer, 338 tokens, 4,597 n-grams>"  # 338 + 4,259
    parameters = sum(weight.numel() for weight in network.engine.network.parameters())
    assert repr(network).endswith(f", {parameters:,} parameters>")
    for one in (model, network):
        parts = Text(one._repr_html_()).parts
        assert parts[parts.index("family") + 1] == one.family
        assert parts[parts.index("trained on") + 1].endswith(")")


def test_info_has_the_signature_of_a_measurement(model, network, fixtures) -> None:
    for one in (model, network):
        signature = chainrule.info(one).signature
        measured = one.evaluate(fixtures / "heldout.txt")
        assert signature == f"{measured.token_signature}|{measured.model_signature}"


def test_info_knows_all_of_a_folder(network, tmp_path, fixtures) -> None:
    network.save(tmp_path / "net")
    found = chainrule.info(tmp_path / "net")
    assert found.record == chainrule.load(tmp_path / "net").record
    shown = dict(line.split("  ", 1) for line in str(found).splitlines())
    rows = {name: value.strip() for name, value in shown.items()}
    assert rows["budget"] == "2 steps"
    assert rows["steps"].startswith("2, of ")
    assert rows["optimiser"].startswith("muon, learning rate ")
    assert rows["batch"].endswith(" rows")
    assert rows["validation"].startswith(f"{network.record['validation']['loss']:.4f} nats a token")
    digest = network.record["data"][str(fixtures / "heldout.txt")]
    assert rows["trained on"] == f"{fixtures / 'heldout.txt'} (SHA-256 {digest})"
    data = next(path for path in (tmp_path / "net").iterdir() if path.suffix == ".safetensors")
    assert 0 <= data.stat().st_size - found.bytes < 10_000  # but for its header
    card = (tmp_path / "net" / "README.md").read_text()
    for name, value in rows.items():
        assert f"| {name} | " in card
        assert value.replace("|", "\\|") in card


@pytest.mark.parametrize("name", ["order3.arpa.gz", "kenlm/probing.binary", "kenlm/trie.binary"])
def test_info_of_files_of_others(name: str, fixtures) -> None:
    found = chainrule.info(fixtures / name)
    assert found.family == "ngram"
    assert found.bytes == (fixtures / name).stat().st_size
    assert found.to_dict()["ngrams"] == sum(found.as_json()["ngrams"]) > 10
    assert "|context:" in found.signature
    assert ("read from", str(fixtures / name)) in found.rows()


def test_info_of_models_of_other_kinds(model, network, tmp_path, fixtures) -> None:
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    training = chainrule.TrainingConfig(steps=1, compile="no")
    translation = chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16), training=training)
    translation.save(tmp_path / "mt")
    found = chainrule.info(tmp_path / "mt")
    assert (found.family, found.signature) == ("conditional", None)
    assert found.parameters == translation.record["parameters"]
    assert f"{found.parameters:,} parameters>" in repr(translation)
    assert found.as_json()["record"]["documents"] == 19  # a twentieth is validated on
    assert "conditional" in Text(translation._repr_html_()).parts
    examples = [chainrule.Labelled(text, (label,)) for text, label in [("a b", "x"), ("b c", "y")] * 8]
    classifier = chainrule.finetune(network, examples, config=chainrule.FineTuningConfig(epochs=1))
    assert ("made from", "a network of family transformer") in chainrule.info(classifier).rows()
    assert chainrule.info(classifier).signature is None
    mixture = chainrule.mix([model, model], heldout=fixtures / "heldout.txt", names=["one", "other"])
    assert [value.split(",")[0] for name, value in chainrule.info(mixture).rows() if name == "mixed"] == [
        "one",
        "other",
    ]
    assert "context:document" in str(chainrule.info(mixture).signature)


def test_a_record_that_was_edited_by_hand_is_shown() -> None:
    odd = {"parameters": "many", "ngrams": [1, "two"], "training": 3}
    found = ModelInfo(
        family="ngram",
        tokenizer="word",
        vocabulary_size=3,
        parameters=None,
        ngrams=None,
        bytes=None,
        signature=None,
        record=odd,
    )
    assert str(found).splitlines()[0] == "family      ngram"
    from chainrule.models.model_info import size_of

    assert size_of(odd) == ""


def assert_rows(result, header: list[str], rows: int) -> None:
    """A result has rows for pandas with the columns of the header, and shows itself in a notebook."""
    records = result.to_records()
    assert len(records) == rows
    assert all(list(record) == header for record in records)
    assert Text(result._repr_html_()).parts


def test_a_classification_is_a_row_and_has_one_for_each_label() -> None:
    log_probs = np.log([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    result = measure_classification(["no", "yes"], log_probs, np.array([0, 1, 1]))
    assert result.to_dict()["accuracy"] == pytest.approx(2 / 3)
    assert all(isinstance(value, int | float | None) for value in result.to_dict().values())
    assert result.by_label()[1] == {"label": "yes", "examples": 2, "precision": 1, "recall": 0.5, "f1": 2 / 3}
    assert result.as_json().items() >= result.to_dict().items()
    comparison = LabelComparison((LabelRow("bag", "fresh", result, 10, 0.5),))
    assert comparison.to_records()[0].items() >= {"network": "bag", "accuracy": 2 / 3}.items()
    assert "bag" in Text(comparison._repr_html_()).parts
    assert repr(comparison) == f"<LabelComparison of 1 networks>\n{comparison}"


def test_ranked_documents_are_rows(model) -> None:
    texts = {"a": "the river", "b": "the dog"}
    ranked = chainrule.rank(model, {"q": "river"}, texts, judgements={"q": {"a": 1}})
    assert_rows(ranked, ["query", "rank", "document", "log_prob"], 2)
    assert ranked.to_dict() == {"queries": 1, "map": 1.0, "ndcg_10": 1.0}
    assert repr(ranked) == "<Ranked: documents of 1 queries; MAP 1.0000, nDCG@10 1.0000>"
    assert chainrule.rank(model, {"q": "river"}, texts).to_dict() == {}


def test_rescored_lists_are_rows(model, tmp_path) -> None:
    texts = [{"text": "the river", "score": -2.0}, {"text": "a rivet", "score": -1.0}]
    (tmp_path / "lists.jsonl").write_text(json.dumps({"id": "x", "hypotheses": texts, "reference": "the river"}))
    rescored = chainrule.rescore(str(tmp_path / "lists.jsonl"), model, bleu=False)
    [row] = rescored.to_records()
    right = row["text"] == "the river"
    told = {"id": "x", "text_before": "a rivet", "changed": right, "hypotheses": 2, "right": right}
    assert row.items() >= (told | {"errors": 0 if right else 2, "errors_before": 2, "errors_oracle": 0}).items()
    assert row["total"] == pytest.approx(row["score"] + row["lm"])
    row = rescored.to_dict()
    # "a rivet" has the higher score of its own: both of its words are wrong
    assert row.items() >= {"lists": 1, "hypotheses": 2, "weight_score": 1.0, "word_error_rate_before": 1.0}.items()
    assert rescored.as_json()["word_error_rate"]["before"]["value"] == 1.0
    assert "before" in Text(rescored._repr_html_()).parts


def test_figures_of_vectors_are_rows_and_a_table_each() -> None:
    interval = {"spearman_interval": (0.1, 0.6), "pearson_interval": (math.nan, math.nan)}
    pairs = Agreement(name="men", pairs=4, of=5, spearman=0.5, pearson=math.nan, **interval)
    section = Accuracy(section="family", right=1, questions=4, of=6)
    measured = VectorsMeasurement(similarity=[pairs], analogies=[section])
    assert [list(row.values())[:3] for row in measured.to_records()] == [["men", 4, 5], ["family", 4, 6]]
    assert measured.to_records()[1]["accuracy"] == 0.25
    row = measured.to_dict()
    assert row == {"men_spearman": 0.5, "family_accuracy": 0.25, "by_ngrams": 0}
    assert measured.as_json()["similarity"][0]["pearson"] is None
    tables = str(measured).splitlines()
    assert tables[1].split() == ["men", "4", "of", "5", "0.500", "0.10", "to", "0.60"]
    assert tables[-1].split() == ["family", "4", "of", "6", "25.0%"]
    assert "25.0%" in Text(measured._repr_html_()).parts


def test_answers_to_prompts_are_a_row_and_rows(model) -> None:
    result = chainrule.prompt(model, [{"text": "he", "label": "yes"}], "{text} said", choices=["so=yes", "no=no"])
    assert_rows(result, ["seed", "order", "template", "expected", "answer", "right", "prompt", "probabilities"], 1)
    assert result.to_dict() == {
        "template": "{text} said",
        "examples": 1,
        "accuracy": result.mean_accuracy,
        "spread": None,
    }
    assert result.as_json().items() >= result.to_dict().items()
