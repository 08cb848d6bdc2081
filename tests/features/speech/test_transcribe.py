"""The verbs of speech: data speech, train speech, transcribe, evaluate, attend; and what is wrong with a sound."""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sung import TEXTS, hearing, write_wav

from chainrule import Lines, NGramConfig, train
from chainrule.features.lectures.datasets.make import File, make_data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

QUICK = ("--steps", 2, "--batch", 2, "--width", 8, "--layers", 1, "--precision", "float32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sounds with transcripts, a model that hears them, and a language model."""
    folder = tmp_path_factory.mktemp("speech")
    for i, text in enumerate(TEXTS):
        write_wav(folder / f"{i}.wav", text, i)
    (folder / "t.tsv").write_text("".join(f"{i}.wav\t{text}\n" for i, text in enumerate(TEXTS)))
    hearing().save(folder / "model")
    train(Lines(3 * TEXTS), NGramConfig(order=2), tokenizer="whitespace").save(folder / "lm")
    return folder


def test_texts_lists_and_times_of_sounds(folder: Path, tmp_path: Path, chainrule: Callable[..., Result]) -> None:
    lists, times = tmp_path / "nbest.jsonl", tmp_path / "words.ctm"
    command = ("transcribe", folder / "model", folder / "5.wav", folder / "2.wav", "--lm", folder / "lm")
    result = chainrule(*command, "--nbest-out", lists, "--times", times)
    assert result.out.splitlines() == [f"ab ba\t{folder}/5.wav", f"a b\t{folder}/2.wav"]
    assert [line.split()[4] for line in times.read_text().splitlines()] == ["ab", "ba", "a", "b"]
    assert chainrule("rescore", lists, "--model", folder / "lm").out.splitlines()[1] == "a b"
    listed = chainrule(*command, "--nbest", 2).out.splitlines()
    assert listed[0].startswith("0 ||| ab ba ||| ctc= ")
    assert [line.split(" ||| ")[0] for line in listed] in (
        ["0", "0", "1", "1"],
        ["0", "1"],
        ["0", "0", "1"],
        ["0", "1", "1"],
    )
    record = chainrule("transcribe", folder / "model", folder / "5.wav", "--json", "--nbest", 2).json
    words = record["words"]
    assert [word["word"] for word in words] == ["ab", "ba"]
    with wave.open(str(folder / "5.wav")) as sound:
        assert 0 < words[0]["start"] < words[1]["end"] < sound.getnframes() / 16_000 + 0.03
    greedy = chainrule("transcribe", folder / "model", folder, "--greedy").out.splitlines()
    assert len(greedy) == len(TEXTS)
    refused = chainrule("transcribe", folder / "model", folder / "5.wav", "--greedy", "--lm", folder / "lm")
    assert (refused.status, "--greedy takes no language model" in refused.err) == (2, True)
    refused = chainrule("transcribe", folder / "model", folder / "5.wav", "--alpha", "2")
    assert (refused.status, "--alpha is for a language model; give --lm" in refused.err) == (2, True)


def test_what_is_wrong_with_a_sound_is_said_and_the_others_go_on(
    folder: Path, tmp_path: Path, chainrule: Callable[..., Result]
) -> None:
    (tmp_path / "empty.wav").write_bytes((folder / "0.wav").read_bytes()[:44])
    (tmp_path / "odd.wav").write_bytes(b"RIFF")
    write_wav(tmp_path / "fast.wav", "ab", 0, rate=22_050)
    names = [tmp_path / name for name in ("empty.wav", "odd.wav", "none.wav", "fast.wav")]
    result = chainrule("transcribe", folder / "model", *names, folder / "0.wav")
    assert [line.split("\t")[1] for line in result.out.splitlines()] == [str(names[3]), f"{folder}/0.wav"]
    assert result.status == 1
    for message in (
        "empty.wav: is empty",
        "odd.wav: is no WAV file, or is damaged",
        "none.wav: cannot be read: No such file",
        "fast.wav: 22,050 samples a second, converted to 16,000",
        "3 of 5 sounds could not be transcribed",
    ):
        assert message in result.err
    assert "Traceback" not in result.err


def test_a_model_is_measured_on_transcripts(folder: Path, chainrule: Callable[..., Result]) -> None:
    result = chainrule("evaluate", folder / "model", folder / "t.tsv", "--lm", folder / "lm", "--json")
    figures = result.json
    assert figures["sounds"] == len(TEXTS)
    assert figures["wer"] < 0.2
    assert set(figures) >= {"cer_low", "fused_wer", "gain_wer_high"}
    assert "10 sounds" in chainrule("evaluate", folder / "model", folder / "t.tsv").out
    (folder / "odd.tsv").write_text("0.wav\täb\nnone.wav\tab\n")
    odd = chainrule("evaluate", folder / "model", folder / "odd.tsv")
    assert odd.status == 0
    assert "the transcripts have 'ä', which the model never writes" in odd.err
    assert "none.wav: cannot be read" in odd.err
    for arguments, message in (
        ((folder / "model", folder / "t.tsv", folder / "t.tsv"), "is measured on one file or folder"),
        ((folder / "lm", folder / "t.tsv", "--lm", folder / "lm"), "--lm is for a speech model"),
        ((folder / "model",), "TEXTS is missing"),
        ((folder / "model", folder / "t.tsv", "--beam", "2"), "--beam is for a seq2seq model"),
    ):
        refused = chainrule("evaluate", *arguments)
        assert refused.status == 2
        assert message in refused.err


@pytest.mark.parametrize("suffix", [".html", ".svg", ".png"])
def test_the_alignment_is_drawn(suffix: str, folder: Path, tmp_path: Path, chainrule: Callable[..., Result]) -> None:
    page = tmp_path / f"a{suffix}"
    result = chainrule("attend", folder / "model", folder / "5.wav", "ab ba", "-o", page)
    assert result.out == f"{page}: 5 characters: ab ba\n"
    content = page.read_bytes()
    if suffix == ".html":
        assert b"<svg" in content
        assert content.count(b"<tr>") == 6
    refused = chainrule("attend", folder / "model", folder / "5.wav", "xy", "-o", page, "--overwrite")
    assert "which the model has never written" in refused.err


def test_a_run_leaves_out_what_it_cannot_learn_and_a_finished_one_is_known(
    folder: Path, tmp_path: Path, chainrule: Callable[..., Result]
) -> None:
    listed = "".join(f"{folder}/{i}.wav\t{text}\n" for i, text in enumerate(TEXTS))
    (tmp_path / "t.tsv").write_text(f"{listed}{folder}/0.wav\t{500 * 'a'}\n{folder}/no.wav\tab\n")
    train_it = ("train", "speech", tmp_path / "t.tsv", "--valid", folder / "t.tsv", "-o", tmp_path / "m", *QUICK)
    result = chainrule(*train_it)
    assert result.status == 0
    assert "speech model with" in result.out
    assert "has 500 characters, which need 999 steps" in result.err
    assert "no.wav: cannot be read" in result.err
    again = chainrule(*train_it, "--resume")
    assert (again.status, "the run has ended, after 2 steps" in again.err) == (0, True)
    other = chainrule(*train_it, "--resume", "--stacked", 2)
    assert (other.status, "the run has ended, with other settings: stacked was 3 and is 2" in other.err) == (1, True)
    assert chainrule(*train_it, "--bad-records", "stop", "--overwrite").status == 1
    assert "family      speech" in chainrule("info", tmp_path / "m").out
    assert "hears sounds (chainrule transcribe, " in chainrule("score", tmp_path / "m", tmp_path / "t.tsv").err


def test_made_sounds_are_the_same_on_every_machine() -> None:
    made = {file.name: file for file in make_data("speech", 20)}
    assert made == {file.name: file for file in make_data("speech", 20)}
    assert {file.name: file.examples for file in made.values() if not file.name.endswith(".wav")} == {
        "train.tsv": 20,
        "valid.tsv": 2,
        "test.tsv": 2,
        "text.txt": 200,
    }
    assert made["train.tsv"].content.startswith(b"train/1.wav\t4 red dogs follow 8 black books\n")
    with wave.open(io.BytesIO(made["train/1.wav"].content)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (16_000, 1, 36_398)
        assert np.frombuffer(sound.readframes(2006), "<i2")[2000:].tolist() == [904, -2486, 2401, -1277, -3344, -1288]
    said = {line.split("\t")[1] for part in ("train", "valid", "test") for line in lines(made[f"{part}.tsv"])}
    assert said.isdisjoint(lines(made["text.txt"]))
    assert len(make_data("speech", 200, hard=True)[1].content) > 20_000


def lines(file: File) -> list[str]:
    return file.content.decode().splitlines()
