"""Tokenizers of a few tokens, each as a family of open models has them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

if TYPE_CHECKING:
    from pathlib import Path


END, BEGIN, ROWS = 0, 1, 285  # the ids of the tokenizer's two special tokens; some rows have no token
TEXTS = ["the cat sat on the mat", "the dog bit the man", "on the mat the cat bit the dog and the man sat"]
# The tokens before and after a source, and those that the decoder reads before a target.
FRAMES = {
    "bart": (["<s>"], ["</s>"], ["</s>", "<s>"]),
    "bart that says so": (["<s>"], ["</s>"], ["</s>", "<s>"]),
    "mbart": ([], ["</s>", "de_DE"], ["en_XX"]),
    "mbart of 50 languages": (["de_DE"], ["</s>"], ["</s>", "en_XX"]),
    "m2m_100": (["deu_Latn"], ["</s>"], ["</s>", "eng_Latn"]),
}
_LANGUAGES = ("de_DE", "en_XX", "fr_XX", "deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant")
ADDED = {token: number for number, token in enumerate(("<s>", *_LANGUAGES), 42)}  # their ids


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
    is_cased = name.startswith(("roberta", "xlm-roberta", "camembert", "jina", "mpnet"))
    return masked_byte_level(space_before="space" in name) if is_cased else word_pieces()


SOURCES = [
    "die Katze saß auf der Matte",
    "der Hund biss den Mann",
    "auf der Matte biss die Katze den Hund und den Mann",
]


@cache
def unigrams() -> Tokenizer:
    """As T5's: unigrams after a normalisation, with </s> after each text."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=50, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator([*TEXTS, *SOURCES, "translate German to English: "], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def framed(name: str) -> Tokenizer:
    """`unigrams` with tokens of languages, and with the tokens around a source that a model of `FRAMES` has."""
    tokenizer = Tokenizer.from_str(unigrams().to_str())
    tokenizer.add_special_tokens(list(ADDED))
    assert {token: tokenizer.token_to_id(token) for token in ADDED} == ADDED
    before, after, _ = FRAMES[name]
    tokens = [(token, tokenizer.token_to_id(token)) for token in (*before, *after)]
    template = " ".join([*before, "$A", *after])
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=tokens)
    return tokenizer


def save_pieces(folder: Path, *, two_vocabularies: bool) -> None:
    """The tokenizers of a Marian: two files of SentencePiece, and the ids of their pieces."""
    folder.mkdir(exist_ok=True)
    pieces: dict[str, list[str]] = {}
    for name, texts in (("source", SOURCES), ("target", TEXTS)):
        with (folder / f"{name}.spm").open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts * 3),
                model_writer=file,
                vocab_size=30,
                hard_vocab_limit=False,
                minloglevel=2,
            )
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        pieces[name] = [processor.id_to_piece(number) for number in range(3, len(processor))]
    both = sorted({*pieces["source"], *pieces["target"], ">>eng<<"})
    target = pieces["target"][:45] if two_vocabularies else both
    for name, some, pad in (("vocab.json", both, 59), ("target_vocab.json", target, 49)):
        ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *some])}
        (folder / name).write_text(json.dumps({**ids, "<pad>": pad}))
    if not two_vocabularies:
        (folder / "target_vocab.json").unlink()
