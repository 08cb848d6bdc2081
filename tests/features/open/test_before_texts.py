"""What a text is read after: what the tokenizer adds, else the token between documents, and no token of a chat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tiny_models import CAUSAL, save, shaken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

import chainrule
from chainrule.features.open.gguf.tokenizer import adds_begin
from chainrule.models.files.origin import TokenIdMap, name_before

if TYPE_CHECKING:
    from pathlib import Path

_CHATML = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
# bos, eos, other special tokens, tokenizer_config.json, what a text is read after: as in the files of these models.
_LIKE = {
    "SmolLM2": ("<|endoftext|>", "<|endoftext|>", (), {}, "<|endoftext|>"),
    "SmolLM2-Instruct": (
        *("<|im_start|>", "<|im_end|>", ("<|endoftext|>",)),
        {"add_bos_token": False, "chat_template": _CHATML},
        "<|endoftext|>",
    ),
    "SmolLM3": ("<|begin_of_text|>", "<|im_end|>", ("<|end_of_text|>",), {"chat_template": _CHATML}, "<|end_of_text|>"),
    "Qwen 2.5-Instruct": (
        *("<|endoftext|>", ["<|im_end|>", "<|endoftext|>"], ("<|im_start|>",)),
        {"add_bos_token": False, "bos_token": None, "chat_template": _CHATML},
        "<|endoftext|>",
    ),
    "OLMo": (None, "<|endoftext|>", ("<|padding|>",), {"add_bos_token": False}, "<|endoftext|>"),
    "Phi-2": ("<|endoftext|>", "<|endoftext|>", (), {"add_bos_token": False}, "<|endoftext|>"),
    "Phi-3": ("<s>", ["<|end|>", "<|endoftext|>"], ("<|user|>",), {"add_bos_token": False}, "<|endoftext|>"),
    "Phi-4": ("<|endoftext|>", "<|im_end|>", (), {"add_bos_token": False, "chat_template": _CHATML}, "<|endoftext|>"),
    "GPT-NeoX": ("<|endoftext|>", "<|endoftext|>", (), {"add_bos_token": False}, "<|endoftext|>"),
    "StableLM 2": ("<|endoftext|>", "<|im_end|>", (), {"chat_template": _CHATML}, "<|endoftext|>"),
    "BLOOM": ("<s>", "</s>", (), {}, "</s>"),
    "gpt-oss": ("<|startoftext|>", ["<|return|>", "<|endoftext|>", "<|call|>"], (), {}, "<|endoftext|>"),
    "OPT": ("</s>", "</s>", (), {"add_bos_token": True, "bos_token": "</s>"}, "</s>"),
    "LLaMA, by its class": ("<s>", "</s>", (), {"tokenizer_class": "LlamaTokenizerFast"}, "<s>"),
    "Gemma, by its class": ("<bos>", "<eos>", (), {"tokenizer_class": "GemmaTokenizer"}, "<bos>"),
    "LLaMA, by add_bos_token": ("<s>", "</s>", (), {"add_bos_token": True}, "<s>"),
    "EXAONE 4": ("[BOS]", "[|endofturn|]", (), {"chat_template": "[|user|]{{ 1 }}[|endofturn|]"}, "[BOS]"),
    "no name that is known": ("<|turn|>", ["<|over|>"], (), {"chat_template": "<|turn|>{{ 1 }}"}, "<|over|>"),
}


def written(folder: Path, like: str, *, adds: bool = False) -> tuple[Any, Tokenizer]:
    """A tiny GPT-2 with the tokens of a model. adds: whether the tokenizer puts the bos before a text."""
    bos, eos, others, said, _ = _LIKE[like]
    ends = [eos] if isinstance(eos, str) else eos
    special = list(dict.fromkeys([*others, *([] if bos is None else [bos]), *ends]))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate([*special, *alphabet])}, []))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    ids = {name: tokenizer.token_to_id(name) for name in special}
    if adds:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, ids[bos])])
    model = shaken(CAUSAL["gpt2"])
    model.config.bos_token_id = ids.get(bos)
    model.config.eos_token_id = [ids[end] for end in ends] if len(ends) > 1 else ids[ends[0]]
    model.generation_config.bos_token_id = model.config.bos_token_id
    model.generation_config.eos_token_id = model.config.eos_token_id
    save(model, folder, tokenizer)
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return model, tokenizer


@pytest.mark.spread(6)
@pytest.mark.parametrize("like", list(_LIKE))
def test_a_text_is_read_after_what_separated_documents(like: str, tmp_path: Path) -> None:
    theirs, tokenizer = written(tmp_path / "hf", like)
    ours = chainrule.load(tmp_path / "hf")
    expected = _LIKE[like][-1]
    assert name_before(ours.record, ours.tokenizer.splitter) == expected
    numbering = TokenIdMap(**ours.record["hugging_face"]["tokens"])
    ids = tokenizer.encode("the cat").ids
    with torch.no_grad():
        logits = theirs(torch.tensor([[tokenizer.token_to_id(expected), *ids]])).logits[0, :-1].double()
    if numbering.begin is not None:
        logits[:, numbering.begin] = -torch.inf
    wanted = logits.log_softmax(-1)[torch.arange(len(ids)), ids].numpy()
    text = numbering.ours()[ids].astype(np.int32)
    found = ours.language_model.score([text], end=False)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5 * float(logits[:, 5:].abs().max()))
    chainrule.convert(tmp_path / "hf", tmp_path / "lm")  # and so it stays
    np.testing.assert_array_equal(chainrule.load(tmp_path / "lm").language_model.score([text], end=False)[0], found)


def test_the_post_processor_counts_first(tmp_path: Path) -> None:
    written(tmp_path, "BLOOM", adds=True)
    ours = chainrule.load(tmp_path)
    assert name_before(ours.record, ours.tokenizer.splitter) == "<s>"
    assert "begin:" not in ours.engine.stream_signature


def test_signature_and_info_name_it(tmp_path: Path) -> None:
    written(tmp_path, "SmolLM2-Instruct")
    ours = chainrule.load(tmp_path)
    assert ours.engine.stream_signature.endswith("|begin:3")  # the first token that is no marker
    assert "a text is read after <|endoftext|>" in str(chainrule.info(ours))
    again = chainrule.load(tmp_path, bos="<|im_start|>")
    assert again.score(["the cat"]) != ours.score(["the cat"])
    assert "a text is read after <|im_start|>" in str(chainrule.info(again))


@pytest.mark.parametrize(
    ("metadata", "adds"),
    [
        ({"model": "gpt2", "pre": "smollm", "add_bos_token": False}, False),
        ({"model": "llama", "add_bos_token": False}, False),
        ({"model": "gpt2", "pre": "qwen2", "add_bos_token": True}, True),
        ({"model": "gpt2", "pre": "qwen2"}, False),  # what llama.cpp does where a file says nothing
        ({"model": "gpt2", "pre": "llama-bpe"}, True),
        ({"model": "llama"}, True),
    ],
)
def test_gguf_files_say_whether_a_bos_is_added(metadata: dict[str, Any], adds: bool) -> None:
    assert adds_begin({f"tokenizer.ggml.{name}": value for name, value in metadata.items()}) is adds
