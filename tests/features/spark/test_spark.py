"""Training on Spark gives the local model, bit for bit, however the text is cut and whatever happens to tasks."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chainrule
from chainrule import NGramConfig, TokenizerConfig
from chainrule.cli.main import run
from chainrule.errors import EstimationError, OutputError, SettingError, TextError
from chainrule.features.spark.session import cause_of, check_java, explain_failures, local_session
from chainrule.verbs.convert import in_shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

from chainrule.features.spark import estimation as estimating_shards

pytestmark = pytest.mark.spark


def data_of(model: chainrule.Model, folder: Path) -> set[str]:
    """The names of a saved model's arrays, which are digests of all of them."""
    model.save(folder)
    return {path.name for path in folder.iterdir() if path.suffix == ".safetensors"}


@pytest.mark.parametrize(
    ("partitions", "config", "tokenizer", "options"),
    [
        (3, NGramConfig(order=5), TokenizerConfig(), {}),
        pytest.param(
            *(1, NGramConfig(order=3, prune=(0, 1), begins="all"), TokenizerConfig(min_count=2), {"shards": 3}),
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            *(2, NGramConfig(order=2, smoothing="absolute"), TokenizerConfig(kind="pieces"), {"tune": "heldout.txt"}),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_model_of_spark_is_the_local_model(
    partitions: int,
    config: NGramConfig,
    tokenizer: TokenizerConfig,
    options: dict[str, Any],
    session: SparkSession,
    fixtures: Path,
    tmp_path: Path,
) -> None:
    """Of two files, read in pieces; one has a byte-order mark, CRLF, empty lines and no newline at its end."""
    other = tmp_path / "a file, other.txt"
    other.write_bytes(b"\xef\xbb\xbfzebras first\r\n\r\nthe next line\r\nand the last")
    texts = [str(fixtures / "train.txt"), str(other)]
    if "tune" in options:
        options = {"tune": fixtures / options["tune"]}
    if tokenizer.kind == "pieces":
        learned = TokenizerConfig(kind="bpe", vocabulary_size=400)
        chainrule.train(other, chainrule.UniformConfig(), tokenizer=learned).save(tmp_path / "pieces")
        tokenizer = TokenizerConfig(kind=tmp_path / "pieces")
    local = chainrule.train(texts, config, tokenizer=tokenizer, **{k: options[k] for k in options if k == "tune"})
    expected = in_shards(local, options["shards"]) if "shards" in options else local
    given = {"tokenizer": tokenizer, "partitions": partitions, "run_tokens": 2000, **options}
    model = chainrule.spark.train(session, texts, config, **given)
    assert data_of(model, tmp_path / "spark") == data_of(expected, tmp_path / "local")
    for name in ("documents", "tokens", "unknown_tokens", "discounts", "ngrams", "tokenizer", "unseen_types"):
        assert model.record[name] == local.record[name], name


@pytest.mark.thorough
def test_the_rows_of_a_data_frame_and_tasks_that_are_killed(
    session: SparkSession, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows have no order, so that ids are those of sorted tokens; some tasks are empty, and two are killed."""
    lines = (fixtures / "train.txt").read_text().splitlines()[:100]
    rows = session.createDataFrame([(i, line) for i, line in enumerate(lines)], "id long, text string")

    def killed_once(work: Callable[..., Iterator[RecordBatch]], flag: str) -> Callable[..., Iterator[RecordBatch]]:
        def first_killed(batches: Iterable[RecordBatch], **options: Any) -> Iterator[RecordBatch]:
            for batch in work(batches, **options):
                if not os.path.exists(flag):
                    Path(flag).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        return first_killed

    flags = [str(tmp_path / "reading"), str(tmp_path / "estimating")]
    config = NGramConfig(order=2)
    one = chainrule.spark.train(session, rows.coalesce(1), config, column="text", partitions=1)
    cut = rows.repartition(3, "id").mapInArrow(killed_once(iter, flags[0]), rows.schema).repartition(4)
    monkeypatch.setattr(estimating_shards, "estimate_order", killed_once(estimating_shards.estimate_order, flags[1]))
    three = chainrule.spark.train(session, cut, config, column="text", partitions=3, shards=3)
    assert all(map(os.path.exists, flags))
    one.save(tmp_path / "one")
    assert data_of(in_shards(one, 3), tmp_path / "cut") == data_of(three, tmp_path / "three")

    in_order = chainrule.train(chainrule.Lines(lines), config)
    heldout = str(fixtures / "heldout.txt")
    bits = [model.evaluate(heldout).bits_per_byte for model in (one, in_order)]
    assert bits[0] == pytest.approx(bits[1], abs=1e-6)

    likelihood = chainrule.spark.evaluate(session, heldout, tmp_path / "three")
    local = one.evaluate(heldout)
    assert (likelihood.documents, likelihood.tokens, likelihood.bytes) == (local.documents, local.tokens, local.bytes)
    assert likelihood.log_prob == local.text_log_prob

    expected = chainrule.filter(chainrule.Lines(lines), one, keep=0.3)
    kept = chainrule.spark.filter(rows.repartition(3), tmp_path / "one", below=expected.threshold, column="text")
    assert sorted(row.text for row in kept.collect()) == sorted(expected.texts or [])


def test_counts(session: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    text = f"file://{fixtures / 'train.txt'}"
    totals = chainrule.spark.count(session, text, tmp_path / "spark.txt", order=2)
    assert run(["count", str(fixtures / "train.txt"), "-o", str(tmp_path / "local.txt"), "--order", "2"]) == 0
    assert (tmp_path / "spark.txt").read_bytes() == (tmp_path / "local.txt").read_bytes()
    assert totals["lines"] == (tmp_path / "local.txt").read_bytes().count(b"\n")


def test_bad_texts(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"one line\n" * 3000 + b"caf\xe9\n")
    with pytest.raises(TextError, match=r"latin.txt, in the part from byte 1[\d,]+ on: document [\d,]+: byte 0xe9"):
        chainrule.spark.train(session, str(tmp_path / "latin.txt"))
    (tmp_path / "empty.txt").touch()
    with pytest.raises(TextError, match=r"empty.txt: there is no text in it"):
        chainrule.spark.train(session, str(tmp_path / "empty.txt"))
    with pytest.raises(TextError, match=r"nothing.txt: there is no such file"):
        chainrule.spark.train(session, str(tmp_path / "nothing.txt"))
    with pytest.raises(EstimationError, match=r"reading the text failed on Spark: .*nosuch"):
        chainrule.spark.train(session, "nosuch://host/texts")
    two = session.createDataFrame([("a", "b")], "one string, two string")
    with pytest.raises(SettingError, match="the data frame has the columns one, two; say which one is the text"):
        chainrule.spark.train(session, two)
    with pytest.raises(SettingError, match="bpe subwords are not learned on Spark; learn them from a part of the text"):
        chainrule.spark.train(session, two, column="one", tokenizer="bpe")
    with pytest.raises(SettingError, match="jelinek-mercer cannot be estimated part by part; choose one of absolute"):
        chainrule.spark.train(session, two, NGramConfig(smoothing="jelinek-mercer"), column="one", shards=2)
    with pytest.raises(SettingError, match="tuning needs all counts on the driver; leave shards out"):
        chainrule.spark.train(session, two, column="one", shards=2, tune=tmp_path / "latin.txt")
    with pytest.raises(SettingError, match="has no column 'three'; it has one, two"):
        chainrule.spark.score(two, tmp_path, column="three")


def test_a_disk_without_room_is_noticed_before_counting(
    session: SparkSession, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000}))
    with pytest.raises(OutputError, match=r"counting on Spark needs about .* for temporary files"):
        chainrule.spark.train(session, str(fixtures / "train.txt"))


def test_java_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingError, match="Spark needs Java, and there is none here; install Java 17"):
        check_java()
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(SettingError, match=r'Spark needs Java 17 or later; .*java is openjdk version "11.0.2"'):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingError, match=f"there is none in {tmp_path}"):
        check_java()


def test_the_command_line_without_java(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(["train", "ngram", str(fixtures / "train.txt"), "-o", str(tmp_path / "lm"), "--spark", "local[2]"]) == 1
    assert "Spark needs Java" in capsys.readouterr().err
    (tmp_path / "empty.txt").touch()
    for options, message in (
        ([str(tmp_path / "empty.txt")], "there is no text in it"),
        ([str(fixtures / "train.txt"), "--tokenizer", "bpe"], "bpe subwords are not learned on Spark"),
        ([str(fixtures / "train.txt"), "--shards", "2", "--smoothing", "lidstone"], "lidstone cannot be estimated"),
    ):  # what needs no Java is said before it starts
        assert run(["train", "ngram", *options, "-o", str(tmp_path / "lm"), "--spark", "local[2]"]) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "lm").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shards", "2"], "--shards needs --spark; chainrule convert --shards cuts a model that is trained."),
        (["--spark", "local[2]", "--memory", "100M"], "--memory is 100M; Java needs 512M or more"),
        (["--spark", "local[2]", "--mix", "other.txt"], "--mix and --spark do not go together"),
        (["--spark", "local[2]", "--document", "file"], "give chainrule.spark.train in Python a data frame"),
        (["--spark", "local[2]", "--shards", "2", "--compact"], "--shards is for a folder that is not compact"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], message: str, fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "ngram", str(fixtures / "train.txt"), "-o", str(tmp_path / "lm"), *options]) != 0
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())


def test_a_process_has_one_session(session: SparkSession) -> None:
    with pytest.raises(SettingError, match="this process has a Spark session already"), local_session("local[1]"):
        pass


def test_failures_of_spark_are_one_line() -> None:
    trace = "Job aborted\nTraceback (most recent call last):\n  File x\nMemoryError: too much\n\tat org.apache"
    assert cause_of(RuntimeError(trace)) == "MemoryError: too much"
    of_java = "An error occurred\n: org.apache.NoFileSystem: x\n: java.io.IOException: none\n\tat java"
    assert cause_of(RuntimeError(of_java)) == "java.io.IOException: none"
    with pytest.raises(EstimationError, match="counting: Spark's Java process has ended"), explain_failures("counting"):
        raise ConnectionRefusedError("[Errno 111] Connection refused")
