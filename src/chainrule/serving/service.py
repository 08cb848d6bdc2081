"""What the server does, without HTTP: methods take the bodies of requests and give plain records."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from chainrule.decoding.beam_config import BeamConfig
from chainrule.errors import SettingError, TextError
from chainrule.serving.api_error import ApiError
from chainrule.serving.chat import ChatAnswer
from chainrule.serving.completions import CompletionAnswer
from chainrule.serving.prompts import encode_prompts, encode_text
from chainrule.serving.token_names import finite

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from chainrule.serving.limits import ServerLimits
    from chainrule.serving.model_table import ModelTable
    from chainrule.serving.requests import (
        ChatBody,
        CompleteBody,
        CompletionBody,
        DetokenizeBody,
        EmbeddingBody,
        ScoreBody,
        TokenizeBody,
        TranslateBody,
    )
    from chainrule.serving.served_model import ServedModel

    Json = dict[str, Any]


class Service:
    """The models of a server, and all that requests can ask of them. Methods raise ApiError."""

    def __init__(self, table: ModelTable, limits: ServerLimits) -> None:
        self.table, self.limits = table, limits

    async def models(self) -> Json:
        """The list of models; those that are open say how much they read at once."""
        return {"object": "list", "data": [self._model(name) for name in self.table.names]}

    async def model(self, name: str) -> Json:
        served = await self.table.get(name)
        return self._model(served.name)

    def _model(self, name: str) -> Json:
        open_model = next((served for served in self.table.open_models() if served.name == name), None)
        entry: Json = {"id": name, "object": "model", "created": 0, "owned_by": "chainrule", "max_model_len": None}
        if open_model is not None:
            entry |= {"created": open_model.created, "max_model_len": open_model.context}
            entry["family"] = getattr(open_model.any_model, "family", "pairs")
        return entry

    async def complete(self, body: CompletionBody) -> CompletionAnswer:
        """The texts after prompts: a record, or chunks."""
        return CompletionAnswer(await self.table.get(body.model), body)

    async def chat(self, body: ChatBody) -> ChatAnswer:
        """The answer to a conversation: a record, or chunks."""
        return await ChatAnswer.of(await self.table.get(body.model), body)

    async def embed(self, body: EmbeddingBody) -> Json:
        """A vector for each text."""
        served = await self.table.get(body.model)
        embed = served.verb("embed", "give vectors")
        if body.dimensions is not None:
            raise ApiError(400, "dimensions: vectors cannot be shortened; leave dimensions out", param="dimensions")
        if body.encoding_format not in (None, "float", "base64"):
            raise ApiError(400, "encoding_format: expected float or base64", param="encoding_format")
        prompts = encode_prompts(body.input, served.tokenizer, self.limits.prompts, param="input")
        texts = [prompt.text for prompt in prompts]
        vectors: np.ndarray = await call_model(served, lambda: embed(texts))

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
        """What lm-evaluation-harness asks before it uses /tokenize. It names no model: the first one."""
        await self.table.get(None)
        return {"eos_token": "</s>", "bos_token": "<s>", "pad_token": None, "chat_template": None}

    async def score(self, body: ScoreBody) -> Json:
        """log P of each text with its </s>, in nats, as `Model.score` gives it; its tokens and bytes, end included."""
        served = await self.table.get(body.model)
        score = served.verb("score", "score texts")
        texts = self._texts(body.input)
        given = body.given
        if isinstance(given, list) and len(given) != len(texts):
            raise ApiError(400, f"given has {len(given)} texts for {len(texts)}; expected one for each", param="given")
        tokenizer = served.tokenizer
        log_probs: np.ndarray = await call_model(served, lambda: score(texts, given=given))
        data = [
            {
                "index": i,
                "log_prob": finite(log_prob),
                "tokens": tokenizer.encode_texts([text]).ids.size,
                "bytes": len(text.encode()) + 1,
            }
            for i, (text, log_prob) in enumerate(zip(texts, log_probs.tolist(), strict=True))
        ]
        return {"object": "list", "data": data, "model": served.name, "system_fingerprint": served.fingerprint}

    async def complete_words(self, body: CompleteBody) -> Json:
        """Completions of a text as it is typed, the likeliest first."""
        served = await self.table.get(body.model)
        model = served.causal
        completions = await call_model(served, lambda: model.complete(body.text, body.n or 5))
        return {
            "completions": [
                {"text": one.text, "added": one.added, "log_prob": finite(one.log_prob), "replaces": one.replaces}
                for one in completions
            ],
            "model": served.name,
        }

    async def translate(self, body: TranslateBody) -> Json:
        """What a model of pairs writes for source texts: translations, summaries, corrections."""
        served = await self.table.get(body.model)
        write = served.verb("write", "write texts from others")
        texts = self._texts(body.input)
        beam = BeamConfig(size=body.beam) if body.beam else None
        written = await call_model(served, lambda: write(texts, beam, max_tokens=body.max_tokens))
        data = [
            {"index": i, "texts": [{"text": one.text, "log_prob": finite(one.log_prob)} for one in of_source]}
            for i, of_source in enumerate(written)
        ]
        return {"data": data, "model": served.name}

    def _texts(self, value: str | list[str]) -> list[str]:
        """The texts of `input`, of which there may be one alone. Raises ApiError if there are too many."""
        texts = [value] if isinstance(value, str) else value
        if len(texts) > self.limits.prompts:
            raise ApiError(
                400, f"input has {len(texts):,} texts; expected at most {self.limits.prompts:,}", param="input"
            )
        return texts


async def call_model(served: ServedModel, function: Callable[[], Any], *, param: str = "input") -> Any:
    """Calls a function on the model's thread. Raises ApiError with the field `param` where what was asked is wrong."""
    try:
        return await served.call(function)
    except (SettingError, TextError) as error:
        raise ApiError(400, str(error), param=param) from None
