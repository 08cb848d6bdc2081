"""Tiny models as others write them, to be broken."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "features" / "open"))

from test_gguf_encoders import build, write
from test_gguf_pairs import write as write_t5
from tiny_files import llama_of_512, save_mxfp4, write_gguf, write_llama2c
from tiny_models import CAUSAL, MASKED, PAIRS, save, shaken
from tiny_tokenizers import byte_level, framed, save_pieces, unigrams, word_pieces

_CAUSAL = {
    "gpt2": "gpt2",
    "llama": "llama3",
    "gemma3": "gemma3, scaled",
    "gemma4": "gemma4",
    "phi3": "phi3, longrope",
    "mixtral": "mixtral",
    "gpt_oss": "gpt_oss",
    "lfm2": "lfm2",
    "mamba2": "mamba2",
    "qwen3_5": "qwen3_5",
    "rwkv": "rwkv",
}
_MASKED = ("bert", "modernbert", "albert", "deberta-v2")
_PAIRS = {"marian": unigrams, "t5": unigrams, "bart": lambda: framed("bart"), "m2m_100": lambda: framed("m2m_100")}
_IN_GGUF = (
    "llama3",
    "mamba",
    "gemma3, scaled",
    "phi3, longrope",
    "qwen3_moe",
    "gpt_oss",
    "qwen3_5",
    "falcon, new",
    "gemma4, experts",
)


def open_models(folder: Path, pieces: Path) -> list[Path]:
    """Folders of Hugging Face, GGUF files and one of llama2.c, each in a folder of its own, where a victim knows them.

    pieces: the tokenizer of llama2.c.
    """
    made = [save(shaken(CAUSAL[model]), folder / name) for name, model in _CAUSAL.items()]
    made += [save(shaken(MASKED[name]), folder / name, word_pieces()) for name in _MASKED]
    made += [save(shaken(PAIRS[name]), folder / name, tokenizer()) for name, tokenizer in _PAIRS.items()]
    made.append(save_mxfp4(folder / "mxfp4", folder / "plain"))
    save_pieces(folder / "marian", two_vocabularies=False)
    (folder / "marian" / "tokenizer.json").unlink()
    for number, name in enumerate(_IN_GGUF):
        (folder / f"gguf {number}").mkdir()
        made.append(write_gguf(folder / f"gguf {number}" / "tiny.gguf", shaken(CAUSAL[name]), byte_level()))
    (folder / "gguf t5").mkdir()
    made.append(write_t5(folder / "gguf t5" / "tiny.gguf", shaken(PAIRS["t5"])))
    for kind in ("bert", "xlm-roberta", "modernbert"):
        (folder / f"gguf {kind}").mkdir()
        made.append(write(folder / f"gguf {kind}" / "tiny.gguf", kind, *build(kind)))
    (folder / "llama2c").mkdir()
    shutil.copy(pieces, folder / "llama2c")
    return [*made, write_llama2c(folder / "llama2c" / "tiny.bin", llama_of_512())]
