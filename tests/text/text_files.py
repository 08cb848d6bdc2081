"""Files of text for tests of corpora."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

from samples import examples

from chainrule.base.files import zstd
from chainrule.text.corpus.corpus import Corpus, Lines

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def file_of(folder: Path, data: bytes, name: str = "text.txt") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def text_of(source: Corpus | Lines) -> bytes:
    return b"".join(block.text.tobytes() for block in source.blocks())


fast = examples(3)
