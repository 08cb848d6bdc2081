"""Learns the words of a text, counts and trains n-gram models on Spark; results are those of the local engine.

    words      a pass over the text: the tokens of each piece of a file, in order, put together on the driver one by
               one, so that ids are those of the local model: in the order in which tokens first occur in the files.
               The rows of a data frame have no order, so their tokens are ordered by their bytes
    counting   another pass: workers count runs of the text with the local engine, cut counts into ranges of first
               words, and send each range to one task, which merges the runs: one shuffle of counts, not of tokens
    driver     joins the ranges, one after the other, into the counts that the local engine has, and estimates as it
               does; or, for a model in shards, workers estimate, too: `estimation.py`

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

from chainrule.base.memory import available_memory, check_fits
from chainrule.base.scratch import check_disk_room
from chainrule.errors import SettingError, TextError
from chainrule.features.spark.by_level import check_by_level
from chainrule.features.spark.documents import addresses_of, block_of, documents_of, is_frame
from chainrule.features.spark.sections import Section, join_sections
from chainrule.features.spark.session import check_packages, explain_failures
from chainrule.features.spark.transport import CHUNKS, gather_chunks, rows_at_driver
from chainrule.models.files.folders import build_model
from chainrule.models.files.tokenizers import saved_tokenizer
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.models.run import record_header
from chainrule.ngram.config import NGramConfig, check_tunable
from chainrule.ngram.counting.count import SAMPLE, expected_ngrams
from chainrule.ngram.saving import check_shards, shard_model
from chainrule.ngram.training import model_of_counts
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.corpus import Lines, source_of
from chainrule.text.tokenization.build import keep_tokens, listed_tokens, most_frequent, prepare_tokenizer
from chainrule.text.tokenization.config import LEARNED, OF_WORDS, TokenizerConfig, as_config
from chainrule.text.tokenization.tokenizer import encode_stream
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary
from chainrule.verbs.training.stream import speller_of_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int64
    from numpy import ndarray
    from pyspark.sql import DataFrame, SparkSession

    from chainrule.base.progress import Progress
    from chainrule.features.spark.documents import Documents
    from chainrule.features.spark.workers import TokenizerParts
    from chainrule.models.language_models import CausalModel
    from chainrule.ngram.counting.counts import Counts
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Markers

_PLACE_BITS = 32


def learn_tokenizer(
    documents: Documents, parts: TokenizerParts, learner: Tokenizer
) -> tuple[Tokenizer, Int64[ndarray, " V"]]:
    """Return the tokenizer with all tokens of a text, and the count of each; a tokenizer that does not grow, unchanged.

    parts: those of `learner`. Raises TextError.
    """
    from pyspark import StorageLevel

    from chainrule.features.spark.workers import WORDS, learn_words

    with ExitStack() as stack:
        rows = documents.frame.mapInArrow(partial(learn_words, parts=parts), WORDS).persist(StorageLevel.DISK_ONLY)
        stack.callback(rows.unpersist)
        if not rows.count():
            name = ", ".join(documents.files.values()) or "the data frame"
            raise TextError(f"{name}: there is no text in it; at least one document is needed")
        _raise_error(documents, rows)
        if not parts.grows:
            return learner, np.sum([np.frombuffer(row.counts, np.int64) for row in rows_at_driver(rows)], axis=0)
        words = _Words()
        for row in rows_at_driver(rows):
            words.add(row)
    return words.added_to(learner, in_order=bool(documents.files))


class _Words:
    """Tokens with their counts, and with the first place of each: the file, the piece of it, and the place in that."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.counts = np.zeros(0, np.int64)
        self.places = np.zeros((3, 0), np.int64)

    def add(self, row: Any) -> None:
        """Add a row of WORDS; they may come in any order."""
        own = Vocabulary(row.tokens.split(b"\n") if row.tokens else ())
        ids = self.vocabulary.absorb(own)
        new = len(self.vocabulary) - self.counts.size
        self.counts = np.pad(self.counts, (0, new))
        self.places = np.pad(self.places, ((0, 0), (0, new)), constant_values=np.iinfo(np.int64).max)
        self.counts[ids] += np.frombuffer(row.counts, np.int64)
        places = (row.place << _PLACE_BITS) + np.arange(ids.size)
        known = self.places[:, ids]
        at = np.stack([np.full(ids.size, row.source), np.full(ids.size, row.start), places])
        differs = at != known
        first = np.argmax(differs, axis=0)  # the first of the three numbers that differs
        columns = np.arange(ids.size)
        is_before = at[first, columns] < known[first, columns]
        self.places[:, ids[is_before]] = at[:, is_before]

    def added_to(self, learner: Tokenizer, *, in_order: bool) -> tuple[Tokenizer, Int64[ndarray, " V"]]:
        """Return the learner with these tokens, and the count of each.

        in_order: of their places, or else of their bytes.
        """
        tokens = self.vocabulary.tokens()
        ordinary = range(len(MARKER_TOKENS), len(tokens))
        if in_order:
            order = np.lexsort(self.places[::-1, ordinary.start :]) + ordinary.start
        else:
            order = np.array(sorted(ordinary, key=lambda i: tokens[i]), np.int64)
        ids = learner.vocabulary.absorb(Vocabulary([tokens[i] for i in order.tolist()]))
        counts = np.zeros(len(learner.vocabulary), np.int64)
        counts[ids] = self.counts[np.concatenate([np.arange(ordinary.start), order])]
        return learner, counts


def _raise_error(documents: Documents, rows: Any) -> None:
    """Raise TextError for the first row with an error."""
    errors = rows.where("error is not null").collect()
    if errors:
        row = min(errors, key=lambda row: (row.source, row.start))
        raise TextError(f"{documents.locate(row.source, row.start)}: {row.error}")


RUN_TOKENS = 1 << 21  # that a worker counts at once: some 300 MB for 5-grams
_RANGES = 4  # of first words, for the tokens of a run: some 10 MB each
# Of temporary files, for an n-gram of each order at each token: runs and merged counts; with messages and shards.
_DISK_BYTES, _SHARDS_DISK_BYTES = 12, 40
_NGRAM_BYTES = 6  # for the same, of counts that come to the driver, since half of them are repeated
_DRIVER_BYTES = 40  # for an n-gram: its counts, as they come and joined, and its probabilities
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
    tune: Any = None,
    shards: int | None = None,
    partitions: int | None = None,
    run_tokens: int = RUN_TOKENS,
    progress: ProgressOption = None,
) -> CausalModel:
    """Train an n-gram model; that of `chainrule.train` on the same text, bit for bit.

    texts: paths, whose lines are documents (with any scheme that Spark knows), or a data frame, whose rows are. column:
    the one of a data frame that holds the texts. The rows of a data frame have no order, so that ids are given in the
    order of the tokens' bytes, not of their first occurrence. tokenizer: word, whitespace, character or byte, or the
    path of a tokenizer.json or of a model folder. tune: a text of this machine, as for `chainrule.train`. shards:
    workers estimate, too, and the model is that of `chainrule.convert(..., shards=shards)`, on this machine's disk; the
    driver then holds no n-grams; without shards, it holds all of them. partitions: the number of tasks that merge
    counts; by default it follows from the size of the text. run_tokens: how many tokens a worker counts at once, which
    bounds its memory. Raises TextError, SettingError, EstimationError; OutputError where a disk of this machine is
    full.
    """
    began, progress, config = time.perf_counter(), callback(progress), config or NGramConfig()
    chosen = as_config(tokenizer)
    check_training(texts, config, chosen, markers, tune=tune, shards=shards)
    disk = _DISK_BYTES if shards is None else _SHARDS_DISK_BYTES
    text = _read(session, texts, config, column, chosen, markers, partitions, run_tokens, disk, progress)
    speller = speller_of_counts(text.tokenizer, text.tokens, config, text.left_out, text.literal_unknowns)
    if shards is not None and config.order > 1:
        from chainrule.features.spark.estimation import TASK, estimate_shards

        with explain_failures(TASK):
            engine, learned = estimate_shards(
                text.runs, config, text.bounds, text.partitions, shards, text.name, progress
            )
    else:
        _check_memory(text, config.order, "set shards=8, so that Spark's workers estimate them")
        heldout = None if tune is None else encode_stream(text.tokenizer, source_of(tune), progress)
        engine, learned = model_of_counts(_joined(text, config, progress), config, progress, heldout)
        if shards is not None:
            engine = shard_model(engine, shards, progress)
    documents = int(text.tokens[END])
    record = {
        **record_header("ngram", config),
        "seconds": time.perf_counter() - began,
        "tokenizer": _changed(chosen),
        "data": dict.fromkeys(text.files or ["a data frame"], "read by Spark"),
        "documents": documents,
        "tokens": int(text.tokens.sum()) - documents,
        "unknown_tokens": int(text.tokens[UNKNOWN]),
        "unseen_types": speller.unseen_types,
        "spark": {"version": session.version, "partitions": text.partitions},
        **learned,
    }
    return build_model("ngram", engine, text.tokenizer, record, speller)  # type: ignore[return-value]


def check_training(
    texts: Any, config: NGramConfig, tokenizer: TokenizerConfig, markers: Markers, *, tune: Any, shards: int | None
) -> None:
    """Raise what `train` would raise, as far as that is known without Spark: TextError, SettingError."""
    if shards is not None:
        check_shards(shards)
        if tune is not None:
            raise SettingError("tuning needs all counts on the driver; leave shards out, or tune on a part of the text")
        if config.order > 1:
            check_by_level(config)
    if tune is not None:
        check_tunable(config)
    _tokenizer(tokenizer, markers)
    if not is_frame(texts):
        addresses_of(texts)


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
    run_tokens: int = RUN_TOKENS,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Write the counts of all n-grams of a text to a file, as `chainrule count` does; return the totals.

    Arguments and errors: those of `train`; OutputError where the file cannot be written.
    """
    from chainrule.ngram.counting.files import write_counts_file

    progress, config = callback(progress), NGramConfig(order=order)
    chosen = as_config(tokenizer)
    text = _read(session, texts, config, column, chosen, markers, partitions, run_tokens, _DISK_BYTES, progress)
    _check_memory(text, order, "take a lower order")
    counts = _joined(text, config, progress)
    lines = write_counts_file(path, counts, text.tokenizer.vocabulary, progress)
    documents = int(text.tokens[END])
    return {
        "ngrams": list(counts.level_sizes),
        "lines": lines,
        "tokens": int(text.tokens.sum()) - documents,
        "documents": documents,
    }


class _Text(NamedTuple):
    """A text on Spark. tokens: the count of each token. left_out: the tokens that the vocabulary does not keep.
    literal_unknowns: how often the text itself has <unk>.
    """

    tokenizer: Tokenizer
    tokens: Int64[ndarray, " V"]
    left_out: Sequence[bytes]
    documents: Documents
    runs: DataFrame  # rows of PARTS: the counts of runs, cut into ranges of first words; not yet computed
    bounds: list[int]  # of these ranges
    partitions: int
    literal_unknowns: int = 0

    @property
    def files(self) -> list[str]:
        return list(self.documents.files.values())

    @property
    def name(self) -> str:
        return ", ".join(self.files) or "the data frame"


def _read(
    session: SparkSession,
    texts: Any,
    config: NGramConfig,
    column: str | None,
    tokenizer: TokenizerConfig,
    markers: Markers,
    partitions: int | None,
    run_tokens: int,
    disk_bytes: int,
    progress: Progress,
) -> _Text:
    """Learn the words of a text, and prepare its counting. disk_bytes: for an n-gram at each token and order."""
    check_packages()
    learner, kept = _tokenizer(tokenizer, markers)
    from chainrule.features.spark.workers import PARTS, TokenizerParts, count_sections

    with explain_failures("reading the text"):
        documents = documents_of(session, texts, column)
    grows = kept is not None or tokenizer.learns_words
    parts = TokenizerParts.of(learner, grows=grows, are_lines=documents.are_lines)
    progress(_TASKS[0], 0, None)
    with explain_failures(_TASKS[0]):
        learner, counts = learn_tokenizer(documents, parts, learner)
    literals = int(counts[UNKNOWN]) if grows and learner.name in OF_WORDS else 0  # words are not yet left out
    learner, counts, left_out = _limited(learner, counts, tokenizer, kept)
    tokens = int(counts.sum())
    if partitions is None:
        partitions = max(session.sparkContext.defaultParallelism, -(-tokens // run_tokens))
    if (session.sparkContext.master or "").startswith("local"):  # the workers' disk is this machine's
        check_disk_room(disk_bytes * config.order * tokens, "counting on Spark")
    bounds = _bounds(counts, max(partitions, -(-_RANGES * tokens // run_tokens)))
    known = TokenizerParts.of(learner, grows=False, are_lines=documents.are_lines)
    work = partial(count_sections, parts=known, config=config, bounds=bounds, run_tokens=run_tokens)
    runs = documents.frame.mapInArrow(work, PARTS)
    return _Text(learner, counts, left_out, documents, runs, bounds, partitions, literals)


def _tokenizer(config: TokenizerConfig, markers: Markers) -> tuple[Tokenizer, list[bytes] | None]:
    """Return the tokenizer before it learns words, and the tokens to keep where it is a saved one that has words.

    Raises SettingError, ModelFormatError.
    """
    if config.kind in LEARNED:
        raise SettingError(
            f"{config.kind} pieces are not learned on Spark; learn them from a part of the text on one machine, as in "
            f"chainrule train uniform part.txt -o pieces/ --tokenizer {config.kind}, and take the folder as tokenizer"
        )
    saved = saved_tokenizer(config)
    learner = (saved or prepare_tokenizer(config, markers, Lines(()))).with_markers(markers)
    if saved is None or not TokenizerConfig(kind=saved.name).learns_words:
        return learner, None
    known = saved.vocabulary.tokens()[END + 1 :]
    return learner.with_vocabulary(Vocabulary(known)), known


def _limited(
    tokenizer: Tokenizer, counts: Int64[ndarray, " V"], config: TokenizerConfig, known: list[bytes] | None
) -> tuple[Tokenizer, Int64[ndarray, " kept"], Sequence[bytes]]:
    """Return the tokenizer with the tokens that are kept, their counts, and the others, which become <unk>.

    known: the tokens to keep; None to follow the configuration.
    """
    if known is None and not config.is_limited:
        return tokenizer, counts, ()
    tokens = tokenizer.vocabulary.tokens()
    if known is not None:
        kept = known
    elif config.vocabulary is not None:
        kept = listed_tokens(config.vocabulary, tokenizer.normaliser)
    else:
        kept = [tokens[i] for i in most_frequent(counts, config.min_count, config.vocabulary_size)]
    ids = np.arange(len(tokens), dtype=np.int32)
    limited = keep_tokens(kept, tokenizer, ids)  # which writes the new id of each token into `ids`
    new = np.zeros(limited.tokenizer.vocabulary_size, np.int64)
    np.add.at(new, ids, counts)
    return limited.tokenizer, new, limited.left_out


def _bounds(counts: Int64[ndarray, " V"], parts: int) -> list[int]:
    """Cut the words into at most this many ranges, which begin about equally many n-grams."""
    begins = counts.copy()
    begins[BEGIN], begins[END] = counts[END], 0
    ends = np.cumsum(begins)
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1], parts + 1)[1:-1]) + 1
    return [0, *np.unique(cuts[cuts < counts.size]).tolist(), counts.size]


def _check_memory(text: _Text, order: int, advice: str) -> None:
    """Raise EstimationError where this process, which joins the counts, has too little memory for all n-grams."""
    available = available_memory()
    tokens, documents = int(text.tokens.sum()), int(text.tokens[END])
    if available is None or _DRIVER_BYTES * order * tokens <= available:
        return  # even if all n-grams are distinct
    with explain_failures("reading a sample of the text"):
        rows = text.documents.frame.select("text").take(max(1, SAMPLE * documents // tokens))
    sample = block_of([bytes(row.text) for row in rows], are_lines=text.documents.are_lines)
    stream = text.tokenizer.encode_block(sample).ids
    ngrams = sum(expected_ngrams(stream, text.tokens.size, order).at(tokens))
    rounded = round(ngrams, 2 - len(str(ngrams)))
    check_fits(_DRIVER_BYTES * ngrams, f"joining the counts of about {rounded:,} n-grams on Spark's driver", advice)


def _joined(text: _Text, config: NGramConfig, progress: Progress) -> Counts:
    """Return the counts of a text, as the local engine has them: all ranges, one after the other. Raises TextError."""
    from chainrule.features.spark.workers import send_sections

    tokens = int(text.tokens.sum())
    size = _NGRAM_BYTES * config.order * tokens
    progress(_TASKS[1], 0, None)
    with explain_failures(_TASKS[1]):
        merged = text.runs.repartition(text.partitions, "part").sortWithinPartitions("part")
        chunks = merged.mapInArrow(send_sections, CHUNKS)
        gathered = gather_chunks(
            chunks, size, lambda size: np.empty(size, np.uint8), lambda done: progress(_TASKS[1], min(done, size), size)
        )
    sections: dict[int, Section] = {}
    for part, name in list(gathered):
        data = gathered.pop((part, name))[1].tobytes()
        if name == "error":
            raise TextError(f"{text.name}: {data.decode()}")
        sections[part] = Section.unpack(data)
    ranges = enumerate(itertools.pairwise(text.bounds))
    ordered = [sections.get(part) or Section.empty(stop - first, config.order) for part, (first, stop) in ranges]
    padding = max(1, config.order - 1) if config.begins == "all" else 1
    return join_sections(ordered, tokens * padding)


def _changed(config: TokenizerConfig) -> dict[str, Any]:
    default = TokenizerConfig()
    return {name: value for name, value in asdict(config).items() if value != getattr(default, name)}
