"""Counts and trains n-gram models on Spark. Workers count; what they merged comes to the driver, which estimates.

    words     a pass over the text: the tokens of each piece of a file, in order, so that ids are those of the local
              model
    counting  another pass: workers count runs of the text with the local engine, cut counts into ranges of first
              words, and send each range to one task, which merges the runs: one shuffle of counts, not of tokens
    driver    joins the ranges, one after the other, into the counts that the local engine has, and estimates as it
              does

So every smoothing gives the local model, bit for bit, whatever the number of tasks and machines.
"""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.api.build_model import build_model
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.train_speller import speller_of_counts
from chainrule.api.training_record import circumstances
from chainrule.base.scratch import check_disk_room
from chainrule.errors import SettingError, TextError
from chainrule.ngram.config import NGramConfig
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.spark.documents import documents_of
from chainrule.spark.sections import Section, joined
from chainrule.spark.session import check_packages, explain_failures
from chainrule.text.prepare_tokenizer import keep_tokens, listed_tokens, most_frequent
from chainrule.text.tokenizer_config import BUILT_IN, TokenizerConfig, as_config
from chainrule.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int64
    from numpy import ndarray
    from pyspark.sql import DataFrame, SparkSession

    from chainrule.api.causal_model import CausalModel
    from chainrule.base.progress import Progress
    from chainrule.ngram.counting.counts import Counts
    from chainrule.spark.documents import Documents
    from chainrule.spark.workers import TokenizerParts
    from chainrule.text.tokenizer import Tokenizer
    from chainrule.text.vocabulary import Markers

RUN_TOKENS = 1 << 21  # that a worker counts at once: some 300 MB for 5-grams
_TASK_TOKENS = 1 << 21  # whose counts a task merges
_RANGE_TOKENS = 1 << 19  # of a range of first words: some 10 MB
_DISK_BYTES = 24  # for an n-gram of each order at each token, if all are distinct: runs, and merged counts
_TASKS = "learning words on Spark", "counting n-grams on Spark"


@shows_progress
def train(
    session: SparkSession,
    texts: Any,
    config: NGramConfig | None = None,
    *,
    column: str | None = None,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    partitions: int | None = None,
    run_tokens: int = RUN_TOKENS,
    progress: ProgressOption = None,
) -> CausalModel:
    """Trains an n-gram model; that of `chainrule.train` on the same text, bit for bit.

    texts: paths, whose lines are documents (with any scheme that Spark knows), or a data frame, whose rows are.
    column: the one of a data frame that holds the texts. The rows of a data frame have no order, so that ids are given
    in the order of the tokens' bytes, not of their first occurrence. tokenizer: word, whitespace, character or byte.
    partitions: tasks that merge counts; by default by the size of the text. run_tokens: how many a worker counts at
    once, which bounds its memory. The driver holds the counts of all n-grams.
    Raises TextError, SettingError, EstimationError; OutputError where Spark's workers are here, and the disk is full.
    """
    began, progress, config = time.perf_counter(), callback(progress), config or NGramConfig()
    counted = _count(session, texts, config, column, as_config(tokenizer), markers, partitions, run_tokens, progress)
    from chainrule.ngram.training import model_of_counts

    unigrams = counted.tokens
    speller = speller_of_counts(counted.tokenizer, unigrams, config, counted.left_out)
    engine, learned = model_of_counts(counted.counts, config, progress)
    documents = int(unigrams[END])
    record = {
        **circumstances("ngram", config),
        "seconds": time.perf_counter() - began,
        "tokenizer": _changed(as_config(tokenizer)),
        "data": dict.fromkeys(counted.names, "read by Spark"),
        "documents": documents,
        "tokens": int(unigrams.sum()) - documents,
        "unknown_tokens": int(unigrams[UNKNOWN]),
        "unseen_types": speller.unseen_types,
        "spark": {"version": session.version, "partitions": counted.partitions},
        **learned,
    }
    return build_model("ngram", engine, counted.tokenizer, record, speller)  # type: ignore[return-value]


@shows_progress
def count(
    session: SparkSession,
    texts: Any,
    path: Any,
    *,
    order: int = 5,
    column: str | None = None,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    partitions: int | None = None,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Writes the counts of all n-grams of a text to a file, as `chainrule count` does; returns the totals.

    Arguments and errors: those of `train`; OutputError where the file cannot be written.
    """
    from chainrule.ngram.count_files.write import write_counts_file

    progress, config = callback(progress), NGramConfig(order=order)
    counted = _count(session, texts, config, column, as_config(tokenizer), markers, partitions, RUN_TOKENS, progress)
    lines = write_counts_file(path, counted.counts, counted.tokenizer.vocabulary, progress)
    documents = int(counted.tokens[END])
    return {
        "ngrams": list(counted.counts.level_sizes),
        "lines": lines,
        "tokens": int(counted.tokens.sum()) - documents,
        "documents": documents,
    }


class _Counted(NamedTuple):
    """tokens: the count of each token. left_out: those that the vocabulary does not keep. names: of files."""

    tokenizer: Tokenizer
    counts: Counts
    tokens: Int64[ndarray, " V"]
    left_out: Sequence[bytes]
    names: list[str]
    partitions: int


def _count(
    session: SparkSession,
    texts: Any,
    config: NGramConfig,
    column: str | None,
    tokenizer: TokenizerConfig,
    markers: Markers,
    partitions: int | None,
    run_tokens: int,
    progress: Progress,
) -> _Counted:
    check_packages()
    if tokenizer.kind not in BUILT_IN:
        raise SettingError(f"Spark workers have the tokenizers {', '.join(BUILT_IN)}, not {tokenizer.kind}")
    from chainrule.spark.workers import PARTS, TokenizerParts, count_sections

    with explain_failures("reading the text"):
        documents = documents_of(session, texts, column)
    parts = TokenizerParts(str(tokenizer.kind), markers, tokenizer.normalise, documents.are_lines)
    progress(_TASKS[0], 0, None)
    with explain_failures(_TASKS[0]):
        grown, counts = _learned(documents, parts)
    learner, kept, left_out = _limited(grown, counts, tokenizer)
    tokens = int(kept.sum())
    if partitions is None:
        partitions = max(session.sparkContext.defaultParallelism, -(-tokens // _TASK_TOKENS))
    if (session.sparkContext.master or "").startswith("local"):  # the workers' disk is this machine's
        check_disk_room(_DISK_BYTES * config.order * tokens, "counting on Spark")
    bounds = _bounds(kept, max(partitions, -(-tokens // _RANGE_TOKENS)))
    progress(_TASKS[1], 0, len(bounds) - 1)
    with explain_failures(_TASKS[1]):
        work = partial(
            count_sections,
            parts=parts.with_vocabulary(learner.vocabulary),
            config=config,
            bounds=bounds,
            run_tokens=run_tokens,
        )
        found = _sections(documents, documents.frame.mapInArrow(work, PARTS), config, bounds, partitions, progress)
    names = list(documents.files.values()) or ["a data frame"]
    padding = max(1, config.order - 1) if config.begins == "all" else 1
    return _Counted(learner, joined(found, tokens * padding), kept, left_out, names, partitions)


def _learned(documents: Documents, parts: TokenizerParts) -> tuple[Tokenizer, Int64[ndarray, " V"]]:
    """The tokenizer with all tokens of a text, and the count of each. Raises TextError."""
    from chainrule.spark.workers import WORDS, learn_words

    rows = documents.frame.mapInArrow(partial(learn_words, parts=parts), WORDS).collect()
    rows.sort(key=lambda row: (row.source, row.start, row.place))
    _raise_errors(documents, rows)
    if not rows:
        raise TextError(f"{', '.join(documents.files.values()) or 'the data frame'}: there is no text in it")
    learner = parts.tokenizer
    if not documents.files:
        tokens = {token for row in rows for token in row.tokens.split(b"\n") if token}
        learner.vocabulary.absorb(Vocabulary(sorted(tokens)))
    counts = np.zeros(0, np.int64)
    for row in rows:
        ids = learner.vocabulary.absorb(Vocabulary(row.tokens.split(b"\n") if row.tokens else ()))
        counts = np.pad(counts, (0, len(learner.vocabulary) - counts.size))
        counts[ids] += np.frombuffer(row.counts, np.int64)
    return learner, counts


def _limited(
    tokenizer: Tokenizer, counts: Int64[ndarray, " V"], config: TokenizerConfig
) -> tuple[Tokenizer, Int64[ndarray, " kept"], Sequence[bytes]]:
    """The tokenizer with the tokens that a configuration keeps, their counts, and the others, which become <unk>."""
    if not config.is_limited:
        return tokenizer, counts, ()
    tokens = tokenizer.vocabulary.tokens()
    if config.vocabulary is not None:
        kept = listed_tokens(config.vocabulary, tokenizer.normaliser)
    else:
        kept = [tokens[i] for i in most_frequent(counts, config.min_count, config.vocabulary_size)]
    ids = np.arange(len(tokens), dtype=np.int32)
    limited = keep_tokens(kept, tokenizer, ids)  # which writes the new id of each token into `ids`
    new = np.zeros(limited.tokenizer.vocabulary_size, np.int64)
    np.add.at(new, ids, counts)
    return limited.tokenizer, new, limited.left_out


def _bounds(counts: Int64[ndarray, " V"], parts: int) -> list[int]:
    """Cuts the words into at most so many ranges that begin about as many n-grams."""
    begins = counts.copy()
    begins[BEGIN], begins[END] = counts[END], 0
    ends = np.cumsum(begins)
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1], parts + 1)[1:-1]) + 1
    return [0, *np.unique(cuts[cuts < counts.size]).tolist(), counts.size]


def _sections(
    documents: Documents,
    runs: DataFrame,
    config: NGramConfig,
    bounds: list[int],
    partitions: int,
    progress: Progress,
) -> list[Section]:
    """The counts of each range of first words, in order. runs: rows of PARTS. Raises TextError."""
    from pyspark import StorageLevel

    from chainrule.spark.workers import PARTS, merge_sections

    merged = runs.repartition(partitions, "part").sortWithinPartitions("part").mapInArrow(merge_sections, PARTS)
    with ExitStack() as stack:
        merged = merged.persist(StorageLevel.DISK_ONLY)  # computed once, in parallel; fetched part by part
        stack.callback(merged.unpersist)
        merged.count()
        sections: dict[int, Section] = {}
        for row in merged.toLocalIterator():
            _raise_errors(documents, [row])
            sections[row.part] = Section.unpack(row.section)
            progress(_TASKS[1], len(sections), len(bounds) - 1)
    return [sections.get(part) or Section.empty(last - first, config.order) for part, (first, last) in _ranges(bounds)]


def _ranges(bounds: list[int]) -> list[tuple[int, tuple[int, int]]]:
    return list(enumerate(itertools.pairwise(bounds)))


def _raise_errors(documents: Documents, rows: Sequence[Any]) -> None:
    for row in rows:
        if row.error is not None:
            place = documents.locate(row.source, row.start) if "source" in row else ", ".join(documents.files.values())
            raise TextError(f"{place or 'the data frame'}: {row.error}")


def _changed(config: TokenizerConfig) -> dict[str, Any]:
    default = TokenizerConfig()
    return {name: value for name, value in asdict(config).items() if value != getattr(default, name)}
