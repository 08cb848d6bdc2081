"""/v1/translate takes the languages of models that read or write several."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from test_pair_architectures import Pair
from tiny_tokenizers import SOURCES

from chainrule.features.serve.bodies import ApiError, TranslateBody, parse_body
from chainrule.features.serve.config import ServerLimits
from chainrule.features.serve.models import ModelTable, ServedModel
from chainrule.features.serve.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Table:
    """A table with one model."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    async def get(self, name: str | None, verb: str) -> ServedModel:
        return self._served


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair("m2m_100", tmp_path_factory.mktemp("m2m"))


@pytest.fixture
def translate(pair: Pair) -> Iterator[Callable[..., Any]]:
    served = ServedModel("m2m", pair.ours, "fp", ServerLimits())
    service = Service(cast("ModelTable", _Table(served)), ServerLimits())

    def call(**fields: Any) -> Any:
        body = TranslateBody(input=SOURCES[:1], max_tokens=6, **fields)
        return asyncio.run(service.translate(body))["data"][0]["texts"][0]

    yield call
    served.scheduler.close()


def test_a_request_names_its_languages(translate: Callable[..., Any], pair: Pair) -> None:
    [[expected]] = pair.ours.with_languages("fra", "zho_Hans").write(SOURCES[:1], max_tokens=6)
    [[usual]] = pair.ours.write(SOURCES[:1], max_tokens=6)
    found = translate(source_language="fra", target_language="zho_Hans")
    assert found["log_prob"] == pytest.approx(expected.log_prob, abs=1e-4)
    assert translate()["log_prob"] == pytest.approx(usual.log_prob, abs=1e-4)  # no request changes the model
    assert abs(usual.log_prob - expected.log_prob) > 0.01


@pytest.mark.parametrize("side", ["source_language", "target_language"])
def test_an_unknown_language_is_an_error_of_its_field(side: str, translate: Callable[..., Any]) -> None:
    with pytest.raises(ApiError, match="'xx' is none of its languages") as raised:
        translate(**{side: "xx"})
    assert (raised.value.status, raised.value.param) == (400, side)


def test_a_model_that_writes_several_languages_asks_for_one(translate: Callable[..., Any], pair: Pair) -> None:
    config = pair.ours.model.network.config
    pair.ours.model.network.config = type(config)(**{**vars(config), "before_target": ()})
    try:
        with pytest.raises(ApiError, match="writes several languages") as raised:
            translate()
        assert raised.value.param == "target_language"
        assert translate(target_language="eng")["text"] is not None
    finally:
        pair.ours.model.network.config = config


def test_the_fields_are_checked() -> None:
    with pytest.raises(ApiError, match="target_language"):
        parse_body(b'{"input": "a", "target_language": 3}', TranslateBody)
