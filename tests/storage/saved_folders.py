"""Small model folders to be opened, changed and saved again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import save_model

ARRAYS = {"numbers": np.arange(6, dtype=np.float32).reshape(2, 3), "text": np.arange(9, dtype=np.uint8)}
OTHER_ARRAYS = {"numbers": np.arange(8, dtype=np.float32)}
TEXTS = {"tokenizer.json": b'{"kind": "subword"}'}


def save(folder: Path, arrays: dict[str, np.ndarray] = ARRAYS, *, overwrite: bool = False, **record: Any) -> None:
    save_model(
        folder,
        family="ngram",
        settings={"order": 3, "discounts": None},
        tokenizer=TokenizerEntry(kind="word", markers="skip", unicode="14.0.0"),
        arrays=arrays,
        record=record,
        card="# A card\n",
        overwrite=overwrite,
    )


def with_texts(folder: Path, arrays: dict[str, np.ndarray] = ARRAYS, **settings: Any) -> Path:
    """A model with a data file beside its arrays."""
    tokenizer = TokenizerEntry(kind="subword", markers="skip", unicode="14.0.0")
    save_model(
        folder,
        family="ngram",
        settings={"order": 1e-05},
        tokenizer=tokenizer,
        arrays=arrays,
        record={"note": 'in "quotes": ""', "control": "\x1f"},
        card="# A card\n",
        texts=TEXTS,
        **settings,
    )
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rewrite_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def a_copy_of(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.parent / "copy", dirs_exist_ok=True))
