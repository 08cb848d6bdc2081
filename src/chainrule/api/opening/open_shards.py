"""Opens some shards of a model, for a process that serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.errors import ModelFormatError, SettingError, prefix_errors
from chainrule.ngram.config import SHARDS
from chainrule.storage.config_json import read_config
from chainrule.storage.model_folder import open_data_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.ngram.trie.table import Table


def open_shards(folder: Path, numbers: Sequence[int]) -> tuple[list[int], dict[int, Table]]:
    """Some shards of a model folder, by number, whether the others are there or not; and the edges of all.

    numbers: by default all. edges: as `ShardedModel` has them. Raises ModelFormatError, SettingError.
    """
    from chainrule.ngram.saving import file_of, index_of, table_of_shard

    entry = read_config(folder)
    if entry.settings.get("layout") != SHARDS:
        raise ModelFormatError(f"{folder}: is no model in shards; chainrule convert --shards makes one")
    if "backoff_weight" in entry.settings or "begins" in entry.settings:
        raise ModelFormatError(
            f"{folder}: is of stupid backoff, or of documents that begin with several <s>; only plain n-gram "
            "models are served by their shards"
        )
    with prefix_errors(str(folder)):
        edges, sizes = index_of(entry.settings)
    tables = {}
    for k in numbers or range(len(sizes)):
        if not 0 <= k < len(sizes):
            raise SettingError(f"there is no shard {k}; the model has {len(sizes)}, from 0")
        arrays = open_data_file(folder, entry, f"{file_of(k)}.safetensors")
        with prefix_errors(str(folder)):
            tables[k] = table_of_shard(k, sizes[k], {f"{file_of(k)}/{name}": array for name, array in arrays.items()})
    return edges, tables
