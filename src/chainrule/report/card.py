"""The model card: the README.md of a model folder, written by the program from the training record."""

from __future__ import annotations

import json
from typing import Any

from chainrule import __version__
from chainrule.report.tables import markdown_cell, markdown_code

_BEGINNING = (
    "# A language model",
    "",
    f"Written by chainrule {__version__}; `config.json` holds all of this for programs.",
    "",
    "| what | value |",
    "|---|---|",
)


def model_card(family: str, tokenizer: str, vocabulary_size: int, record: dict[str, Any]) -> str:
    """Markdown."""
    rows = [
        ("family", family),
        ("tokenizer", tokenizer),
        ("vocabulary", f"{vocabulary_size:,} tokens, with `<unk>`, `<s>` and `</s>`"),
    ]
    if "settings" in record:
        settings = ", ".join(f"{name} = {_value(value)}" for name, value in record["settings"].items())
        rows.append(("settings", settings or "none"))
    rows += [
        ("trained on", f"{markdown_code(name)} (SHA-256 {value})") for name, value in record.get("data", {}).items()
    ]
    if "tokens" in record:
        rows.append(("training text", f"{record['tokens']:,} tokens in {record['documents']:,} documents"))
    if "ngrams" in record:
        rows.append(("n-grams by order", ", ".join(f"{size:,}" for size in record["ngrams"])))
    rows += [(f"discounts, order {row['order']}", _discounts(row)) for row in record.get("discounts", [])]
    if "trained" in record:
        rows.append(("trained", f"{record['trained']}, in {record['seconds']:.1f} s"))
        rows.append(("with", ", ".join(f"{name} {version}" for name, version in record["versions"].items())))
    if "read_from" in record:
        rows.append(("read from", markdown_code(record["read_from"])))
    return "\n".join([*_BEGINNING, *(f"| {what} | {markdown_cell(value)} |" for what, value in rows)]) + "\n"


def _discounts(discounts: dict[str, Any]) -> str:
    values = ", ".join(f"{value:.4f}" for value in discounts["values"])
    return values if discounts["estimated"] else f"{values} (fallback: {discounts['problem']})"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
