"""The model card: the README.md of a model folder, written by the program from the training record."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from chainrule import __version__
from chainrule.report.tables import markdown_cell, markdown_code, printable

_BEGINNING = (
    "# A model of chainrule",
    "",
    f"Written by chainrule {__version__}; `config.json` holds all of this for programs.",
    "",
    "| what | value |",
    "|---|---|",
)


def model_card(family: str, tokenizer: str, vocabulary_size: int, record: dict[str, Any]) -> str:
    """Markdown. What of a record is not as this program writes it, since people may edit config.json, is left out."""
    rows = [
        ("family", family),
        ("tokenizer", tokenizer),
        ("vocabulary", f"{vocabulary_size:,} tokens, with `<unk>`, `<s>` and `</s>`"),
    ]
    parts = (
        *(_settings, _data, _text, _ngrams, _all_discounts, _network, _validation),
        *(_labels, _labels_validation, _labels_test, _training, _origin),
    )
    for rows_about in parts:
        with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
            rows += rows_about(record)
    return "\n".join([*_BEGINNING, *(f"| {_cell(what)} | {_cell(value)} |" for what, value in rows)]) + "\n"


def _cell(text: str) -> str:
    return markdown_cell(printable(text))


def _settings(record: dict[str, Any]) -> list[tuple[str, str]]:
    settings = ", ".join(f"{name} = {_value(value)}" for name, value in record["settings"].items())
    return [("settings", settings or "none")]


def _data(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("trained on", f"{markdown_code(name)} (SHA-256 {value})") for name, value in record["data"].items()]


def _text(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("training text", f"{record['tokens']:,} tokens in {record['documents']:,} documents")]


def _ngrams(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("n-grams by order", ", ".join(f"{size:,}" for size in record["ngrams"]))]


def _all_discounts(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f"discounts, order {row['order']}", _discounts(row)) for row in record["discounts"]]


def _network(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("parameters", f"{record['parameters']:,}")]


def _validation(record: dict[str, Any]) -> list[tuple[str, str]]:
    found = record["validation"]
    bits = f", {found['bits_per_byte']:.4f} bits per byte" if "bits_per_byte" in found else ""
    return [("validation", f"{found['loss']:.4f} nats a token{bits}, after step {found['step']:,}")]


def _labels(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("made from", f"a network of family {record['base']}"),
        (
            "labels learnt from",
            f"{record['examples']:,} texts, best after epoch {record['best_epoch']} of {record['epochs']}",
        ),
    ]


def _labels_validation(record: dict[str, Any]) -> list[tuple[str, str]]:
    nats, share, texts = (record[f"validation_{name}"] for name in ("nats", "accuracy", "examples"))
    return [("validation", f"{nats:.4f} nats a label, {share:.1%} right in {texts:,} texts")]


def _labels_test(record: dict[str, Any]) -> list[tuple[str, str]]:
    test = record["test"]
    interval = f"{100 * test['low']:.1f} to {100 * test['high']:.1f} at 95 %"
    return [("test", f"{test['accuracy']:.1%} right ({interval}) of {test['examples']:,}, {test['nats']:.4f} nats")]


def _training(record: dict[str, Any]) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return [("trained", f"{record['trained']}, in {record['seconds']:.1f} s"), ("with", versions)]


def _origin(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("read from", markdown_code(record["read_from"]))]


def _discounts(discounts: dict[str, Any]) -> str:
    values = ", ".join(f"{value:.4f}" for value in discounts["values"])
    return values if discounts["estimated"] else f"{values} (fallback: {discounts['problem']})"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
