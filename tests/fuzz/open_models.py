"""Tiny models as others write them, to be broken."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "open_models"))

from tiny_files import llama_of_512, write_gguf, write_llama2c
from tiny_models import CAUSAL, MASKED, PAIRS, byte_level, framed, save, save_pieces, shaken, unigrams, word_pieces


def open_models(folder: Path, pieces: Path) -> list[Path]:
    """Folders of Hugging Face's, a GGUF file and one of llama2.c, each in a folder of its own, where a victim knows
    them. pieces: the tokenizer of llama2.c.
    """
    for name, build, tokenizer in (
        ("gpt2", CAUSAL["gpt2"], byte_level()),
        ("llama", CAUSAL["llama3"], byte_level()),
        ("gemma3", CAUSAL["gemma3, scaled"], byte_level()),
        ("phi3", CAUSAL["phi3, longrope"], byte_level()),
        ("mixtral", CAUSAL["mixtral"], byte_level()),
        ("lfm2", CAUSAL["lfm2"], byte_level()),
        ("mamba2", CAUSAL["mamba2"], byte_level()),
        ("qwen3_5", CAUSAL["qwen3_5"], byte_level()),
        ("bert", MASKED["bert"], word_pieces()),
        ("modernbert", MASKED["modernbert"], word_pieces()),
        ("marian", PAIRS["marian"], unigrams()),
        ("t5", PAIRS["t5"], unigrams()),
        ("bart", PAIRS["bart"], framed("bart")),
        ("m2m_100", PAIRS["m2m_100"], framed("m2m_100")),
    ):
        save(shaken(build), folder / name, tokenizer)
    save_pieces(folder / "marian", two_vocabularies=False)
    (folder / "marian" / "tokenizer.json").unlink()
    in_gguf = ("llama3", "mamba", "gemma3, scaled", "phi3, longrope", "qwen3_moe")
    for name in (*(f"gguf {number}" for number in range(len(in_gguf))), "llama2c"):
        (folder / name).mkdir()
    shutil.copy(pieces, folder / "llama2c")
    return [
        *(
            folder / name
            for name in (
                "gpt2",
                "llama",
                "gemma3",
                "phi3",
                "mixtral",
                "lfm2",
                "mamba2",
                "qwen3_5",
                "bert",
                "modernbert",
                "marian",
                "t5",
                "bart",
                "m2m_100",
            )
        ),
        *(
            write_gguf(folder / f"gguf {number}" / "tiny.gguf", shaken(CAUSAL[name]), byte_level())
            for number, name in enumerate(in_gguf)
        ),
        write_llama2c(folder / "llama2c" / "tiny.bin", llama_of_512()),
    ]
