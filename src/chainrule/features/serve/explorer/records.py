"""What the explorer shows of a model and a text, as records: next tokens, surprisals, back-off chains.

    next_words      the next token after a text: probabilities, what settings cut, where each probability comes from
    surprisals      of a text, unit by unit, with the sums that `score` and `evaluate` give
    backoff_chain   why an n-gram model gives a token its probability: contexts from the longest to none, with
                    back-offs and counts

The model is one of single texts, or one of texts given a source or a picture.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.distributions import top_of
from chainrule.base.results import finite
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import GrowingText
from chainrule.decoding.next_token import History, Rules, normalise, warped_candidates
from chainrule.errors import ChainruleError, SettingError
from chainrule.evaluation.surprisal import read_block, word_figures
from chainrule.features.corpus.detection import rank_texts
from chainrule.features.neighbours.passages import components_of, passages_of
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.serve.explorer.counts import counts_from_shares
from chainrule.features.serve.explorer.example import example_of, message_of
from chainrule.features.side_by_side.next_tokens import predict, side_by_side
from chainrule.features.vision.model import CaptionModel
from chainrule.mixture.adaptive import AdaptiveMixture
from chainrule.mixture.interpolation import LinearMixture, LogLinearMixture
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel, CausalNetwork, MaskedModel
from chainrule.models.model import Model
from chainrule.ngram.config import BACKING_OFF
from chainrule.ngram.models.padded_model import PaddedModel
from chainrule.ngram.models.table_models import TrieModel
from chainrule.protocol import BEGIN, UNKNOWN
from chainrule.text.corpus.block import block_of_texts
from chainrule.text.tokenization.tokenizer import show_unseen
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS
from chainrule.verbs.scored_texts import documents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.evaluation.surprisal import By
    from chainrule.features.side_by_side.next_tokens import Prediction
    from chainrule.features.vision.pictures.picture import Picture
    from chainrule.ngram.models.table_models import BackoffStep
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]
    Tokens = Int32[ndarray, " tokens"]

LONGEST = 20_000  # characters of a text; the records say how much is left out


def describe(model: object) -> Json:
    """Return what the views must know of a model: whether it needs a source or picture; whether it fills gaps; whether
    it can chat, and what with, see `message_of`; and its example, see `example_of`.
    """
    given = "source" if isinstance(model, Seq2SeqModel) else "picture" if isinstance(model, CaptionModel) else None
    fills = isinstance(model, Model) and model.is_bidirectional
    return {"given": given, "fills": fills, **_chat(model), "example": example_of(model)}


def text_model(model: object, given: str | None, picture: Picture | None) -> Model:
    """Return a model of single texts: a seq2seq model is given a source for this, a captioner a picture.

    Raises SettingError, TextError, MarkerError.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, Seq2SeqModel):
        return model.given(given or "")
    if isinstance(model, CaptionModel):
        return model.given(chosen(picture))
    raise SettingError("this model reads no texts; expected one that continues or fills them")


def chosen(picture: Picture | None) -> Picture:
    """Return the picture, if there is one. Raises SettingError."""
    if picture is None:
        raise SettingError("this model describes pictures; choose one first")
    return picture


def _chat(model: object) -> Json:
    """Return whether a model can chat, and a first message in its language, null where its folder has none."""
    if not isinstance(model, CausalModel):
        return {"chats": False}
    try:
        return {"chats": True, "message": message_of(model, model.chat_model.format.template)}
    except ChainruleError:
        return {"chats": False}


_RANKED = 1000  # characters of a text whose tokens are ranked, which needs the whole distribution at each
_LIKELIER = 10  # tokens named of each rank


def surprisals(model: Model, text: str, by: By = "tokens") -> Json:
    """Return the surprisal of each unit of a text, its end last, and its sum.

    Of a text longer than `LONGEST`, the beginning is read. `shown` is a unit as people read it, `is_part` whether it
    begins or ends inside a character. Log-probabilities are in nats, spelling of unknown words included in
    `text_log_prob`. Of short texts, tokens have a `rank`: how many were likelier, plus one; and words a
    `whole_log_prob`, with the end of the word in place of that of the word before it, see `word_figures`. Raises
    SettingError, MarkerError.
    """
    continues = check_kind(model, CausalModel)
    read = text[:LONGEST]
    block = block_of_texts([read], "the text")
    pays_for_ends = by == "words" and len(read) <= _RANKED and continues.is_distribution
    contexts = read_block(continues.language_model, continues.tokenizer, block) if pays_for_ends else None
    [document] = documents(continues, block, by, contexts)
    record, name = document.as_json(by), by.removesuffix("s")
    units = [{"text": unit.pop(name), **unit} for unit in record.pop(f"{name}_scores")]
    written = record["normalised"].encode("utf-8", "replace")
    for unit, own in zip(units, _shown_units(continues.tokenizer, units, by), strict=True):
        is_part = not _is_utf8(written[unit["start_byte"] : unit["stop_byte"]])
        unit |= {"shown": own, "is_part": is_part}
    if by == "tokens" and len(read) <= _RANKED and document.tokens > 1 and continues.is_distribution:
        ranked = rank_texts(continues.language_model, continues.tokenizer, [read], likelier=_LIKELIER)[0]
        for unit, rank, likelier in zip(units, ranked.ranks.tolist(), ranked.likelier, strict=False):
            unit |= {"rank": rank, "likelier": likelier}
    if pays_for_ends:
        [figures] = word_figures(
            continues.language_model, continues.tokenizer, continues.speller.unseen_types, block, contexts
        )
        assert figures.text_corrections is not None
        for unit, correction in zip(units, figures.text_corrections.tolist(), strict=True):
            log_prob = unit["text_log_prob"]
            unit["whole_log_prob"] = None if log_prob is None else log_prob + correction
    size = len(document.normalised.encode("utf-8", "replace")) + 1
    total = record["text_log_prob"]
    return {
        "by": by,
        "units": units,
        "normalised": record["normalised"],
        "log_prob": record["log_prob"],
        "text_log_prob": total,
        "tokens": record["tokens"],
        "oov": record["oov"],
        "bytes": size,
        "bits_per_byte": None if total is None else -total / size / math.log(2),
        "left_out": len(text) - len(read),
    }


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown_units(tokenizer: Tokenizer, units: list[Json], by: By) -> list[str]:
    """Return units as people read them."""
    if by == "bytes":  # those that are no character are written as \\xe2
        return [
            show_unseen(re.sub(r"^\\x(..)$", lambda match: f"<{match[1].upper()}>", unit["text"])) for unit in units
        ]
    if by == "tokens":
        return tokenizer.read_tokens([unit["text"].encode() for unit in units])
    return [show_unseen(unit["text"]) for unit in units]


_MOST = 2000  # different tokens after a context whose counts are worked out


def backoff_chain(model: CausalModel, state: Any, ids: Tokens, best: Tokens) -> Json:
    """Return, for an n-gram table, what it has after each context, the longest first; nothing for other models.

    ids: the text, which `state` has read. Of each of the best tokens, log_probs and counts are null where it is not
    among those after a context. counts, and total, their sum over all tokens, are null where they cannot be worked out
    from the probabilities: a table keeps none. counted: occurrences, or contexts, the different tokens before.
    """
    engine = model.engine
    if not isinstance(engine, TrieModel | PaddedModel):
        return {}
    context = shown_tokens(model.tokenizer, np.concatenate([[BEGIN], ids[-engine.order :]]).astype(np.int32))
    if len(ids) > engine.order:
        context = context[1:]
    smoothing = model.record.get("settings", {}).get("smoothing")
    discounts = {entry["order"]: entry["values"] for entry in model.record.get("discounts", [])}
    steps = []
    for step in engine.backoff_chain(state, best):
        if step.context_length > len(context):
            continue
        own = context[len(context) - step.context_length :]
        total, counts = _counts(engine, state, step, best, discounts, smoothing)
        is_raw = step.context_length + 1 == engine.order or own[:1] == ["<s>"] or "kneser-ney" not in (smoothing or "")
        steps.append(
            {
                "context": own,
                "continuations": step.continuations,
                "log_backoff": finite(step.log_backoff),
                "log_probs": [finite(log_prob) for log_prob in step.log_probs.tolist()],
                "counts": counts,
                "total": total,
                "counted": "occurrences" if is_raw else "contexts",
            }
        )
    return {
        "order": engine.order,
        "smoothing": smoothing,
        "discounts": {str(order): values for order, values in discounts.items()},
        "backoff": steps,
    }


def shown_tokens(tokenizer: Tokenizer, ids: Tokens) -> list[str]:
    """Return the tokens as they are shown, <s> among them."""
    return ["<s>" if token == BEGIN else shown for token, shown in zip(ids, tokenizer.shown(ids.tolist()), strict=True)]


def _counts(
    engine: TrieModel | PaddedModel,
    state: Any,
    step: BackoffStep,
    best: Tokens,
    discounts: dict[int, list[float]],
    smoothing: str | None,
) -> tuple[int | None, list[int | None]]:
    """Return the sum of the counts after a context, and those of the best tokens; None where they are unknown."""
    unknown: list[int | None] = [None] * len(best)
    values = discounts.get(step.context_length + 1)
    if not values or not step.context_length or not 0 < (step.continuations or 0) <= _MOST:
        return None, unknown
    tokens, log_probs, lower = engine.continuations(state, step.context_length)
    shares = np.exp(log_probs.astype(np.float64))
    if smoothing not in BACKING_OFF:
        shares -= np.exp(step.log_backoff + lower.astype(np.float64))
    counts = counts_from_shares(shares, values)
    if counts is None:
        return None, unknown
    by_token = dict(zip(tokens.tolist(), counts.tolist(), strict=True))
    return int(counts.sum()), [by_token.get(token) for token in best.tolist()]


_GUESSES = 5  # tokens named of each layer
_CONTEXT = 8  # tokens named of the text
_PASSAGES = 10


def next_words(model: Model, text: str, top: int = 20, sampling: SamplingConfig | None = None) -> Json:
    """Return the likeliest next tokens after a text, or, for a bidirectional model, the tokens that fill its gaps.

    Of each token: `shown`, as people read it; its probability, as `CausalModel.next` gives it; `drawn`, the probability
    after the settings, 0 where they cut it; and `added`, the text that it appends, null for a token that is never
    generated. context: the last tokens of the text; tokens_before: how many come before these. Log-probabilities are in
    nats. Of a text longer than `LONGEST`, the end is read. Raises SettingError, MarkerError.
    """
    check_least("top", top, 1)
    read = text[-LONGEST:]
    left_out = {"left_out": len(text) - len(read)}
    if model.is_bidirectional:
        gaps = check_kind(model, MaskedModel).fill(read, top)
        named = [_named_gap(model.tokenizer, gap) for gap in gaps]
        return {"kind": "gaps", "gaps": named, **left_out}
    return _continuations(check_kind(model, CausalModel), read, top, sampling or SamplingConfig()) | left_out


def _named_gap(tokenizer: Tokenizer, gap: list[tuple[str, float]]) -> list[Json]:
    shown = tokenizer.read_tokens([token.encode() for token, _ in gap])
    return [{"token": token, "shown": own, "prob": prob} for (token, prob), own in zip(gap, shown, strict=True)]


def predict_next(model: Model, text: str, top: int) -> Prediction:
    """Return what a model expects after a text, for `beside`. Raises SettingError, MarkerError."""
    return predict(check_kind(model, CausalModel), text[-LONGEST:], top)


def beside(predictions: Mapping[str, Prediction], text: str) -> Json:
    """Return the likeliest next tokens of several models, see `next_tokens`, and the entropy of each, in nats.

    Of each token: `shown` and `added`, as in `next_words`, and its probabilities, null where a model does not know it.
    text: what the models have read. Raises SettingError.
    """
    table, [first, *_] = side_by_side(predictions), predictions.values()
    ids = first.tokenizer.encode_texts([text[-LONGEST:]]).ids[:-1]
    added = _texts_added(first.tokenizer, ids, [row.token for row in table.rows], text)
    return {
        "kind": "beside",
        "names": list(table.names),
        "entropies": [prediction.entropy for prediction in predictions.values()],
        "tokens": [
            {"token": row.token.decode(errors="replace"), "shown": row.shown, "added": own, "probs": list(row.probs)}
            for row, own in zip(table.rows, added, strict=True)
        ],
        "left_out": max(0, len(text) - LONGEST),
    }


def completions(model: Model, text: str, top: int = 20) -> Json:
    """Return the likeliest whole words, as `CausalModel.complete` gives them. Raises as `next_words`."""
    read = text[-LONGEST:]
    words = [
        {"text": word.text, "added": word.added, "log_prob": word.log_prob, "prob": math.exp(word.log_prob)}
        for word in check_kind(model, CausalModel).complete(read, top)
    ]
    return {"kind": "words", "words": words, "left_out": len(text) - len(read)}


def _continuations(model: CausalModel, text: str, top: int, sampling: SamplingConfig) -> Json:
    engine, tokenizer = model.language_model, model.tokenizer
    ids = tokenizer.encode_texts([text]).ids[:-1]
    state = engine.start([ids])
    log_probs = engine.next_log_probs(state)[0].astype(np.float64)
    best_log_probs, best = (column[0] for column in engine.top(state, top))
    best = best[np.isfinite(best_log_probs)]
    warped = warped_candidates(engine, state, Rules(banned=(UNKNOWN,), config=sampling), [History(ids.tolist())])
    drawn = np.zeros(engine.vocabulary_size)
    drawn[warped.tokens[0]] = np.exp(normalise(warped.weights)[0])
    probs = np.exp(log_probs)
    is_possible = probs > 0
    may_come = is_possible & (np.arange(probs.size) != UNKNOWN)
    added = _texts_added(tokenizer, ids, [tokenizer.vocabulary.token_bytes(token) for token in best.tolist()], text)
    columns = zip(best.tolist(), tokenizer.shown(best.tolist()), added, strict=True)
    return {
        "kind": "next",
        "context": shown_tokens(tokenizer, ids[-_CONTEXT:]),
        "tokens_before": max(0, len(ids) - _CONTEXT),
        "possible": int(np.count_nonzero(may_come)),
        "is_distribution": model.is_distribution,
        "entropy": float(-(probs[is_possible] * log_probs[is_possible]).sum()),
        "kept": int(np.count_nonzero(drawn)),
        "cut_prob": float(probs[may_come & (drawn == 0)].sum()),
        "tokens": [
            {
                "token": tokenizer.vocabulary.token(token),
                "shown": shown,
                "added": own,
                "prob": math.exp(log_probs[token]),
                "log_prob": float(log_probs[token]),
                "drawn": float(drawn[token]),
            }
            for token, shown, own in columns
        ],
        **backoff_chain(model, state, ids, best),
        **_components(model, state, best),
        **_layers(model, ids, best),
        **_passages(model, state),
    }


def _passages(model: CausalModel, state: Any) -> Json:
    """Return, for a model with neighbours, the passages that count most, and the weight of all of them."""
    found = passages_of(model, state, _PASSAGES)
    return {} if found is None else {"passages": found.to_records(), "passages_weight": found.counted}


def _texts_added(tokenizer: Tokenizer, ids: Tokens, tokens: list[bytes], text: str) -> list[str | None]:
    """Return what each token appends to the text as it was typed."""
    vocabulary = tokenizer.vocabulary
    before = [vocabulary.token_bytes(int(token)) for token in ids[-1:]]
    # White space at the end of the text that the tokenizer drops is the one that it puts before the next word.
    is_spaced = text[-1:].isspace() and not tokenizer.decode(ids.tolist())[-1:].isspace()
    added: list[str | None] = []
    for token in tokens:
        if token.decode(errors="replace") in MARKER_TOKENS:
            added.append(None)
            continue
        growing = GrowingText(tokenizer.restore, before)
        own = growing.add(token) + growing.rest()
        added.append(own.lstrip() if is_spaced else own)
    return added


def _components(model: CausalModel, state: Any, best: Tokens) -> Json:
    """Return, for a mixture, the name and the weight of each component, and the probabilities that it gives.

    A network with neighbours is a linear mixture of itself and these.
    """
    engine = model.language_model
    if (own := components_of(engine, state, best)) is not None:
        return {"mixture": "linear", "components": own}
    if not isinstance(engine, LinearMixture | LogLinearMixture | AdaptiveMixture):
        return {}
    weights = engine.weights_of(state)[0]
    rows = engine.components.rows(state)
    named = [one["name"] for one in model.record.get("models", [])]
    names = named if len(named) == len(rows) else engine.components.families
    return {
        "mixture": engine.kind,
        "components": [
            {"name": name, "weight": weight, "probs": np.exp(row[0, best].astype(np.float64)).tolist()}
            for name, weight, row in zip(names, weights.tolist(), rows, strict=True)
        ],
    }


def _layers(model: CausalModel, ids: Tokens, best: Tokens) -> Json:
    """Return, for a network of several layers, the token that each would predict, and its probabilities of the best
    tokens.
    """
    if not isinstance(model, CausalNetwork):
        return {}
    from chainrule.neural.language_model import NeuralModel

    if not isinstance(model.engine, NeuralModel):
        return {}
    layers = model.engine.layer_log_probs(ids)
    if len(layers) < 2:
        return {}
    return {"layers": [_layer(model.tokenizer, layer, log_probs, best) for layer, log_probs in layers.items()]}


def _layer(tokenizer: Tokenizer, layer: int, log_probs: Float32[ndarray, " V"], best: Tokens) -> Json:
    [own_log_probs], [own] = top_of(log_probs[None], _GUESSES)
    shown = tokenizer.shown(own.tolist())
    return {
        "layer": layer,
        "guesses": [
            {"shown": token, "prob": math.exp(log_prob)}
            for token, log_prob in zip(shown, own_log_probs.tolist(), strict=True)
        ],
        "probs": np.exp(log_probs[best].astype(np.float64)).tolist(),
    }
