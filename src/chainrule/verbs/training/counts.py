"""Files of n-gram counts: counts a text, and trains a model on counts."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

from chainrule.base.memory import Owned, as_bytes
from chainrule.base.options import takes
from chainrule.errors import SettingError, TextError
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.language_models import CausalModel
from chainrule.models.progress_line import showing
from chainrule.models.run import check_ids_room, ids_file, may_exceed_memory, record_header
from chainrule.ngram.config import NGramConfig, check_tunable, ignore_plan
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.build import splitter_of
from chainrule.text.tokenization.config import as_config
from chainrule.text.tokenization.splitters import Normaliser, splitter_marked_in, unreachable_token
from chainrule.text.tokenization.tokenizer import Tokenizer, encode_stream
from chainrule.text.tokenization.vocabulary import Vocabulary
from chainrule.verbs.training.options import CountOptions, TrainCountsOptions
from chainrule.verbs.training.stream import speller_of_counts

if TYPE_CHECKING:
    from typing import Any

    from chainrule.base.progress import Progress


@takes(CountOptions)
def count_text(options: CountOptions) -> dict[str, Any]:
    """Writes the counts of all n-grams of a text to a file, one a line, compressed if its name says so.

    memory, on_plan: as for `chainrule.train`. Returns the totals. Raises TextError, EstimationError, SettingError,
    OutputError.
    """
    with showing(options.progress) as progress:
        return _count(options, progress)


def _count(options: CountOptions, progress: Progress) -> dict[str, Any]:
    from chainrule.ngram.counting.files import write_counts_file
    from chainrule.ngram.training import count_within

    source, limit = source_of(options.source), as_bytes("memory", options.memory)
    config = NGramConfig(order=options.order)
    on_disk = limit is not None or may_exceed_memory(source, FAMILIES["ngram"].token_bytes)
    with ids_file(None) if on_disk else nullcontext() as file:
        learner, stream, *_ = tokenize_source(
            source, options.tokenizer, options.markers, progress, check_ids_room if on_disk else None, file
        )
    owned = Owned(stream)
    del stream
    on_plan = options.on_plan or ignore_plan
    counts = count_within(owned, learner.vocabulary_size, config, limit, progress, on_plan=on_plan)
    lines = write_counts_file(options.path, counts, learner.vocabulary, progress)
    unigrams = counts.counts[counts.level(1)]
    return {
        "ngrams": [own - int(order == 1 and unigrams[UNKNOWN] == 0) for order, own in enumerate(counts.level_sizes, 1)],
        "lines": lines,
        "tokens": int(unigrams.sum() - unigrams[END]),
        "documents": int(unigrams[END]),
        **source.record,
    }


@takes(TrainCountsOptions)
def train_counts(options: TrainCountsOptions) -> CausalModel:
    """Trains an n-gram model on the sum of count files, of `count_text`, SRILM or Google.

    config: the files must have its order. tokenizer: that of the counted text; by default as the marks in the words
    show. tune: as for `chainrule.train`. Raises TextError, SettingError, EstimationError.
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainCountsOptions, progress: Progress) -> CausalModel:
    from chainrule.ngram.counting.files import locate_ngram, read_counts
    from chainrule.ngram.training import model_of_counts

    config, tune = options.config or NGramConfig(), None
    if options.tune is not None:
        check_tunable(config)
        tune = source_of(options.tune)
    if config.begins == "all" and config.order > 2:
        raise SettingError("counts have one <s> per document; a model with begins='all' needs the text itself")
    began = time.perf_counter()
    wanted = None if options.tokenizer is None else as_config(options.tokenizer)
    if wanted is not None and wanted.is_limited:
        raise SettingError("counts have a fixed vocabulary; limit it when you count the text")
    splitter = None if wanted is None else splitter_of(os.fspath(wanted.kind))
    known = Vocabulary(() if splitter is None else splitter.alphabet)
    names = [os.fspath(file) for file in options.files]
    counts, vocabulary, digests = read_counts(names, config.order, progress, known)
    if splitter is not None and (token := unreachable_token(splitter, vocabulary.tokens())) is not None:
        raise TextError(
            f"{locate_ngram([token], names)}: {token.decode(errors='replace')!r} is not a token of the {splitter.name} "
            "tokenizer, so no text would ever match it; name the tokenizer of the counted text"
        )
    normaliser = Normaliser(() if wanted is None else wanted.normalise)
    learner = Tokenizer(splitter or splitter_marked_in(vocabulary.tokens()), vocabulary, normaliser=normaliser)
    heldout = None if tune is None else encode_stream(learner, tune, progress)
    language_model, learned = model_of_counts(counts, config, progress, heldout)
    unigrams = counts.counts[counts.level(1)]
    # The files do not tell a literal <unk> of the text from words that the vocabulary left out: half for each.
    speller = speller_of_counts(learner, unigrams, config, literals=unigrams[UNKNOWN] / 2)
    record = {
        **record_header("ngram", config),
        "seconds": time.perf_counter() - began,
        "tokenizer": {"kind": learner.name} if wanted is None else asdict(wanted),
        "data": digests,
        "documents": int(unigrams[END]),
        "tokens": int(unigrams.sum() - unigrams[END]),
        "unknown_tokens": int(unigrams[UNKNOWN]),
        "unseen_types": speller.unseen_types,
        **learned,
    }
    if tune is not None:
        record["tuned_on"] = tune.record["data"]
    return CausalModel("ngram", language_model, learner, record, speller)
