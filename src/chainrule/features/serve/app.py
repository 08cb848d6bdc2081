"""The routes of the server. Each reads a body, calls a method of `Service`, and writes what it gives."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from chainrule import __version__
from chainrule.errors import ChainruleError, SettingError
from chainrule.features.serve import bodies as requests
from chainrule.features.serve.bodies import ApiError, BodyType, parse_body
from chainrule.features.serve.explorer_routes import add_explorer
from chainrule.features.serve.generation.tokens import json_bytes
from chainrule.features.serve.guard import LOG
from chainrule.features.serve.metrics import prometheus_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from chainrule.features.serve.generation.completions import Answer
    from chainrule.features.serve.metrics import WorkerStates
    from chainrule.features.serve.service import Service

    Json = dict[str, Any]

_BODY_WAIT_SECONDS = 0.02  # of a short answer, before its client is watched


def build_app(service: Service, states: WorkerStates) -> FastAPI:
    """Return the application. All routes are registered here."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.table.close()

    app = FastAPI(
        title="chainrule",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # pages that load scripts from elsewhere
        redoc_url=None,
    )
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ChainruleError, _chainrule_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)

    turn = asyncio.Lock()  # one request begins in each turn of the event loop, which reads of lost connections between

    def post(path: str, kind: type[BodyType], handle: Callable[[BodyType], Awaitable[Any]], *more: str) -> None:
        """Register a route that takes a body of a kind."""
        name = path.strip("/").replace("/", "_")

        async def route(request: Request) -> Response:
            data = await _whole_body(request, service)
            async with turn:  # many are gone, where clients break off faster than the model works
                if await request.is_disconnected():
                    raise _gone()
            body = parse_body(data, kind)
            if getattr(body, "stream", False):
                return _stream(await handle(body), body.ignored)
            record = await _unless_disconnected(request, _record(handle(body)), service.limits.answer_seconds)
            return _json(record, body.ignored)

        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        extra = {"requestBody": {"required": True, "content": {"application/json": {"schema": _inlined(schema)}}}}
        for address in (path, *more):
            app.add_api_route(
                address,
                route,
                methods=["POST"],
                name=name,
                summary=(kind.__doc__ or "").strip(),
                openapi_extra=extra,
                include_in_schema=address == path,
            )

    post("/v1/completions", requests.CompletionBody, service.complete)
    post("/v1/chat/completions", requests.ChatBody, service.chat)
    post("/v1/responses", requests.ResponseBody, service.respond)
    post("/v1/embeddings", requests.EmbeddingBody, service.embed)
    post("/v1/score", requests.ScoreBody, service.score)
    post("/v1/translate", requests.TranslateBody, service.translate)
    post("/v1/caption", requests.CaptionBody, service.caption)
    post("/v1/correct", requests.CorrectBody, service.correct)
    post("/complete", requests.CompleteBody, service.complete_words, "/v1/complete")
    post("/infill", requests.InfillBody, service.infill, "/v1/infill")
    post("/tokenize", requests.TokenizeBody, service.tokenize, "/v1/tokenize")
    post("/detokenize", requests.DetokenizeBody, service.detokenize, "/v1/detokenize")

    add_explorer(app, post, service)

    @app.get("/v1/models", summary="The models.")
    async def models() -> Response:
        return _json(await service.models())

    @app.get("/v1/models/{name:path}", summary="A model.")
    async def model(name: str) -> Response:
        return _json(await service.model(name))

    @app.get("/tokenizer_info", summary="The markers of the tokenizer.")
    @app.get("/v1/tokenizer_info", include_in_schema=False)
    async def tokenizer_info() -> Response:
        return _json(await service.tokenizer_info())

    @app.get("/health", summary="Whether the server works.")
    async def health() -> Response:
        broken = sorted({name for state in await states.all() for name in state.broken})
        if broken:
            return _json({"status": "broken", "models": broken}, status=503)
        return _json({"status": "ok"})

    @app.get("/metrics", summary="Counts and times, for Prometheus.")
    async def read_metrics() -> Response:
        text = prometheus_text(state.series for state in await states.all())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return app


async def _record(handled: Awaitable[Any]) -> Json:
    """Return the record of an answer, awaited if it is not there yet."""
    answer = await handled
    return answer if isinstance(answer, dict) else await answer.record()


async def _whole_body(request: Request, service: Service) -> bytes:
    """Return the body of a request. Raises ApiError if it does not arrive in time, or the client disconnects."""
    try:
        return await asyncio.wait_for(request.body(), service.limits.receipt_seconds)
    except TimeoutError:
        raise ApiError(408, "the request did not arrive in time", code="timeout") from None
    except ClientDisconnect:
        raise _gone() from None


async def _unless_disconnected(request: Request, answer: Any, seconds: float) -> Json:
    """Wait for an answer; drop its work when the client disconnects. Raises ApiError after this many seconds."""
    task = asyncio.ensure_future(answer)
    done, _ = await asyncio.wait({task}, timeout=_BODY_WAIT_SECONDS)
    if not done:
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_gone = not gone.cancel()
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if task.cancelled() and is_gone:
            raise _gone()
        if task.cancelled():
            raise ApiError(504, f"there was no answer within {seconds:g} seconds", code="timeout")
    result: Json = task.result()
    return result


def _gone() -> ApiError:
    return ApiError(499, "the client has disconnected", code="client_disconnected")  # nginx's status, for the metrics


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Stream(StreamingResponse):
    """A response whose work is dropped when it ends, however it ends: a generator would do so only when it is
    garbage-collected.
    """

    def __init__(self, answer: Answer, events: AsyncIterator[bytes], ignored: list[str]) -> None:
        headers = {"cache-control": "no-cache", **_ignored_header(ignored)}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answer.abandon()


def _stream(answer: Answer, ignored: list[str]) -> StreamingResponse:
    """Return server-sent events. Chunks with a type are events of that name, after the last of which nothing comes."""

    async def events() -> AsyncIterator[bytes]:
        is_named = False
        try:
            async for chunk in answer.chunks():
                is_named = "type" in chunk
                yield _event(chunk)
                await asyncio.sleep(0)  # so that a lost connection is noticed before more is written to it
        except (ApiError, ChainruleError, OSError, RuntimeError) as error:
            shown = error if isinstance(error, ApiError) else _as_api_error(error)
            body = shown.body()
            yield _event({**body, **body["error"], "type": "error"} if is_named else body)
        if not is_named:
            yield b"data: [DONE]\n\n"

    return _Stream(answer, events(), ignored)


def _event(chunk: Json) -> bytes:
    name = b"event: " + chunk["type"].encode() + b"\n" if "type" in chunk else b""
    return name + b"data: " + json_bytes(chunk) + b"\n\n"


def _json(record: Json, ignored: list[str] | None = None, status: int = 200) -> Response:
    return Response(json_bytes(record), status, _ignored_header(ignored or []), "application/json")


def _ignored_header(names: list[str]) -> dict[str, str]:
    """Return a header that lists fields without effect; names that a header cannot hold are left out."""
    shown = [name for name in names if name.isascii() and name.replace(".", "_").isidentifier()][:20]
    return {"x-ignored": ",".join(shown)[:1000]} if shown else {}


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(json_bytes(error.body()), error.status, error.headers(), "application/json")


async def _chainrule_error(request: Request, error: Exception) -> Response:
    return await _api_error(request, _as_api_error(error))


def _as_api_error(error: Exception) -> ApiError:
    """Return an exception as an ApiError: what a model cannot do is the client's error, all else the server's."""
    if isinstance(error, SettingError):
        return ApiError(400, str(error))
    LOG.error("a model failed", exc_info=error)
    return ApiError(500, "the model failed; the server's log says why")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed"}
    messages = {404: "there is no such address", 405: "this address takes another method"}
    message = messages.get(error.status_code, str(error.detail))
    return await _api_error(request, ApiError(error.status_code, message, code=codes.get(error.status_code)))


async def _unexpected_error(request: Request, error: Exception) -> Response:
    name = request.scope.get("request_id", "")
    return await _api_error(request, ApiError(500, f"the server failed; its log names request {name}"))


def _inlined(schema: Json) -> Json:
    """Return a JSON schema without references: OpenAPI would look for them elsewhere."""
    definitions = schema.pop("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return resolve(definitions[part["$ref"].rpartition("/")[2]])
            return {key: resolve(value) for key, value in part.items()}
        return [resolve(entry) for entry in part] if isinstance(part, list) else part

    inlined: Json = resolve(schema)
    return inlined
