"""Tiny random models of transformers, every number shaken: gains of 1 and biases of 0 would hide what is swapped."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        DistilBertConfig,
        DistilBertForMaskedLM,
        GPT2Config,
        GPT2LMHeadModel,
        GPTNeoConfig,
        GPTNeoForCausalLM,
        GPTNeoXConfig,
        GPTNeoXForCausalLM,
        LlamaConfig,
        LlamaForCausalLM,
        MistralConfig,
        MistralForCausalLM,
        NanoChatConfig,
        NanoChatForCausalLM,
        OPTConfig,
        OPTForCausalLM,
        Qwen2Config,
        Qwen2ForCausalLM,
        RobertaConfig,
        RobertaForMaskedLM,
    )

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

END, BEGIN, ROWS = 0, 1, 285  # the ids of the tokenizer's two special tokens; some rows have no token
TEXTS = ["the cat sat on the mat", "the dog bit the man", "on the mat the cat bit the dog and the man sat"]
_LLAMA: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
_MARKERS: dict[str, Any] = {"vocab_size": ROWS, "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": None}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def _gpt2(**changes: Any) -> Any:
    size = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**{**size, **_MARKERS, "bos_token_id": END, **changes}))


def _llama(**changes: Any) -> Any:
    return LlamaForCausalLM(LlamaConfig(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 2, **changes}))


def _llama3() -> Any:
    rope = {**_LLAMA3, "rope_theta": 500.0, "original_max_position_embeddings": 16}
    return _llama(rope_parameters=rope, head_dim=8, attention_bias=True, tie_word_embeddings=True)


def _linear() -> Any:
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
    return _llama(rope_parameters=rope, mlp_bias=True, rms_norm_eps=0.1)


def _mistral() -> Any:
    config = MistralConfig(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 2, "sliding_window": 5})
    return MistralForCausalLM(config)


def _qwen2() -> Any:
    return Qwen2ForCausalLM(Qwen2Config(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 2}))


def _nanochat() -> Any:
    config = NanoChatConfig(**{**_LLAMA, **_MARKERS, "num_key_value_heads": 4, "final_logit_softcapping": None})
    return NanoChatForCausalLM(config)


def _gpt_neox(**changes: Any) -> Any:
    rope = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}
    return GPTNeoXForCausalLM(GPTNeoXConfig(**{**_LLAMA, **_MARKERS, "rope_parameters": rope, **changes}))


def _opt(**changes: Any) -> Any:
    size = {"hidden_size": 16, "word_embed_proj_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {"ffn_dim": 24, "max_position_embeddings": 64}
    return OPTForCausalLM(OPTConfig(**{**size, **_MARKERS, "pad_token_id": 1, **changes}))


def _gpt_neo() -> Any:
    size = {"hidden_size": 16, "num_layers": 4, "num_heads": 4, "max_position_embeddings": 64, "window_size": 5}
    return GPTNeoForCausalLM(GPTNeoConfig(**{**size, **_MARKERS, "attention_types": [[["global", "local"], 2]]}))


CAUSAL: dict[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "gpt2 with exact gelu, not tied": lambda: _gpt2(
        activation_function="gelu", tie_word_embeddings=False, n_inner=20, layer_norm_epsilon=0.01
    ),
    "llama": _llama,
    "llama3": _llama3,
    "llama, linear": _linear,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "nanochat": _nanochat,
    "gpt_neox": _gpt_neox,
    "gpt_neox, one after the other": lambda: _gpt_neox(use_parallel_residual=False, attention_bias=False),
    "opt": _opt,
    "opt, norms after": lambda: _opt(do_layer_norm_before=False),
    "gpt_neo": _gpt_neo,
}


def _bert(**changes: Any) -> Any:
    size = {"max_position_embeddings": 32, "pad_token_id": 0, "vocab_size": 60}
    return BertForMaskedLM(BertConfig(**{**_LLAMA, **size, **changes}))


def _distilbert() -> Any:
    size = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 32}
    return DistilBertForMaskedLM(DistilBertConfig(**size, vocab_size=60))


def _roberta() -> Any:
    size = {"max_position_embeddings": 34, "vocab_size": ROWS, "type_vocab_size": 1}
    return RobertaForMaskedLM(RobertaConfig(**{**_LLAMA, **size}))


MASKED: dict[str, Callable[[], Any]] = {
    "bert": _bert,
    "bert with gelu by tanh": lambda: _bert(hidden_act="gelu_new", layer_norm_eps=0.01, type_vocab_size=3),
    "distilbert": _distilbert,
    "roberta": _roberta,
    "roberta with a space before": _roberta,
}


def shaken(build: Callable[[], Any], *, spread: float = 0.3) -> Any:
    """A model in evaluation, each of its numbers moved."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = build()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * spread)
    return model.eval()


def byte_level() -> Tokenizer:
    """As GPT-2's: byte-level pairs, with two special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|end|>", "<|begin|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def begun(tokenizer: Tokenizer) -> Tokenizer:
    """One whose post-processor puts a token before each text, as LLaMA's does."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", BEGIN)]
    )
    return tokenizer


def word_pieces() -> Tokenizer:
    """As BERT's: pieces of words, lower case, with [CLS] and [SEP] around each text."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=56, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*TEXTS, "[MASK]"], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def masked_byte_level(*, space_before: bool = False) -> Tokenizer:
    """As RoBERTa's: byte-level pairs, with <s> and </s> around each text, and a mask that takes the space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space_before)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=space_before)
    return tokenizer


def tokenizer_of(name: str) -> Tokenizer:
    """That of a masked model, by its name."""
    return masked_byte_level(space_before="space" in name) if name.startswith("roberta") else word_pieces()


def save(model: Any, folder: Path, tokenizer: Tokenizer | None = None, **options: Any) -> Path:
    """A Hugging Face folder, as transformers writes it."""
    model.save_pretrained(folder, **options)
    (tokenizer or byte_level()).save(str(folder / "tokenizer.json"))
    return folder
