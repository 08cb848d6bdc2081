"""Tiny models as others write them, to be broken."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "open_models"))

from tiny_files import llama_of_512, write_gguf, write_llama2c
from tiny_models import CAUSAL, MASKED, PAIRS, byte_level, save, save_pieces, shaken, unigrams, word_pieces


def open_models(folder: Path, pieces: Path) -> list[Path]:
    """Folders of Hugging Face's, a GGUF file and one of llama2.c, each in a folder of its own, where a victim knows
    them. pieces: the tokenizer of llama2.c.
    """
    for name, build, tokenizer in (
        ("gpt2", CAUSAL["gpt2"], byte_level()),
        ("llama", CAUSAL["llama3"], byte_level()),
        ("bert", MASKED["bert"], word_pieces()),
        ("marian", PAIRS["marian"], unigrams()),
        ("t5", PAIRS["t5"], unigrams()),
    ):
        save(shaken(build), folder / name, tokenizer)
    save_pieces(folder / "marian", two_vocabularies=False)
    (folder / "marian" / "tokenizer.json").unlink()
    for name in ("gguf", "llama2c"):
        (folder / name).mkdir()
    shutil.copy(pieces, folder / "llama2c")
    return [
        *(folder / name for name in ("gpt2", "llama", "bert", "marian", "t5")),
        write_gguf(folder / "gguf" / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level()),
        write_llama2c(folder / "llama2c" / "tiny.bin", llama_of_512()),
    ]
