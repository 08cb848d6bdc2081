"""What the server does, without HTTP: methods take the bodies of requests and give plain records."""

from __future__ import annotations

import asyncio
import base64
import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.base.results import finite_figures
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.continuations import Pair, split_pairs
from chainrule.evaluation.token_scores import score_documents
from chainrule.features.reading.surprisal import words_of_texts
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.seq2seq.options import TargetBeam
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.generation.completions import (
    Answer,
    ChatAnswer,
    CompletionAnswer,
    WholeAnswer,
    answer_head,
    token_usage,
)
from chainrule.features.serve.generation.filling import MaskedGap
from chainrule.features.serve.generation.pictures import check_pixels, picture_of
from chainrule.features.serve.generation.prompts import encode_prompts, encode_text, marker_error
from chainrule.features.serve.generation.responses import ResponseAnswer
from chainrule.features.serve.generation.tokens import finite
from chainrule.features.serve.models import correction_record
from chainrule.models.language_models import CausalModel, MaskedModel
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.vocabulary import MarkerError
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.features.serve.bodies import (
        CaptionBody,
        ChatBody,
        CompleteBody,
        CompletionBody,
        CorrectBody,
        DetokenizeBody,
        EmbeddingBody,
        InfillBody,
        ResponseBody,
        ScoreBody,
        TokenizeBody,
        TranslateBody,
    )
    from chainrule.features.serve.config import ServerLimits
    from chainrule.features.serve.models import ModelTable, ServedModel
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

    Json = dict[str, Any]


def score_records(
    model: Any, encoded: Encoded, before: Int64[ndarray, " texts"], log_probs: Float64[ndarray, " texts"]
) -> list[dict[str, Any]]:
    """Return a record for each text: its log-probability in nats, tokens, bytes and bits per byte.

    before: how many tokens of each text are given, and not scored. Bits per byte are of the normalised text and include
    the spelling of unknown words, as in `evaluate`; None for other models, and for impossible texts.
    """
    ends = np.flatnonzero(encoded.ids == END)
    begins = np.append(0, ends[:-1] + 1) + before
    stops = np.append(0, model.tokenizer.align(encoded).stops)
    sizes = stops[ends + 1] - stops[begins]
    bits: list[float | None] = [None] * len(sizes)
    if isinstance(model, CausalModel):
        costs = log_probs
        if model.speller.unseen_types != 1 or np.any(encoded.ids == UNKNOWN):
            costs, _ = score_documents(model.language_model, model.speller, encoded, given=before.tolist())
        bits = [
            -cost / math.log(2) / size if math.isfinite(cost) else None
            for cost, size in zip(costs.tolist(), sizes.tolist(), strict=True)
        ]
    columns = (log_probs.tolist(), (ends + 1 - begins).tolist(), sizes.tolist(), bits)
    return [
        {"log_prob": finite(log_prob), "tokens": tokens, "bytes": size, "bits_per_byte": cost}
        for log_prob, tokens, size, cost in zip(*columns, strict=True)
    ]


_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")  # the separator of two
_SHORT = 2048  # characters of texts that a model reads at once, which other requests wait for
_INFILL_READ, _INFILL_STEP = 4096, 1024  # characters before the cursor; a cut moves by steps, so that states stay good


class Service:
    """The models of a server, and all that requests can ask of them. Methods raise ApiError."""

    def __init__(self, table: ModelTable, limits: ServerLimits) -> None:
        self.table, self.limits = table, limits

    async def models(self) -> Json:
        """Return the list of models, with the time at which their files were written, and their families, if a folder
        says it before the model is opened; of open ones, with how many tokens they read at once.
        """
        return {"object": "list", "data": [self._model(name) for name in self.table.names]}

    async def model(self, name: str) -> Json:
        served = await self.table.get(name)
        return self._model(served.name)

    def _model(self, name: str) -> Json:
        open_model = next((served for served in self.table.open_models() if served.name == name), None)
        entry: Json = {"id": name, "object": "model", "created": self.table.created(name), "owned_by": "chainrule"}
        if open_model is not None:
            return {**entry, "max_model_len": open_model.context, "family": open_model.family}
        return {**entry, "max_model_len": None, "family": self.table.saved_family(name)}

    async def complete(self, body: CompletionBody) -> Answer:
        """Return the texts after prompts, or between them and a suffix: a record, or chunks."""
        if body.suffix:
            served = await self.table.get(body.model)
            if isinstance(served.any_model, MaskedModel):
                return await self._fill_gaps(served, served.any_model, body)
        return await CompletionAnswer.of(await self.table.get(body.model, "generate"), body)

    async def _fill_gaps(self, served: ServedModel, model: MaskedModel, body: CompletionBody) -> Answer:
        """Return texts between prompts and a suffix, by a masked model."""
        gap = MaskedGap(served, model, body)
        texts = await call_in_pieces(served, gap.texts, gap.prompts, 1, is_long=True)
        entries = [{"text": text, "finish_reason": "length"} for text in texts]
        usage = token_usage(gap.prompt_tokens, gap.tokens * len(texts))
        head = answer_head(served, "cmpl", "text_completion")
        return WholeAnswer(head, entries, usage, wants_usage=body.wants_usage, is_chat=False)

    async def chat(self, body: ChatBody) -> Answer:
        """Return the answer to a conversation: a record, or chunks.

        A model that captions pictures answers with captions.
        """
        if body.pictures:
            return await self._caption_message(body)
        return await ChatAnswer.of(await self.table.get(body.model, "generate"), body)

    async def respond(self, body: ResponseBody) -> ResponseAnswer:
        """Return the answer to /v1/responses: a record, or events."""
        return await ResponseAnswer.of(body, self.chat)

    async def _caption_message(self, body: ChatBody) -> Answer:
        """Return captions of the pictures of the last message; of several, a line each. Raises ApiError."""
        served = await self._captioner(body.model)
        limit_of_answer = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        options = {} if limit_of_answer is None else {"max_tokens": limit_of_answer}
        n = body.n or 1
        written = await self._captions(served, body.pictures, {**options, "beam": max(n, TargetBeam.size)}, "messages")
        entries = []
        for several in zip(*(captions[:n] for captions in written), strict=False):
            is_cut = any(caption.ending == "length" for caption in several)
            text = "\n".join(caption.text for caption in several)
            entries.append({"text": text, "finish_reason": "length" if is_cut else "stop"})
        tokens = sum(len(caption.tokens) for captions in written for caption in captions[:n])
        head = answer_head(served, "chatcmpl", "chat.completion.chunk" if body.stream else "chat.completion")
        return WholeAnswer(head, entries, token_usage(0, tokens), wants_usage=body.wants_usage, is_chat=True)

    async def _captioner(self, name: str | None) -> ServedModel:
        """Return the model of a message with pictures. Raises ApiError."""
        try:
            served = await self.table.get(name, "caption")
            served.verb("caption")
        except ApiError as error:
            if error.code != "wrong_model":
                raise
            message = "messages: a part is a picture, and this model reads texts alone; serve one that captions"
            raise ApiError(400, message, param="messages", code="unsupported_part") from None
        return served

    async def embed(self, body: EmbeddingBody) -> Json:
        """Return a vector for each text."""
        served = await self.table.get(body.model, "embed")
        embed = served.verb("embed")
        if body.encoding_format not in (None, "float", "base64"):
            raise ApiError(400, "encoding_format: expected float or base64", param="encoding_format")
        if body.input in (None, []):
            raise ApiError(400, "input is empty; expected a text, several texts, or token ids", param="input")
        prompts = encode_prompts(body.input, served.tokenizer, self.limits.prompts, param="input")
        texts = [prompt.text for prompt in prompts]
        asked = {} if body.dimensions is None else {"dimensions": body.dimensions}

        def of_part(first: int, last: int) -> list[np.ndarray]:
            return list(embed(texts[first:last], **asked))

        try:
            vectors = await call_in_pieces(served, of_part, texts, 64)
        except (ApiError, SettingError, TypeError) as error:
            if not asked:
                raise
            message = "dimensions: this model's vectors cannot be shortened; leave dimensions out"
            raise ApiError(400, message if isinstance(error, TypeError) else str(error), param="dimensions") from None

        def encoded(vector: np.ndarray) -> Any:
            if body.encoding_format == "base64":
                return base64.b64encode(vector.astype("<f4").tobytes()).decode()
            return vector.tolist()

        tokens = sum(len(prompt.ids) for prompt in prompts)
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": i, "embedding": encoded(vector)} for i, vector in enumerate(vectors)
            ],
            "model": served.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    async def tokenize(self, body: TokenizeBody) -> Json:
        served = await self.table.get(body.model)
        ids = encode_text(body.prompt, served.tokenizer)
        return {"tokens": ids, "count": len(ids), "max_model_len": served.context}

    async def detokenize(self, body: DetokenizeBody) -> Json:
        served = await self.table.get(body.model)
        [prompt] = encode_prompts([body.tokens], served.tokenizer, 1, param="tokens") if body.tokens else [None]
        return {"prompt": "" if prompt is None else prompt.text}

    async def tokenizer_info(self) -> Json:
        """Return what lm-evaluation-harness asks before it uses /tokenize. It names no model: the first one."""
        await self.table.get(None)
        return {"eos_token": "</s>", "bos_token": "<s>", "pad_token": None, "chat_template": None}

    async def score(self, body: ScoreBody) -> Json:
        """Return log P of each text with its </s>, in nats, as `Model.score` gives it; its tokens, and the bytes of its
        normalised text, end included, and without those of what is given.

        bits_per_byte: as `evaluate` measures them, with the spelling of unknown words; null where a model fills gaps.
        words: if asked for, a record for each word, as `chainrule.surprisal` gives it.
        """
        served = await self.table.get(body.model, "score")
        continues = served.any_model if isinstance(served.any_model, CausalModel) else None
        if body.words and continues is None:
            raise ApiError(400, "words are for models that continue texts", param="words")
        asked = {name: value for name, value in body.options().items() if name not in ("given", "words")}
        if asked and not body.words:
            raise ApiError(400, "the convention is for words; set words, or leave it out", param="convention")
        if body.words and body.given is not None:
            raise ApiError(400, "words are for texts without given; leave one of the two out", param="words")
        score = served.verb("score")
        texts = self._texts(body.input)
        given = body.given
        if isinstance(given, list) and len(given) != len(texts):
            message = f"the list given has length {len(given)}, and input {len(texts)}; expected a text for each input"
            raise ApiError(400, f"{message}, or one text for all, not in a list", param="given")
        tokenizer = served.tokenizer

        def scores(first: int, last: int) -> list[Json]:
            some, before = texts[first:last], given[first:last] if isinstance(given, list) else given
            try:
                log_probs = score(some, given=before)
            except MarkerError as error:
                is_input = any(error.marker in text for text in some)
                raise marker_error(error.marker, "input" if is_input else "given") from None
            records = score_records(served.any_model, *_encoded(tokenizer, some, before), log_probs)
            if body.words and continues is not None:
                rows = finite_figures(words_of_texts(continues, some, SurprisalOptions(**asked)))
                records = [{**record, "words": own} for record, own in zip(records, rows, strict=True)]
            return records

        contexts = [given or ""] * len(texts) if not isinstance(given, list) else given
        read = [before + text for before, text in zip(contexts, texts, strict=True)]
        scored = await call_in_pieces(served, scores, read, 64)
        data = [{"index": i, **record} for i, record in enumerate(scored)]
        return {"object": "list", "data": data, "model": served.name, "system_fingerprint": served.fingerprint}

    async def complete_words(self, body: CompleteBody) -> Json:
        """Return completions of a text as it is typed, the likeliest first."""
        served = await self.table.get(body.model, "generate")
        model = served.causal
        is_long = len(body.text) > _SHORT
        completions = await call_model(served, lambda: model.complete(body.text, body.n or 5), is_long=is_long)
        return {
            "completions": [
                {"text": one.text, "added": one.added, "log_prob": finite(one.log_prob), "replaces": one.replaces}
                for one in completions
            ],
            "model": served.name,
        }

    async def infill(self, body: InfillBody) -> Json:
        """Return the likeliest completion at the cursor, as llama.cpp's editor plugins read it; `n_predict` 0 asks for
        none.

        A model of lines reads the paragraph, in one line; any other the whole text.
        """
        served = await self.table.get(body.model, "generate")
        model, text = served.causal, body.input_prefix + body.prompt
        if model.document in (None, "line"):
            text = _PARAGRAPH.split(text)[-1]
        read = text[max(0, -(-(len(text) - _INFILL_READ) // _INFILL_STEP) * _INFILL_STEP) :]
        completions = [] if body.n_predict == 0 else await call_model(served, lambda: model.complete(read, 1))
        return {"content": completions[0].added if completions else "", "stop": True, "model": served.name}

    async def translate(self, body: TranslateBody) -> Json:
        """Return what a seq2seq model writes for source texts: translations, summaries, corrections."""
        served = await self.table.get(body.model, "write")
        write = served.verb("write")
        texts, options = self._texts(body.input), self._search_options(body.options())
        if isinstance(served.any_model, Seq2SeqModel):
            write = _in_languages(served.any_model, options).write

        def written(first: int, last: int) -> list[Any]:
            return cast("list[Any]", write(texts[first:last], **options))

        results = await call_in_pieces(served, written, texts, _sources_at_once(options), is_long=True)
        return _written_record(served, results)

    async def caption(self, body: CaptionBody) -> Json:
        """Return captions of pictures."""
        served = await self.table.get(body.model, "caption")
        return _written_record(served, await self._captions(served, self._texts(body.input), body.options(), "input"))

    async def _captions(self, served: ServedModel, files: list[str], given: Json, param: str) -> list[Any]:
        """Return captions of each picture, the best first.

        given: options of the request. param: the field of the pictures. Raises ApiError.
        """
        caption, options, most_pixels = served.verb("caption"), self._search_options(given), self.limits.picture_pixels
        await asyncio.to_thread(check_pixels, files, self.limits.request_pixels, param)

        def captions(first: int, last: int) -> list[Any]:
            pictures = [picture_of(files[i], i, most_pixels, param) for i in range(first, last)]
            return cast("list[Any]", caption(pictures, **options))

        return await call_in_pieces(served, captions, files, _sources_at_once(options), is_long=True)

    async def correct(self, body: CorrectBody) -> Json:
        """Return texts with their errors corrected, and each change with its position and probability."""
        served = await self.table.get(body.model, "generate")
        texts, corrections = self._texts(body.input), served.corrections

        def corrected(first: int, last: int) -> list[Any]:
            return corrections.correct(texts[first:last], body)

        results = await call_in_pieces(served, corrected, texts, 16)
        data = [correction_record(i, one) for i, one in enumerate(results)]
        return {"object": "list", "data": data, "model": served.name, "system_fingerprint": served.fingerprint}

    def _search_options(self, options: Json) -> Json:
        """Return what a request asks of a search, within the limits. Raises ApiError."""
        if (max_tokens := options.get("max_tokens", 0)) > self.limits.max_tokens:
            message = f"max_tokens is {max_tokens:,}; expected at most {self.limits.max_tokens:,}"
            raise ApiError(400, message, param="max_tokens")
        return options | {"beam": TargetBeam(size=options.get("beam", TargetBeam.size))}

    def _texts(self, value: str | list[str]) -> list[str]:
        """Return the texts of `input`, of which there may be one alone. Raises ApiError if there are none, or too
        many.
        """
        texts = [value] if isinstance(value, str) else value
        if not texts:
            raise ApiError(400, "input is an empty list; expected a text, or a list of texts", param="input")
        if len(texts) > self.limits.prompts:
            raise ApiError(
                400, f"input has {len(texts):,} texts; expected at most {self.limits.prompts:,}", param="input"
            )
        return texts


def _in_languages(model: Seq2SeqModel, options: dict[str, Any]) -> Seq2SeqModel:
    """Return the model in the languages that the options of a request name, which are taken out of them.

    Raises ApiError.
    """
    for side in ("source", "target"):
        language = options.pop(f"{side}_language", None)
        try:
            model = model if language is None else model.with_languages(**{side: language})
        except SettingError as error:
            raise ApiError(400, str(error), param=f"{side}_language") from None
    if model.needs_language:
        raise ApiError(400, "the model writes several languages; choose one by its token", param="target_language")
    return model


def _encoded(
    tokenizer: Tokenizer, texts: list[str], given: str | list[str] | None
) -> tuple[Encoded, Int64[ndarray, " texts"]]:
    """Return texts as documents, and how many tokens of each are given: a text may begin within a word."""
    if given is None:
        return tokenizer.encode_texts(texts), np.zeros(len(texts), np.int64)
    contexts = [given] * len(texts) if isinstance(given, str) else given
    encoded, before = split_pairs(list(map(Pair, contexts, texts)), tokenizer)
    return encoded, np.array(before, np.int64)


def _sources_at_once(options: dict[str, Any]) -> int:
    """Return how many sources to search at once: as many as have 128 hypotheses together, which bounds their memory."""
    size: int = options["beam"].size
    return 128 // size


def _written_record(served: ServedModel, written: list[Any]) -> Json:
    """Return the texts that a model wrote for each source or picture, the best first."""
    data = [
        {"index": i, "texts": [{"text": one.text, "log_prob": finite(one.log_prob)} for one in of_source]}
        for i, of_source in enumerate(written)
    ]
    return {"data": data, "model": served.name, "system_fingerprint": served.fingerprint}


async def call_in_pieces(
    served: ServedModel,
    function: Callable[[int, int], list[Any]],
    inputs: Sequence[str],
    at_once: int,
    *,
    is_long: bool = False,
) -> list[Any]:
    """Call a function of `first` and `last` for some of the inputs at a time; other requests take turns in between.

    is_long: whether short inputs, too, take long. Raises as `call_model`.
    """
    results: list[Any] = []
    for first in range(0, len(inputs), at_once):
        some = inputs[first : first + at_once]
        call = partial(function, first, first + len(some))
        results += await call_model(served, call, is_long=is_long or sum(map(len, some)) > _SHORT)
    return results


async def call_model(
    served: ServedModel, function: Callable[[], Any], *, param: str = "input", is_long: bool = False
) -> Any:
    """Call a function, as `ServedModel.call` does. Raises ApiError with the field `param` where the request is
    wrong.
    """
    try:
        return await served.call(function, is_long=is_long)
    except MarkerError as error:
        raise marker_error(error.marker, param) from None
    except (SettingError, TextError) as error:
        raise ApiError(400, str(error), param=param) from None
