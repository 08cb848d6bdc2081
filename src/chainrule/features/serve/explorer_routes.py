"""The routes of the explorer: its page, and the records that it asks for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from chainrule.decoding.config import SamplingConfig
from chainrule.errors import SettingError
from chainrule.evaluation.surprisal import By  # noqa: TC001  # pydantic reads it
from chainrule.features.serve.bodies import ApiError, Body, Number, Truth, Whole
from chainrule.features.serve.explorer.changes import Replacement, changes
from chainrule.features.serve.explorer.pictures import attention, beams
from chainrule.features.serve.explorer.records import (
    beside,
    completions,
    describe,
    next_words,
    predict_next,
    surprisals,
    text_model,
)
from chainrule.features.serve.explorer.show import HEADERS, page_files
from chainrule.features.serve.explorer.ways import lens, way
from chainrule.features.serve.generation.pictures import picture_of
from chainrule.features.serve.service import call_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from chainrule.features.serve.service import Service
    from chainrule.models.model import Model

    Json = dict[str, Any]

PAGE = "/explore/"


class ViewBody(Body):
    """The fields that the bodies of all views share. given: a source, for seq2seq models; picture: a file in base64."""

    text: str = ""
    given: str | None = None
    picture: str | None = None


class ModelBody(Body):
    """The body of /v1/explore/model."""


class NextBody(ViewBody):
    """The body of /v1/explore/next."""

    unit: Literal["tokens", "words"] = "tokens"
    top: Whole = Field(20, ge=1, le=100)
    temperature: Number | None = Field(None, ge=0, le=1e6)
    top_k: Whole | None = Field(None, ge=1)
    top_p: Number | None = Field(None, gt=0, le=1)
    min_p: Number | None = Field(None, gt=0, le=1)
    typical: Number | None = Field(None, gt=0, le=1)


class BesideBody(ViewBody):
    """The body of /v1/explore/beside. also: the names of further models."""

    also: list[str] = Field(max_length=20)
    top: Whole = Field(20, ge=1, le=100)


class WayBody(NextBody):
    """The body of /v1/explore/way."""

    seed: Whole = Field(1, ge=0)


class LensBody(ViewBody):
    """The body of /v1/explore/lens."""


class ChangesBody(ViewBody):
    """The body of /v1/explore/changes. off: heads and layers, such as 2.3."""

    instead: str = ""
    off: list[str] = Field([], max_length=1000)
    by: Replacement = "zero"


class SurprisalBody(ViewBody):
    """The body of /v1/explore/surprisal."""

    by: By = "tokens"


class BeamsBody(ViewBody):
    """The body of /v1/explore/beams."""

    size: Whole = Field(3, ge=1, le=20)
    max_tokens: Whole = Field(10, ge=1, le=50)


class AttentionBody(ViewBody):
    """The body of /v1/explore/attention."""

    layer: Whole | None = 0
    without: Truth = False


def add_explorer(app: FastAPI, post: Callable[..., None], service: Service) -> None:
    """Register the page and its routes.

    post: a function that registers a route with a body, by path, kind and function.
    """
    page_files()  # now, so that the first visitor does not wait for them

    async def on_model(body: Body, function: Callable[[Any], Json]) -> Json:
        served = await service.table.get(body.model)
        record: Json = await call_model(served, lambda: function(served.any_model), param="text", is_long=True)
        return {**record, "model": served.name, "fingerprint": served.fingerprint}

    async def on_view(body: ViewBody, function: Callable[[Any, Json], Json]) -> Json:
        """Return what a view shows of a model.

        function: a function of the model and of the source or picture that its texts are given.
        """
        given: Json = {"given": body.given, "picture": None}
        if body.picture:
            given["picture"] = await asyncio.to_thread(picture_of, body.picture, 1, service.limits.picture_pixels)
        return await on_model(body, lambda model: function(model, given))

    async def on_text_model(body: ViewBody, function: Callable[[Model], Json]) -> Json:
        return await on_view(body, lambda model, given: function(text_model(model, **given)))

    def sampling_of(body: NextBody) -> SamplingConfig:
        cuts = {name: getattr(body, name) for name in ("top_k", "top_p", "min_p", "typical")}
        temperature = 1.0 if body.temperature is None else body.temperature
        try:
            return SamplingConfig(temperature=temperature, **({} if temperature == 0 else cuts))
        except SettingError as error:
            raise ApiError(400, str(error)) from None

    async def model_route(body: ModelBody) -> Json:
        return await on_model(body, describe)

    async def next_route(body: NextBody) -> Json:
        if body.unit == "words":
            return await on_text_model(body, lambda model: completions(model, body.text, body.top))
        sampling = sampling_of(body)
        return await on_text_model(body, lambda model: next_words(model, body.text, body.top, sampling))

    async def beside_route(body: BesideBody) -> Json:
        predictions = {}
        for name in dict.fromkeys([body.model, *body.also]):
            own = body.model_copy(update={"model": name})
            found = await on_text_model(own, lambda model: {"own": predict_next(model, body.text, body.top)})
            predictions[found["model"]] = found["own"]
        return await on_model(body, lambda _: beside(predictions, body.text))

    async def way_route(body: WayBody) -> Json:
        sampling = sampling_of(body)
        return await on_text_model(body, lambda model: way(model, body.text, sampling, body.seed))

    async def lens_route(body: LensBody) -> Json:
        return await on_text_model(body, lambda model: lens(model, body.text))

    async def changes_route(body: ChangesBody) -> Json:
        return await on_text_model(body, lambda model: changes(model, body.text, body.instead, body.off, body.by))

    async def surprisal_route(body: SurprisalBody) -> Json:
        return await on_text_model(body, lambda model: surprisals(model, body.text, body.by))

    async def beams_route(body: BeamsBody) -> Json:
        return await on_view(body, lambda model, given: beams(model, body.text, body.size, body.max_tokens, **given))

    async def attention_route(body: AttentionBody) -> Json:
        return await on_view(
            body, lambda model, given: attention(model, body.text, body.layer, without=body.without, **given)
        )

    post("/v1/explore/model", ModelBody, model_route)
    post("/v1/explore/next", NextBody, next_route)
    post("/v1/explore/beside", BesideBody, beside_route)
    post("/v1/explore/way", WayBody, way_route)
    post("/v1/explore/lens", LensBody, lens_route)
    post("/v1/explore/changes", ChangesBody, changes_route)
    post("/v1/explore/surprisal", SurprisalBody, surprisal_route)
    post("/v1/explore/beams", BeamsBody, beams_route)
    post("/v1/explore/attention", AttentionBody, attention_route)

    @app.get("/", include_in_schema=False)
    @app.get("/explore", include_in_schema=False)
    async def to_page() -> Response:
        return RedirectResponse(PAGE)

    @app.get(PAGE + "{name:path}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        try:
            content, kind = page_files()[name or "index.html"]
        except KeyError:
            raise ApiError(404, "there is no such file", code="not_found") from None
        return Response(content, headers=HEADERS, media_type=kind)
