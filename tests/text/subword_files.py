"""tokenizer.json files as they are found in the wild, made small with the library itself."""

from __future__ import annotations

import json
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = [
    "the cat sat on the mat, the cats sat.",
    "Größe naïve café — 日本語",
    "low lower lowest newer newest 3.14",
    "a b c d e",
]


def like_gpt2() -> tokenizers.Tokenizer:
    """Bytes; a special token, a post-processor that adds it, truncation, padding and dropout."""
    tokenizer = tokenizers.Tokenizer(models.BPE(dropout=0.5))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(LINES * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=7)
    tokenizer.add_tokens(["  ", "new york"])
    return tokenizer


def like_llama() -> tokenizers.Tokenizer:
    """▁ for spaces, one of them put in front; what is unknown is cut into named bytes."""
    characters = sorted(set("".join(LINES[:1])) - {" "} | {"▁"})
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *characters, "▁t", "▁th", "▁the"]
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e")]
    model = models.BPE(
        {piece: i for i, piece in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def like_t5() -> tokenizers.Tokenizer:
    """Unigram pieces with ▁; other characters are unknown."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(LINES[:1] * 3, trainer)
    return tokenizer


def like_bert() -> tokenizers.Tokenizer:
    """Lower-cased words without accents, ## inside them, [UNK] for words with other characters."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        LINES[::2] * 3, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def whole_words() -> tokenizers.Tokenizer:
    words = ["[UNK]", "the", "cat", "sat"]
    tokenizer = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


FILES = {
    "gpt2": like_gpt2,
    "llama": like_llama,
    "t5": like_t5,
    "bert": like_bert,
    "words": whole_words,
}


def file_bytes(name: str) -> bytes:
    return FILES[name]().to_str().encode()


def changed(name: str, **parts: Any) -> bytes:
    """A file with some of its parts replaced."""
    return json.dumps({**json.loads(file_bytes(name)), **parts}).encode()
