"""Seq2seq models of others give what transformers gives on the same weights."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from samples import sampled
from tiny_models import PAIRS, save, shaken, transformers
from tiny_tokenizers import FRAMES, SOURCES, TEXTS, framed, save_pieces, unigrams

import chainrule
from chainrule.cli.main import run
from chainrule.decoding.config import BeamConfig
from chainrule.decoding.limits import Constraints
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.open.architectures import ARCHITECTURES
from chainrule.features.open.mapping import write_settings
from chainrule.models.files.origin import TokenIdMap
from chainrule.neural.layers.positions import Sinusoidal, two_sided_buckets

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray


class Pair:
    """A model of transformers, and the same one opened here; ids of sources and targets are theirs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.theirs, self.folder = shaken(PAIRS[name]), folder
        tokenizer = framed(name) if name in FRAMES else unigrams()
        save(self.theirs, folder, tokenizer)
        self.frame = [[tokenizer.token_to_id(token) for token in tokens] for tokens in FRAMES.get(name, ())]
        if name.startswith("marian"):
            save_pieces(folder, two_vocabularies="two" in name)
            (folder / "tokenizer.json").unlink()
        self.open()

    def open(self) -> None:
        self.ours = chainrule.load(self.folder, chainrule.Seq2SeqModel)
        tokens = self.ours.record["hugging_face"]
        self.source, self.target = (TokenIdMap(**tokens[name]) for name in ("source_tokens", "tokens"))
        if not self.frame:
            self.frame = [[], [self.target.end], [self.target.begin]]

    @torch.inference_mode()
    def log_probs(self, source: list[int], target: list[int]) -> ndarray:
        """Theirs, after the start and each id: (T + 1, their V), without the start, which has no probability here."""
        before, after, start = self.frame
        tokens = torch.tensor([[*before, *source, *after]]), torch.tensor([[*start, *target]])
        logits = self.theirs(input_ids=tokens[0], decoder_input_ids=tokens[1]).logits[0, len(start) - 1 :].double()
        if self.target.begin is not None:
            logits[:, self.target.begin] = -torch.inf
        return logits.log_softmax(-1).numpy()

    def tolerance(self) -> float:
        """1e-5 of the largest logit, at least of 1."""
        ids = torch.tensor([[5, 6, 7]])
        return 1e-5 * max(1.0, float(self.theirs(input_ids=ids, decoder_input_ids=ids).logits.detach().abs().max()))

    def of_source(self, ids: list[int]) -> ndarray:
        return self.source.ours()[ids].astype(np.int32)

    def of_target(self, ids: list[int]) -> ndarray:
        return self.target.ours()[ids].astype(np.int32)


ALIKE = [
    "marian",
    "marian with ReLU, without scale",
    "bart that says so",
    "mt5",
    "mbart",
    "mbart of 50 languages",
    "t5 1.1",
    "m2m_100",
]  # others, but for a few lines


@pytest.fixture(scope="module", params=sampled(PAIRS, [name for name in PAIRS if name not in ALIKE]))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(request.param, tmp_path_factory.mktemp("pair"))


def rows(size: int, lengths: tuple[int, ...], seed: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [random.integers(2, size - 1, length).tolist() for length in lengths]


LONG = (7, 1, 40, 23)
FARTHER = (7, 1, 150, 23)  # biases by distance are alike from 128 on


def pairs_of(pair: Pair) -> tuple[list[list[int]], list[list[int]]]:
    is_t5 = "t5" in pair.theirs.config.model_type
    lengths = FARTHER if is_t5 else LONG
    return rows(pair.source.rows, lengths, 1), rows(pair.target.rows, lengths[::-1], 2)


def test_a_ragged_batch_scores_as_theirs_pair_by_pair(pair: Pair) -> None:
    sources, targets = pairs_of(pair)
    given = pair.ours.model.given([pair.of_source(source) for source in sources])
    scores = given.score([pair.of_target(target) for target in targets])
    for source, target, score in zip(sources, targets, scores, strict=True):
        expected = pair.log_probs(source, target)[np.arange(len(target) + 1), [*target, pair.target.end]]
        np.testing.assert_allclose(score, expected, atol=pair.tolerance(), rtol=0)


def test_every_log_probability_is_theirs_step_by_step(pair: Pair) -> None:
    sources, targets = pairs_of(pair)
    given = pair.ours.model.given([pair.of_source(source) for source in sources])
    target, ours = targets[-1], pair.target.ours()
    expected = [pair.log_probs(source, target) for source in sources]
    state = given.start([np.empty(0, np.int32)] * len(sources))
    for step, token in enumerate([*target, None]):
        for own, theirs in zip(given.next_log_probs(state), expected, strict=True):
            np.testing.assert_allclose(own[ours], theirs[step], atol=pair.tolerance(), rtol=0)
        if token is not None:
            state = given.advance(state, np.full(len(sources), ours[token], np.int32))


def test_a_target_that_is_read_at_once_goes_on_as_theirs(pair: Pair) -> None:
    sources, targets = pairs_of(pair)
    given = pair.ours.model.given([pair.of_source(source) for source in sources])
    state = given.start([pair.of_target(target) for target in targets])
    for source, target, own in zip(sources, targets, given.next_log_probs(state), strict=True):
        expected = pair.log_probs(source, target)[-1]
        np.testing.assert_allclose(own[pair.target.ours()], expected, atol=pair.tolerance(), rtol=0)


def generated(pair: Pair, source: list[int], **options: Any) -> list[int]:
    """Their text, by their own search."""
    before, after, start = pair.frame
    end, begin = pair.target.end, pair.target.begin
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [found] = pair.theirs.generate(
            torch.tensor([[*before, *source, *after]]),
            decoder_input_ids=torch.tensor([start]),
            forced_bos_token_id=None,
            pad_token_id=start[0],
            eos_token_id=end,
            max_new_tokens=20,
            do_sample=False,
            renormalize_logits=True,
            bad_words_ids=None if begin is None else [[begin]],
            **options,
        ).tolist()
    return [token for token in found[len(start) :] if token not in (begin, end)]


def written(pair: Pair, source: list[int], beam: BeamConfig) -> list[int]:
    from chainrule.decoding.beam import search

    given = pair.ours.model.given([pair.of_source(source)])
    [result] = search(given, [np.empty(0, np.int32)], beam, Constraints(max_tokens=20))
    found: list[int] = pair.target.theirs()[result.hypotheses[0].tokens].tolist()
    return found


def test_twenty_greedy_tokens_are_theirs(pair: Pair) -> None:
    for source in pairs_of(pair)[0][::2]:  # a short one and a long one
        given = pair.ours.model.given([pair.of_source(source)])
        found: list[int] = []
        for _ in range(20):  # on over the ends
            own = given.next_log_probs(given.start([pair.of_target(found)]))[0]
            theirs = pair.log_probs(source, found)[-1]
            own[2] = theirs[pair.target.end] = -np.inf
            assert pair.target.theirs()[own.argmax()] == theirs.argmax()
            found.append(int(theirs.argmax()))
        assert written(pair, source, BeamConfig(size=1)) == generated(pair, source, num_beams=1)


def test_beams_are_theirs(pair: Pair) -> None:
    for source in pairs_of(pair)[0][::2]:  # a short one and a long one
        ours = written(pair, source, BeamConfig(size=4, rank_by="mean"))
        assert ours == generated(pair, source, num_beams=4, length_penalty=1.0, early_stopping="never")


def test_a_folder_of_ours_gives_the_same(pair: Pair, tmp_path: Path) -> None:
    chainrule.convert(pair.folder, tmp_path / "lm")
    again = chainrule.load(tmp_path / "lm", chainrule.Seq2SeqModel)
    sources, targets = pairs_of(pair)
    scores = [
        model.model.given([pair.of_source(source) for source in sources]).score(
            [pair.of_target(target) for target in targets]
        )
        for model in (pair.ours, again)
    ]
    for one, other in zip(*scores, strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.write(SOURCES)[1][0] == pair.ours.write(SOURCES)[1][0]
    assert [row.tolist() for row in again.sources(SOURCES)] == [row.tolist() for row in pair.ours.sources(SOURCES)]


def test_settings_are_written_as_they_were_read(pair: Pair) -> None:
    config = json.loads((pair.folder / "config.json").read_text())
    said = write_settings(ARCHITECTURES[config["model_type"]], pair.ours.model.network.config)
    for name, value in said.items():
        if name not in ("tie_word_embeddings", "activation_function") and name in config:
            assert value == config[name], name


def test_what_is_learnt_in_16_bits_is_opened_so(pair: Pair, tmp_path: Path) -> None:
    for file in pair.folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    wide = load_file(tmp_path / "model.safetensors")
    save_file({name: array.astype(np.float16) for name, array in wide.items()}, tmp_path / "model.safetensors")
    narrow = chainrule.load(tmp_path, chainrule.Seq2SeqModel)
    target = chainrule.Pairs(SOURCES[:1], TEXTS[:1])
    assert narrow.score(target)[0] == pytest.approx(pair.ours.score(target)[0], rel=0.05)
    assert len(narrow.write(SOURCES)) == len(SOURCES)


@pytest.mark.parametrize("name", ["marian", "marian with two vocabularies"])
def test_texts_of_both_sides_have_the_ids_of_sentencepiece(name: str, tmp_path: Path) -> None:
    pair = Pair(name, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = {"source_spm": tmp_path / "source.spm", "target_spm": tmp_path / "target.spm"}
        theirs = transformers.MarianTokenizer(
            **{key: str(file) for key, file in files.items()},
            vocab=str(tmp_path / "vocab.json"),
            target_vocab_file=str(tmp_path / "target_vocab.json"),
            separate_vocabs="two" in name,
        )
    odd = [
        "",
        "  zwei   Wörter ",
        "漢字 und ｆｕｌｌ",
        "½\t x",
        "die\u00a0Katze",
        "▁Matte",
        "a\u200bb",
        "🙂🙂",
    ]
    texts = [*SOURCES, *TEXTS, ">>eng<< die Katze", *odd]
    own = pair.ours.source.with_markers("keep"), pair.ours.target.with_markers("keep")
    for text in texts:
        for tokenizer, numbering, options in (
            (own[0], pair.source, {"text": text}),
            (own[1], pair.target, {"text_target": text.removeprefix(">>eng<< ")}),
        ):
            ids = numbering.theirs()[tokenizer.encode_texts([*options.values()]).ids[:-1]].tolist()
            assert ids == theirs(**options).input_ids[:-1], text
    for text in TEXTS:
        assert pair.ours.target.decode(own[1].encode_texts([text]).ids[:-1]) == text


def test_a_prefix_is_text(tmp_path: Path) -> None:
    pair = Pair("t5", tmp_path)
    text = "translate German to English: die Katze"
    [ids] = pair.ours.sources([text])
    assert pair.source.theirs()[ids].tolist() == unigrams().encode(text, add_special_tokens=False).ids
    [[best]] = pair.ours.write([text])
    source = unigrams().encode(text, add_special_tokens=False).ids
    assert best.log_prob < 0
    assert best.source_tokens == unigrams().encode(text, add_special_tokens=False).tokens
    assert len(source) == len(best.source_tokens)


def test_an_output_of_its_own_is_not_tied(tmp_path: Path) -> None:
    pair = Pair("t5 1.1", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tensors["lm_head.weight"] = tensors["shared.weight"][::-1].copy()
    save_file(tensors, file, {"format": "pt"})
    pair.theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    assert not torch.equal(pair.theirs.lm_head.weight, pair.theirs.shared.weight)
    pair.open()
    test_a_ragged_batch_scores_as_theirs_pair_by_pair(pair)


@pytest.mark.parametrize("tied", [False, True])
def test_transformers_4_scaled_the_output_of_an_mt5_where_it_was_tied(tied: bool, tmp_path: Path) -> None:
    pair = Pair("mt5", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"transformers_version": "4.57.1", "tie_word_embeddings": tied}
    (tmp_path / "config.json").write_text(json.dumps(config))
    pair.open()
    if tied:
        with torch.no_grad():
            pair.theirs.decoder.final_layer_norm.weight.mul_(pair.theirs.config.d_model**-0.5)
    test_a_ragged_batch_scores_as_theirs_pair_by_pair(pair)


def test_the_buckets_of_distances_are_theirs() -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-300, 301)
    assert torch.equal(two_sided_buckets(-distances), T5Attention._relative_position_bucket(distances))


def test_sines_come_before_cosines_in_marian() -> None:
    vectors = Sinusoidal(6, interleaved=False)(torch.arange(9)[None])[0]
    for position in range(9):
        for wave in range(3):
            angle = position / 10_000 ** (2 * wave / 6)
            assert vectors[position, wave].item() == pytest.approx(np.sin(angle), abs=1e-6)
            assert vectors[position, 3 + wave].item() == pytest.approx(np.cos(angle), abs=1e-6)


def _changed(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("marian", {"normalize_before": True}, "normalize_before is True, which is not supported"),
        ("marian", {"decoder_attention_heads": 2}, "encoder_attention_heads and decoder_attention_heads: 4 and 2"),
        ("marian", {"activation_function": "mish"}, "activation_function: 'mish' is not supported"),
        ("marian", {"max_position_embeddings": 60}, r"embed_positions.weight' does not hold the numbers that follow"),
        ("marian", {"decoder_start_token_id": 99}, "decoder_start_token_id is 99; expected less than the vocab_size"),
        ("marian", {"encoder_layers": 900}, "asks for 902 layers"),
        ("marian", {"decoder_vocab_size": 70}, "but decoder_vocab_size in config.json is 70"),
        ("t5", {"relative_attention_num_buckets": 64}, "relative_attention_num_buckets is 64, which is not supported"),
        ("t5", {"feed_forward_proj": "gated-relu"}, "feed_forward_proj.*: 'gated-relu' is not supported"),
        ("t5", {"feed_forward_proj": 3}, "feed_forward_proj"),
        ("t5", {"d_kv": 7}, "do not have the shapes that config.json asks for"),
        ("t5", {"decoder_start_token_id": None, "pad_token_id": None}, "decoder_start_token_id is None"),
        ("t5", {"is_encoder_decoder": False}, "is_encoder_decoder is False, which is not supported"),
    ],
)
def test_what_is_not_done_is_refused_by_name(name: str, changes: Any, message: str, tmp_path: Path) -> None:
    theirs = shaken(PAIRS[name])
    save(theirs, tmp_path, unigrams())
    if name == "marian":
        weights = theirs.model.encoder.embed_positions.weight.numpy()
        tensors = {**load_file(tmp_path / "model.safetensors"), "model.encoder.embed_positions.weight": weights}
        save_file(tensors, tmp_path / "model.safetensors")
        save_pieces(tmp_path, two_vocabularies=False)
    for file in ("config.json", "generation_config.json"):
        (tmp_path / file).write_text(
            json.dumps({**json.loads((tmp_path / file).read_text()), "forced_eos_token_id": 0})
        )
    chainrule.load(tmp_path)
    if "decoder_start_token_id" in changes:
        (tmp_path / "generation_config.json").unlink()
        _changed(tmp_path, eos_token_id=1)
    _changed(tmp_path, **changes)
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("target.spm", None, "has no target.spm"),
        ("source.spm", b"", "source.spm: has 0 unknown pieces"),
        ("source.spm", b"\x0a\xff\xff\xff\xff\x7f", "claims 34,359,738,367 bytes, more than there are"),
        ("vocab.json", b"[]", "vocab.json: is not there, or not an object of tokens with their ids"),
        ("vocab.json", b'{"a": 0, "b": 0}', "two of its 2 tokens have the same id"),
        ("vocab.json", b'{"a": 1000000000}', "numbers 1,000,000,001 tokens, but the model has vectors for 60"),
        ("vocab.json", b'{"a"', "vocab.json: is no valid JSON"),
    ],
)
def test_broken_tokenizers_are_named(file: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    Pair("marian", tmp_path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(tmp_path)


def test_a_model_of_pairs_is_no_model_of_one_text(tmp_path: Path) -> None:
    pair = Pair("t5", tmp_path)
    with pytest.raises(SettingError, match="writes texts given others"):
        chainrule.load(pair.folder, chainrule.Model)
    assert chainrule.info(pair.folder).family == "conditional"
    maps = chainrule.attend(pair.ours, "die Katze", "the cat")
    assert maps is not None


def test_a_text_begins_anew_after_an_end(tmp_path: Path) -> None:
    pair = Pair("bart", tmp_path)
    source, ours = [7, 8, 9], pair.target.ours()
    expected = pair.log_probs(source, [5, 6])
    given = pair.ours.model.given([pair.of_source(source)])
    state = given.start([pair.of_target([11, 12, 13]), pair.of_target([5])])
    state = given.advance(state, np.array([2, ours[6]], np.int32))  # one text ends, and one goes on
    for step, tokens in enumerate(([5, 20], [6, 21])):
        first, other = given.next_log_probs(state)
        np.testing.assert_allclose(first[ours], expected[step], atol=pair.tolerance(), rtol=0)
        on = pair.log_probs(source, [5, 6, *([20, 21][:step])])[-1]
        np.testing.assert_allclose(other[ours], on, atol=pair.tolerance(), rtol=0)
        state = given.advance(state, ours[tokens].astype(np.int32))
    [together] = given.score([np.concatenate([pair.of_target([11]), [2], pair.of_target([5, 6])]).astype(np.int32)])
    rows = np.arange(3), [5, 6, pair.target.end]
    np.testing.assert_allclose(together[2:], expected[rows], atol=pair.tolerance(), rtol=0)


@pytest.mark.parametrize(
    ("name", "languages", "frame"),
    [
        ("mbart of 50 languages", ("fr", "de"), (["fr_XX"], ["</s>"], ["</s>", "de_DE"])),
        ("mbart", ("fr", "en"), ([], ["</s>", "fr_XX"], ["en_XX"])),
        ("m2m_100", ("fra_Latn", "zho_Hant"), (["fra_Latn"], ["</s>"], ["</s>", "zho_Hant"])),
    ],
)
def test_languages_are_chosen(name: str, languages: tuple[str, str], frame: Any, tmp_path: Path) -> None:
    pair = Pair(name, tmp_path)
    chosen = pair.ours.with_languages(*languages)
    sources, targets = pairs_of(pair)
    pair.frame = [[framed(name).token_to_id(token) for token in tokens] for tokens in frame]
    given = chosen.model.given([pair.of_source(source) for source in sources])
    for source, target, score in zip(
        sources, targets, given.score([pair.of_target(target) for target in targets]), strict=True
    ):
        expected = pair.log_probs(source, target)[np.arange(len(target) + 1), [*target, pair.target.end]]
        np.testing.assert_allclose(score, expected, atol=pair.tolerance(), rtol=0)
    assert chosen.write(SOURCES) != pair.ours.write(SOURCES)


def test_languages_that_are_not_there_are_refused(tmp_path: Path) -> None:
    model = Pair("m2m_100", tmp_path / "m2m").ours
    with pytest.raises(SettingError, match=r"'eng_Lat' is none of its languages; .* such as eng_Latn"):
        model.with_languages(target="eng_Lat")
    with pytest.raises(SettingError, match=r"'zho' is the beginning of several.*zho_Hans, zho_Hant"):
        model.with_languages("zho")
    with pytest.raises(SettingError, match="targets begin with one language, which is not 'de'"):
        Pair("mbart", tmp_path / "mbart").ours.with_languages(target="de")
    with pytest.raises(SettingError, match="reads no language"):
        Pair("bart", tmp_path / "bart").ours.with_languages("de")
    with pytest.raises(SettingError, match="no tokens of languages"):
        Pair("t5", tmp_path / "t5").ours.with_languages("de")


def test_alignments_are_on_the_tokens_of_the_text(tmp_path: Path) -> None:
    for name in ("bart", "mbart"):
        model = Pair(name, tmp_path / name).ours
        [[best]] = model.write(SOURCES[:1], alignments=True)
        assert best.attention is not None
        assert best.attention.shape[1] == len(best.source_tokens) + 1
        maps = chainrule.attend(model, SOURCES[0], TEXTS[0])
        assert maps is not None


def test_a_folder_is_written_as_it_came(pair: Pair, tmp_path: Path) -> None:
    if pair.theirs.config.model_type == "marian":
        with pytest.raises(SettingError, match=r"opened from a folder with a tokenizer\.json"):
            chainrule.convert(pair.folder, tmp_path / "hf", to="hugging-face")
        return
    for source in (pair.folder, tmp_path / "ours"):
        chainrule.convert(pair.folder, tmp_path / "ours", overwrite=True)
        chainrule.convert(source, tmp_path / "hf", to="hugging-face", overwrite=True)
        came, written = (load_file(folder / "model.safetensors") for folder in (pair.folder, tmp_path / "hf"))
        assert came.keys() <= written.keys()
        assert written.keys() - came.keys() <= {"lm_head.weight"}  # of T5, which transformers left out as tied
        for name, array in came.items():
            np.testing.assert_array_equal(array, written[name], name)
        for file in ("config.json", "generation_config.json", "tokenizer.json"):
            came_file, written_file = (
                json.loads((folder / file).read_text()) for folder in (pair.folder, tmp_path / "hf")
            )
            assert came_file == written_file, file
    theirs = type(pair.theirs).from_pretrained(tmp_path / "hf").eval()
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        again, before = (model(input_ids=ids, decoder_input_ids=ids).logits for model in (theirs, pair.theirs))
    assert torch.equal(again, before)


def test_translate_takes_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair, text = Pair("m2m_100", tmp_path / "m2m"), tmp_path / "text"
    text.write_text(f"{SOURCES[0]}\n")
    [[expected]] = pair.ours.with_languages("fra", "zho_Hans").write(SOURCES[:1], max_tokens=6)
    [[other]] = pair.ours.write(SOURCES[:1], max_tokens=6)
    command = ["translate", str(pair.folder), str(text), "--max-tokens", "6"]
    assert run([*command, "--json", "--source-language", "fra", "--target-language", "zho_Hans"]) == 0
    [found] = json.loads(capsys.readouterr().out)["texts"]
    assert found["log_prob"] == pytest.approx(expected.log_prob, abs=1e-4)
    assert abs(other.log_prob - expected.log_prob) > 0.01
    assert run([*command, "--target-language", "zhi"]) != 0
    assert "'zhi' is none of its languages" in capsys.readouterr().err
    (pair.folder / "generation_config.json").unlink()
    _changed(pair.folder, forced_bos_token_id=None)
    assert run(command) != 0
    assert "choose one with --target-language" in capsys.readouterr().err
