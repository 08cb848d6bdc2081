from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule import Limits, Lines, Model, NGramConfig, SamplingConfig, TokenizerConfig, UniformConfig
from chainrule.errors import ModelFormatError, OutputError, SettingError, TextError
from chainrule.storage.safetensors import open_tensors, write_tensors

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = {
    "uniform": UniformConfig(),
    "unigram": NGramConfig(order=1),
    "trigram": NGramConfig(order=3),
    "pruned 4-gram": NGramConfig(order=4, prune=(0, 1, 1, 2)),
    "5-gram of which the highest order is empty": NGramConfig(order=5, prune=(0, 0, 0, 0, 10**9)),
}
TEXTS = ["ka vi nin", "ga wholly-unknown bo", "", "vi vi vi vi vi vi", "Ka Vi!"]


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest, fixtures: Path) -> Model:
    return chainrule.train(fixtures / "train.txt", CONFIGS[request.param])


@pytest.fixture(scope="module")
def trigram(fixtures: Path) -> Model:
    return chainrule.train(fixtures / "train.txt", NGramConfig(order=3))


@pytest.fixture
def folder(trigram: Model, tmp_path: Path) -> Path:
    trigram.save(tmp_path / "lm")
    return tmp_path / "lm"


def test_a_saved_model_comes_back_as_it_was(model: Model, fixtures: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "lm")
    again = chainrule.load(tmp_path / "lm")
    assert (again.family, again.vocabulary_size) == (model.family, model.vocabulary_size)
    assert again.score(TEXTS).tobytes() == model.score(TEXTS).tobytes()
    assert again.generate("ka vi", 5, seed=3) == model.generate("ka vi", 5, seed=3)
    assert again.next("ka vi", 20) == model.next("ka vi", 20)
    assert again.record == json.loads(json.dumps(model.record))
    here, there = (m.evaluate(fixtures / "heldout.txt").as_json() for m in (model, again))
    here.pop("seconds")
    there.pop("seconds")
    assert here == there


@pytest.mark.parametrize("tokenizer", ["whitespace", "word", "character", "byte", "bpe", "unigram", "wordpiece"])
def test_every_tokenizer_comes_back_with_its_model(tokenizer: str, fixtures: Path, tmp_path: Path) -> None:
    model = chainrule.train(fixtures / "heldout.txt", NGramConfig(order=3), tokenizer=tokenizer)
    model.save(tmp_path / "lm")
    again = chainrule.load(tmp_path / "lm")
    assert again.tokenizer.name == tokenizer
    assert again.score(TEXTS).tobytes() == model.score(TEXTS).tobytes()


def test_a_score_is_the_sum_over_the_tokens_and_the_end(trigram: Model) -> None:
    tokens = [trigram.tokenizer.vocabulary.id_of(word) for word in ("ka", "vi", "nin")]
    state = trigram.language_model.start([np.empty(0, np.int32)])
    total = 0.0
    for token in [*tokens, 2]:
        total += float(trigram.language_model.next_log_probs(state)[0, token])
        state = trigram.language_model.advance(state, np.array([token], np.int32))
    assert trigram.score(["ka vi nin"])[0] == pytest.approx(total, abs=1e-4)


def test_texts_are_scored_independently(model: Model) -> None:
    assert model.score(TEXTS).tolist() == pytest.approx([float(model.score([text])[0]) for text in TEXTS], abs=1e-4)
    assert model.score(iter(TEXTS)).tolist() == model.score(TEXTS).tolist()
    assert model.score([]).shape == (0,)


def test_perplexity_is_that_of_the_scores(trigram: Model) -> None:
    lines = ["ka vi nin", "vi sa"]  # 3 + 2 tokens and two ends
    expected = math.exp(-trigram.score(lines).sum() / 7)
    assert trigram.perplexity(Lines(lines)) == pytest.approx(expected, rel=1e-6)
    assert trigram.evaluate(Lines(lines)).perplexity == trigram.perplexity(Lines(lines))


def test_a_path_a_list_of_paths_and_lines_in_memory_are_the_same_text(fixtures: Path, trigram: Model) -> None:
    path = fixtures / "train.txt"
    for source in (str(path), [path], Lines(path.read_text().splitlines())):
        model = chainrule.train(source, NGramConfig(order=3))
        assert model.score(TEXTS).tobytes() == trigram.score(TEXTS).tobytes()
        assert list(model.record["data"].values()) == list(trigram.record["data"].values())
    assert trigram.perplexity(str(path)) == trigram.perplexity([path])


def test_files_are_read_as_in_training(fixtures: Path, tmp_path: Path) -> None:
    """The documents of a text to tune on, and of what the model measures, too."""
    heldout = fixtures / "heldout.txt"
    by_files = chainrule.Reading(document="file")
    config = NGramConfig(order=2, smoothing="jelinek-mercer")
    tuned = [
        chainrule.train(chainrule.Corpus.of(fixtures / "train.txt", by_files), config, tune=tune)
        for tune in (heldout, chainrule.Corpus.of(heldout, by_files), chainrule.Corpus.of(heldout))
    ]
    scores = [model.score(TEXTS).tolist() for model in tuned]
    assert scores[0] == scores[1] != scores[2]
    assert tuned[0].document == "file"
    assert tuned[0].evaluate(heldout).documents == 1
    assert tuned[0].evaluate(chainrule.Corpus.of(heldout)).documents == 102


def test_without_a_configuration_it_is_an_n_gram_model_of_order_5() -> None:
    model = chainrule.train(Lines(["a b c", "a b"]))
    assert model.family == "ngram"
    assert model.record["settings"]["order"] == 5


def test_the_record_has_the_data_and_settings_of_the_model(fixtures: Path, trigram: Model) -> None:
    text = (fixtures / "train.txt").read_text()
    record = trigram.record
    assert record["family"] == "ngram"
    assert record["documents"] == text.count("\n")
    assert record["tokens"] == len(text.split())
    assert record["ngrams"][0] == len(set(text.split())) + 3
    assert record["versions"]["chainrule"] == chainrule.__version__


@pytest.mark.parametrize("source", [5, None, Lines, [5], {"a": 1}.items()])
def test_what_is_no_text_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError):
        chainrule.train(source)


def test_a_single_text_instead_of_several_is_a_type_error(trigram: Model) -> None:
    with pytest.raises(TypeError, match="put a single one in a list"):
        trigram.score("ka vi")


def test_a_text_instead_of_a_file_name_is_an_error() -> None:
    with pytest.raises(
        TextError, match=r"'a text' is taken for the path of a file, .* use chainrule\.Lines\(\[\.\.\.\]\)"
    ):
        chainrule.train("a text")


@pytest.mark.parametrize("config", ["ngram", NGramConfig, {"order": 3}])
def test_what_is_no_configuration_is_a_type_error(config: Any) -> None:
    with pytest.raises(TypeError, match="is not a configuration of a model"):
        chainrule.train(Lines(["a"]), config)


def test_an_unknown_tokenizer_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(SettingError, match="'words'; choose one of word, whitespace, character, byte, bpe"):
        chainrule.train(Lines(["a"]), tokenizer="words")


def test_an_arpa_file_of_pieces_is_cut_by_the_tokenizer_that_is_named(tmp_path: Path, fixtures: Path) -> None:
    config = TokenizerConfig(kind="bpe", vocabulary_size=300, normalise=("lower",))
    model = chainrule.train(fixtures / "heldout.txt", NGramConfig(order=2), tokenizer=config)
    model.save(tmp_path / "lm")
    model.save(tmp_path / "lm.arpa")
    [definition] = (tmp_path / "lm").glob("tokenizer-*.json")
    expected = model.score(TEXTS)
    [warning] = chainrule.load(tmp_path / "lm.arpa").record["warnings"]
    assert "its tokens look like subwords; set tokenizer to" in warning
    for named in (
        str(tmp_path / "lm"),
        TokenizerConfig(kind=definition, normalise=("lower",)),
    ):
        again = chainrule.load(tmp_path / "lm.arpa", tokenizer=named)
        assert again.score(TEXTS) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(SettingError, match="bpe subwords are learned from a text"):
        chainrule.load(tmp_path / "lm.arpa", tokenizer="bpe")


def test_a_model_of_pieces_that_names_no_tokenizer_file_is_incomplete(tmp_path: Path) -> None:
    chainrule.train(Lines(["a b"]), UniformConfig(), tokenizer="bpe").save(tmp_path / "lm")
    config = json.loads((tmp_path / "lm/config.json").read_text())
    del config["files"]["tokenizer.json"]
    (tmp_path / "lm/config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFormatError, match=r"its bpe tokenizer needs a tokenizer\.json, which is missing"):
        chainrule.load(tmp_path / "lm")


def test_a_damaged_tokenizer_file_is_an_error(tmp_path: Path) -> None:
    chainrule.train(Lines(["a b"]), UniformConfig(), tokenizer="bpe").save(tmp_path / "lm")
    [definition] = (tmp_path / "lm").glob("tokenizer-*.json")
    data = bytearray(definition.read_bytes())
    data[len(data) // 2] ^= 1
    definition.write_bytes(data)
    with pytest.raises(ModelFormatError, match=rf"{definition.name}: its SHA-256 is"):
        chainrule.load(tmp_path / "lm")


def test_the_next_tokens_are_the_likeliest_with_their_probabilities(trigram: Model) -> None:
    vocabulary = trigram.tokenizer.vocabulary
    prompt = np.array([vocabulary.id_of("ka"), vocabulary.id_of("vi")], np.int32)
    [row] = trigram.language_model.next_log_probs(trigram.language_model.start([prompt]))
    expected = sorted(((float(p), -token) for token, p in enumerate(np.exp(row.astype(float)))), reverse=True)[:4]
    assert [(token, pytest.approx(p)) for token, p in trigram.next("ka vi", 4)] == [
        (vocabulary.token(-token), p) for p, token in expected
    ]


def test_the_probabilities_of_all_next_tokens_sum_to_one(model: Model) -> None:
    pairs = model.next("ka", 10**6)
    assert sum(prob for _, prob in pairs) == pytest.approx(1, abs=1e-4)
    assert "<s>" not in dict(pairs)
    assert len(pairs) == model.vocabulary_size - 1


@pytest.mark.parametrize(("call", "message"), [("next", "top is 0"), ("generate", "n is 0")])
def test_less_than_one_is_an_error(trigram: Model, call: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        getattr(trigram, call)("ka", 0)


@pytest.mark.parametrize("temperature", [0, 0.5, 1, 5])
def test_generated_texts_begin_with_the_prompt_and_hold_no_marker(model: Model, temperature: float) -> None:
    texts = model.generate("ka vi", 30, SamplingConfig(temperature=temperature), Limits(max_tokens=8), seed=1)
    assert len(texts) == 30
    for text in texts:
        assert text == "ka vi" or text.startswith("ka vi ")
        assert len(text.split()) <= 2 + 8
        assert not {"<unk>", "<s>", "</s>"} & set(text.split())


@pytest.mark.parametrize(
    ("tokenizer", "prompt"),
    [
        ("whitespace", "never-seen ka Ünknown!"),
        ("word", "Never (seen), ka!"),
        ("character", "Xka ÿ  zz "),
        ("byte", " \t￭ÿ "),
        ("bpe", " never  ￭ÿ"),
    ],
)
def test_unknown_words_of_a_prompt_are_kept_as_they_are_written(tokenizer: str, prompt: str, fixtures: Path) -> None:
    model = chainrule.train(fixtures / "heldout.txt", NGramConfig(order=3), tokenizer=tokenizer)
    texts = model.generate(prompt, 10, limits=Limits(max_tokens=5))
    assert len(set(texts)) > 1
    assert all(text.startswith(prompt) for text in texts)


def test_nothing_is_added_where_no_token_may_be(trigram: Model) -> None:
    assert trigram.generate("ka zzz", limits=Limits(max_tokens=0)) == ["ka zzz"]
    assert trigram.generate(limits=Limits(max_tokens=0)) == [""]


def test_the_same_seed_generates_the_same_texts(trigram: Model) -> None:
    texts = trigram.generate(n=10, seed=4)
    assert texts == trigram.generate(n=10, seed=4)
    assert texts != trigram.generate(n=10, seed=5)


@pytest.mark.parametrize("content", [None, [], ["notes.txt"]])
def test_a_folder_that_is_no_model_is_an_error(content: list[str] | None, tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    if content is not None:
        folder.mkdir()
        for name in content:
            (folder / name).write_text("x")
    with pytest.raises(ModelFormatError, match="no such folder" if content is None else "this folder is not a model"):
        chainrule.load(folder)


def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lm.bin").write_text("x")
    with pytest.raises(ModelFormatError, match=r"a model is a folder, a file whose name ends in \.arpa"):
        chainrule.load(tmp_path / "lm.bin")


def edited(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_an_unknown_family_is_an_error_that_names_those_there_are(folder: Path) -> None:
    edited(folder, family="oracle")
    with pytest.raises(ModelFormatError, match=r"family 'oracle' is not known to this version; expected .*ngram"):
        chainrule.load(folder)


@pytest.mark.parametrize(
    "settings", [{}, {"ngrams": []}, {"ngrams": [1, 2, 3]}, {"ngrams": "many"}, {"ngrams": [-1, 5]}], ids=str
)
def test_impossible_level_sizes_are_an_error_that_names_the_folder(folder: Path, settings: dict[str, Any]) -> None:
    edited(folder, settings=settings)
    with pytest.raises(ModelFormatError, match=str(folder)):
        chainrule.load(folder)


@pytest.mark.parametrize("name", ["nodes", "contexts", "slots", "vocabulary.text", "vocabulary.offsets"])
def test_a_missing_array_is_an_error_that_names_it(folder: Path, name: str) -> None:
    [data] = folder.glob("*.safetensors")
    arrays = open_tensors(data)
    del arrays[name]
    digest = write_tensors(folder / "less", arrays)
    size = (folder / "less").stat().st_size
    edited(folder, files={"arrays.safetensors": {"name": "less", "bytes": size, "sha256": digest}})
    with pytest.raises(ModelFormatError, match=f"{folder}.*{name}"):
        chainrule.load(folder)


def test_a_cut_off_file_is_an_error(folder: Path) -> None:
    [data] = folder.glob("*.safetensors")
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ModelFormatError, match=r"has [\d,]+ bytes, expected [\d,]+; it was cut off"):
        chainrule.load(folder)


def test_a_model_is_not_overwritten_unless_asked(folder: Path, trigram: Model) -> None:
    with pytest.raises(OutputError, match="there is a model already"):
        trigram.save(folder)
    other = chainrule.train(Lines(["ka ka"]), NGramConfig(order=2))
    other.save(folder, overwrite=True)
    assert chainrule.load(folder).score(["ka"]).tobytes() == other.score(["ka"]).tobytes()


def test_a_model_of_another_family_cannot_be_an_arpa_file(tmp_path: Path) -> None:
    model = chainrule.train(Lines(["a b"]), UniformConfig())
    with pytest.raises(SettingError, match="family 'uniform' cannot be written as ARPA"):
        model.save(tmp_path / "lm.arpa")
    assert not (tmp_path / "lm.arpa").exists()


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import sys, chainrule; print(sorted({'numba', 'torch', 'numpy', 'rich', 'pydantic'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_settings_load_no_numba() -> None:
    code = "import sys, chainrule; chainrule.NGramConfig(); print('numba' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False False"


def test_every_public_name_is_there_and_no_other() -> None:
    assert len(set(chainrule.__all__)) == len(chainrule.__all__) > 10
    for name in chainrule.__all__:
        value = getattr(chainrule, name)
        assert value.__name__ == name
        assert name in dir(chainrule)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        chainrule.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_and_editors_see_every_public_name_where_it_is_imported_from() -> None:
    stub = ast.parse(resources.files(chainrule).joinpath("__init__.pyi").read_text())
    imports = [
        (imported.asname, f"{node.module}.{imported.name}")
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom)
        for imported in node.names
        if imported.asname
    ]
    module_of = vars(chainrule)["_MODULE_OF"]
    assert sorted(imports) == [(name, f"chainrule.{module_of[name]}.{name}") for name in chainrule.__all__]


@pytest.mark.parametrize("tokenizer", ["word", "whitespace", "character", "byte"])
def test_an_arpa_file_of_ours_is_cut_as_its_marks_show(tmp_path: Path, tokenizer: str) -> None:
    lines = chainrule.Lines(["Hello, world!", "(well-known) words"])
    model = chainrule.train(lines, chainrule.NGramConfig(order=2), tokenizer=tokenizer)
    model.save(tmp_path / "lm.arpa")
    again = chainrule.load(tmp_path / "lm.arpa")
    assert again.tokenizer.name == tokenizer
    assert again.evaluate(lines).log_prob == model.evaluate(lines).log_prob
    assert len(again.record["warnings"]) == (tokenizer != "whitespace")


def test_a_folder_keeps_its_tokenizer_and_takes_another_rule_for_markers(tmp_path: Path) -> None:
    chainrule.train(chainrule.Lines(["a b"]), chainrule.UniformConfig()).save(tmp_path / "lm")
    with pytest.raises(SettingError, match="was trained with the word tokenizer"):
        chainrule.load(tmp_path / "lm", tokenizer="character")
    assert chainrule.load(tmp_path / "lm", markers="skip").score(["a <s> b"]) == chainrule.load(tmp_path / "lm").score(
        ["a b"]
    )


def test_without_a_seed_texts_differ_from_call_to_call() -> None:
    model = chainrule.train(chainrule.Lines([" ".join(map(str, range(100)))]), chainrule.UniformConfig())
    short = Limits(max_tokens=20)
    assert model.generate(limits=short) != model.generate(limits=short)
