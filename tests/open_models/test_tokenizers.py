"""Token ids of opened models are those of the library `tokenizers`, on texts of all kinds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import begun, byte_level
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import chainrule
from chainrule.open_models.sentencepiece import definition_of_merged, merges_of_scores
from chainrule.open_models.vocabulary import TokenIdMap

if TYPE_CHECKING:
    from pathlib import Path

_ALPHABETS = (
    "abc the",
    " \t\n\u00a0\u2003\u3000",
    "éßœǅΩж",
    "日本語한국어",
    "🙂👩‍👩‍👧🏽",
    "0123456789.,",
    "'\"#[]<>/|_-",
    "\x01\x7f\u200b\ufeff\ufffd",
)


def odd_strings(number: int) -> list[str]:
    """Words, marks, spaces of all kinds, signs of many scripts, and control characters, in any order."""
    draw = random.Random(7)
    strings = []
    for _ in range(number):
        parts = [draw.choice(_ALPHABETS) for _ in range(draw.randint(1, 4))]
        strings.append("".join(draw.choice(draw.choice(parts)) for _ in range(draw.randint(0, 30))))
    return strings


def scored() -> Tokenizer:
    """As SentencePiece's: pieces with scores, ▁ for spaces, bytes for what has no piece."""
    pieces = ["<|end|>", "<|begin|>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", *"abcehtné.,1", "▁t", "he", "▁the", "▁a", "ca", "▁ca"]
    scores = [-float(number) for number in range(len(pieces))]
    definition = definition_of_merged(
        pieces, merges_of_scores(pieces, scores), unknown=2, special=[0, 1, 2], adds_space=True
    )
    return Tokenizer.from_str(definition.decode())


def wordpiece() -> Tokenizer:
    """As BERT's: lower case, accents off, words and marks, what goes on inside a word with ##."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=120, special_tokens=["<|end|>", "<|begin|>", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(["the cat sat on the mat, 10 cats and a dog's bone #1."], trainer)
    return tokenizer


KINDS = {
    "byte level": byte_level,
    "byte level, begun": lambda: begun(byte_level()),
    "scored": scored,
    "wordpiece": wordpiece,
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_the_librarys(kind: str, tmp_path: Path, fixtures: Path) -> None:
    library = KINDS[kind]()
    model = chainrule.load(save(shaken(CAUSAL["llama"]), tmp_path, library))
    theirs = TokenIdMap(**model.record["hugging_face"]["tokens"]).theirs()
    texts = [*odd_strings(1000), *(fixtures / "train.txt").read_text().splitlines()[:200]]
    for text in texts:
        found = theirs[model.tokenizer.encode_texts([text]).ids[:-1]].tolist()
        assert found == library.encode(text, add_special_tokens=False).ids, text


def test_special_tokens_that_stand_in_a_text_are_text(tmp_path: Path) -> None:
    model = chainrule.load(save(shaken(CAUSAL["llama"]), tmp_path))
    encoded = model.tokenizer.encode_texts(["a <|end|> b"]).ids[:-1]
    assert model.tokenizer.decode(encoded) == "a <|end|> b"
    assert len(encoded) > 5
