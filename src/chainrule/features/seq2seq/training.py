"""Trains seq2seq models on pairs of texts (`train_pairs`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.options import takes
from chainrule.errors import SettingError, TextError
from chainrule.features.seq2seq.generation import with_sentence_end
from chainrule.features.seq2seq.model import FAMILY, Seq2SeqModel
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.train_options import TrainPairsOptions
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.progress_line import showing
from chainrule.models.run import record_header, seconds_since, training_run
from chainrule.protocol import UNKNOWN
from chainrule.text.parallel import Pairs, ParallelSource, Shortened, shorten
from chainrule.text.tokenization.config import as_config
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.training.config import TrainingConfig
from chainrule.verbs.training.example import pair_record
from chainrule.verbs.training.stream import check_fixed, initial_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.seq2seq.objective import TokenPairs
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Rows = Sequence[Int32[ndarray, " tokens"]]


@takes(TrainPairsOptions)
def train_pairs(options: TrainPairsOptions) -> Seq2SeqModel:
    """Train a model of targets given sources.

    tokenizer: of both sides, learned from both; of targets alone if source_tokenizer is given, too. validation: pairs
    to choose the best weights by; by default, the last pairs. vectors, source_vectors: word vectors that the token
    vectors of targets and of sources start from; fixed_vectors: whether those are never updated. Pairs whose source is
    longer than the model reads are left out, unless `long_sources` of the configuration shortens them. The other
    arguments, and the errors, are those of `train`.

    good:  model = train_pairs(parallel("train.de", "train.en"), tokenizer="bpe", folder="mt/")
           model.save("mt/")
    """
    with showing(options.progress) as progress:
        return _train(options, progress)


def _train(options: TrainPairsOptions, progress: Progress) -> Seq2SeqModel:
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.features.seq2seq.objective import SideVectors, pairs_job
    from chainrule.training.run import run_job

    pairs, validation = options.pairs, options.validation
    run = training_run(options, progress)
    config, training = options.config or Seq2SeqConfig(), options.training or TrainingConfig()
    check_fixed(options.vectors, options.source_vectors, fixed=options.fixed_vectors)
    if not isinstance(pairs, Pairs):
        raise TypeError(f"train_pairs takes Pairs, not {type(pairs).__name__}; use Pairs(sources, targets) or parallel")
    start_time = time.perf_counter()
    source, target, sources, targets = _encode(options, progress)
    is_joint = source is target or source.vocabulary.tokens() == target.vocabulary.tokens()
    if config.shared in ("all", "inputs") and not is_joint:
        raise SettingError(
            f"source and target cannot share vectors: their vocabularies, of {source.vocabulary_size:,} and "
            f"{target.vocabulary_size:,} tokens, differ; leave source_tokenizer out, or set shared='target'"
        )
    config = with_sentence_end(config, target)

    def encode(texts: list[str]) -> list[Int32[ndarray, " tokens"]]:
        return documents_of(source.encode_texts(texts).ids)

    def shortened(texts: Sequence[str], rows: Rows) -> Shortened:
        return shorten(texts, rows, config.max_source - 1, config.long_sources, encode)

    sources, cut = shortened(pairs.sources, sources)
    learned, held = _drop_long(sources, targets, config), None
    too_long = len(sources) - len(learned.sources)
    if validation is not None:
        sides = zip((source, target), validation.sides(), strict=True)
        held_rows = [documents_of(own.encode_block(block).ids) for own, side in sides for block in side.blocks()]
        held_sources = shortened(validation.sources, held_rows[0]).rows
        held = _drop_long(held_sources, held_rows[1], config).first(training.valid_tokens)
    elif training.valid_share:
        learned, held = _split_off_validation(learned, training)
    origin = {"family": FAMILY, "tokenizer": target.name, "source_tokenizer": source.name}
    sizes = (source.vocabulary_size, target.vocabulary_size)
    initial = SideVectors(
        *(
            initial_vectors(name, side.vocabulary.tokens(), progress, fixed=options.fixed_vectors)
            for side, name in ((source, options.source_vectors), (target, options.vectors))
        )
    )
    vectors_used = {
        name: one.name for name, one in zip(("source_vectors", "vectors"), initial, strict=True) if one is not None
    }
    network, run_record = run_job(
        pairs_job(learned, held, sizes, config, training, {**origin, **vectors_used}, initial), run
    )
    record = {
        **record_header(FAMILY, config),
        "seconds": seconds_since(start_time, run_record),
        **pairs.record,
        **vectors_used,
        "too_long": too_long,
        **({"shortened": cut} if cut else {}),
        "documents": len(learned.targets),
        "tokens": learned.predicted(),
        "unknown_tokens": sum(int(np.count_nonzero(row == UNKNOWN)) for side in learned for row in side),
        **run_record,
        **pair_record(zip((source, target), (held or learned), strict=True), is_held_out=held is not None),
    }
    return Seq2SeqModel(NeuralSeq2SeqModel(network), source, target, record)


class _Encoded(NamedTuple):
    """Both tokenizers, which may be the same one, and the ids of both sides."""

    source: Tokenizer
    target: Tokenizer
    sources: Rows
    targets: Rows


def _encode(options: TrainPairsOptions, progress: Progress) -> _Encoded:
    """Learn or open the tokenizers, and encode both sides. Raises as `tokenized`."""
    sides, tokenizer, markers = options.pairs.sides(), as_config(options.tokenizer), options.markers
    if options.source_tokenizer is None:
        both = tokenize_source(ParallelSource(*sides), tokenizer, markers, progress=progress)
        rows = documents_of(both.stream)
        return _Encoded(both.tokenizer, both.tokenizer, rows[: len(options.pairs)], rows[len(options.pairs) :])
    first = tokenize_source(sides[0], as_config(options.source_tokenizer), markers, progress=progress)
    second = tokenize_source(sides[1], tokenizer, markers, progress=progress)
    return _Encoded(first.tokenizer, second.tokenizer, documents_of(first.stream), documents_of(second.stream))


def _drop_long(sources: Rows, targets: Rows, config: Seq2SeqConfig) -> TokenPairs:
    """Return the pairs whose source is not too long. Raises TextError if there are none."""
    from chainrule.features.seq2seq.objective import TokenPairs

    fits = [i for i, row in enumerate(sources) if row.size < config.max_source]
    if not fits:
        raise TextError(f"every source is longer than {config.max_source - 1:,} tokens; raise max_source")
    return TokenPairs([sources[i] for i in fits], [targets[i] for i in fits])


def _split_off_validation(pairs: TokenPairs, training: TrainingConfig) -> tuple[TokenPairs, TokenPairs]:
    """Split off the last pairs for validation. Raises TextError if either part would be empty."""
    from chainrule.features.seq2seq.objective import TokenPairs

    cut = len(pairs.targets) - int(training.valid_share * len(pairs.targets))
    last_first = TokenPairs(pairs.sources[cut:][::-1], pairs.targets[cut:][::-1])
    kept = last_first.first(training.valid_tokens)
    cut = len(pairs.targets) - len(kept.targets)
    if not 0 < cut < len(pairs.targets):
        raise TextError(
            f"the last {training.valid_share:g} of {len(pairs.targets):,} pairs leaves nothing to train or validate "
            "on; give pairs for it (validation=...), more pairs, or valid_share=0"
        )
    return TokenPairs(pairs.sources[:cut], pairs.targets[:cut]), TokenPairs(pairs.sources[cut:], pairs.targets[cut:])
