"""Token ids of opened models are those of the library `tokenizers`, on texts of all kinds."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import pytest
import sentencepiece
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import TEXTS, begun, byte_level
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import chainrule
from chainrule.features.open.tokens.sentencepiece import definition_of_file, definition_of_merged, merges_of_scores
from chainrule.models.files.origin import TokenIdMap
from chainrule.text.tokenization.subword import Subword
from chainrule.text.tokenization.tokenizer import Tokenizer as OurTokenizer
from chainrule.text.tokenization.vocabulary import Vocabulary

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


SYMBOLS = ("<sym>", "the", "ﬁ", "ABC", "Straße")


def pieces_file(**settings: object) -> bytes:
    """A SentencePiece model of unigrams with these settings of its trainer."""
    with io.BytesIO() as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*TEXTS, "New York, <1> + 2: 0123456789Ax"] * 5),
            model_writer=file,
            hard_vocab_limit=False,
            minloglevel=2,
            user_defined_symbols=list(SYMBOLS),
            **{"vocab_size": 60, **settings},
        )
        return file.getvalue()


SPACED = (
    "",
    " ",
    "   ",
    " lead",
    "  lead",
    "trail  ",
    "a   b",
    "\u00a0a\u00a0b\u00a0",
    "\na\t\n",
    "▁",
    "▁a▁ ",
    "a\u3000 b",
)
SPACED += ("<unk> the<unk>", "<s>a</s>", "the 🙂🙂é cat", "<0x41> the <0x0A>")
SPACED += tuple(
    f"{before}{symbol}{after}" for symbol in SYMBOLS for before in ("", " ", "a", "a ") for after in (" ", "b", " b")
)


@pytest.mark.spread(8)
@pytest.mark.parametrize("keeps_spaces", [False, True])
@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc", "nmt_nfkc_cf"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"add_dummy_prefix": False}, {"byte_fallback": True, "vocab_size": 330}, {"split_by_whitespace": False}],
)
def test_ids_of_unigrams_are_those_of_sentencepiece(settings: dict[str, object], rule: str, keeps_spaces: bool) -> None:
    data = pieces_file(normalization_rule_name=rule, remove_extra_whitespaces=not keeps_spaces, **settings)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    ours = Subword(definition_of_file(data, "x.spm"), "x.spm")
    names = {number: name for name, number in ours.numbers.items()}
    # On some odd characters, the library's normalisation differs from SentencePiece's.
    texts = [*SPACED, *(odd_strings(200) if rule == "identity" else TEXTS)]
    for text in texts:
        ids = [names[number].strip() for number in ours.encode_with_special_tokens(text)]
        assert ids == [theirs.id_to_piece(number) for number in theirs.encode(text)], text


def read_back(definition: bytes, text: str) -> str:
    """The text that the tokens of a text spell, unknown ones included."""
    splitter = Subword(definition, "x.json")
    tokenizer = OurTokenizer(splitter, Vocabulary(splitter.alphabet), "skip")
    return tokenizer.align(tokenizer.encode_texts([text])).text.tobytes().decode().removesuffix("\n")


def test_spaces_of_unigrams_are_kept_around_unknown_characters() -> None:
    data = pieces_file(normalization_rule_name="identity", remove_extra_whitespaces=False)
    text = "  the  ☃☃  \u00a0 cat "
    assert read_back(definition_of_file(data, "x.spm"), text) == text


def test_an_unknown_piece_has_no_space_of_the_normaliser() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"<unk>": 0, "▁": 1, "a": 2}, merges=[], unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    assert read_back(tokenizer.to_str().encode(), "a é a") == "a é a"
