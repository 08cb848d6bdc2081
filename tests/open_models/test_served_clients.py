"""What clients of OpenAI's interface send beyond plain prompts: parts, roles, long prompts, gaps, /v1/responses."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import test_chat_templates
from test_chat_templates import TEMPLATES, Talker

import chainrule
from chainrule.errors import SettingError
from chainrule.serving.app import _stream
from chainrule.serving.bodies import ApiError, ChatBody, CompletionBody, EmbeddingBody, ResponseBody, parse_body
from chainrule.serving.config import ServerLimits
from chainrule.serving.generation.tokens import json_bytes
from chainrule.serving.models import ModelTable
from chainrule.serving.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT = 60
TALK = [{"role": "user", "content": "the cat sat"}]
GAP = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
KINDS = {"complete": CompletionBody, "chat": ChatBody, "respond": ResponseBody, "embed": EmbeddingBody}


class Asking:
    """A service with a chat model that knows gaps, an n-gram model and a masked one; asks it in this process."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def answer(self, verb: str, **body: Any) -> Any:
        parsed: Any = parse_body(json.dumps(body).encode(), KINDS[verb])

        async def asked() -> Any:
            answer = await getattr(self.service, verb)(parsed)
            if not body.get("stream"):
                return json.loads(json_bytes(await answer.record()))
            response = _stream(answer, [])
            return "".join([event.decode() async for event in response.body_iterator])  # type: ignore[union-attr]

        return asyncio.run(asked())

    def refusal(self, verb: str, **body: Any) -> ApiError:
        with pytest.raises(ApiError) as refused:
            self.answer(verb, **body)
        assert refused.value.status == 400
        return refused.value

    def chat(self, messages: list[dict[str, Any]], **body: Any) -> Any:
        answer = self.answer("chat", **{"model": "talker", "messages": messages, "max_tokens": 6, "seed": 3, **body})
        return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    home = tmp_path_factory.mktemp("clients")
    text = chainrule.Lines(["ka vi nin", "sa man ka", "ka vi sa"] * 10)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(test_chat_templates, "SPECIAL", [*test_chat_templates.SPECIAL, *GAP])
        Talker(TEMPLATES["chatml"], home / "talker", context=CONTEXT)
    chainrule.train(text, chainrule.NGramConfig(order=3), tokenizer="whitespace").save(home / "ngram")
    training = chainrule.TrainingConfig(steps=20, compile="no")
    network = chainrule.MaskedConfig(layers=1, width=16, heads=2, context=16)
    chainrule.train(text, network, training=training, tokenizer="whitespace").save(home / "masked")
    table = ModelTable([(name, home / name) for name in ("ngram", "talker", "masked")], ServerLimits())
    yield Asking(Service(table, ServerLimits()))
    table.close()


def test_a_list_of_parts_is_a_text_with_a_line_for_each(asking: Asking) -> None:
    parts = [{"type": "text", "text": "the cat"}, {"type": "text", "text": "sat"}]
    whole = asking.chat([{"role": "system", "content": "the man"}, {"role": "user", "content": "the cat\nsat"}])
    system = {"role": "system", "content": [{"type": "text", "text": "the man"}]}
    assert asking.chat([system, {"role": "user", "content": parts}]) == whole
    assert asking.chat([{**system, "role": "developer"}, {"role": "user", "content": parts}]) == whole
    for part, message in (
        ({"type": "input_audio", "input_audio": {}}, "part 2 of message 1 is of type input_audio; this model reads"),
        ({"type": "text"}, "part 2 of message 1 is {'type': 'text'}; expected"),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            "a part is a picture, and this model",
        ),
    ):
        body = {"model": "talker", "messages": [{"role": "user", "content": [parts[0], part]}]}
        error = asking.refusal("chat", **body)
        assert (error.param, message in error.message) == ("messages", True), error.message


def test_a_developer_stays_one_where_the_template_knows_them(asking: Asking, tmp_path: Any) -> None:
    template = "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% endfor %}"
    talk = [{"role": "developer", "content": "the man"}, *TALK]
    for own, role in ((template + "{# developer #}", "developer"), (template, "system")):
        model = Talker(own, tmp_path / role).ours
        assert model.chat_model.prompt(talk, 4).text == f"<{role}>the man<user>the cat sat"
    with pytest.raises(SettingError, match="message 2 is a developer message"):
        model.chat_model.prompt([*TALK, talk[0], *TALK], 4)


def test_what_does_not_fit_is_refused_with_both_numbers_or_cut_where_asked(asking: Asking) -> None:
    served: Any = asyncio.run(asking.service.table.get("talker"))
    ids = [5, 20, 30] * 25
    asked = {"model": "talker", "temperature": 0, "max_tokens": 10}
    error = asking.refusal("complete", **asked, prompt=ids)
    assert (error.code, error.param) == ("context_length_exceeded", "prompt")
    assert error.message.startswith(
        "This model's maximum context length is 60 tokens. However, you requested 85 tokens"
    )
    assert "(75 in the prompt, 10 for the answer)" in error.message
    asking.refusal("complete", **asked, prompt=[ids[:51], [5]])
    fits = asking.answer("complete", **asked, prompt=ids[-50:])
    cut = asking.answer("complete", **asked, prompt=ids, truncate_prompt_tokens=-1)
    assert cut["choices"][0]["text"] == fits["choices"][0]["text"]
    assert cut["usage"] == fits["usage"]
    scored = {**asked, "max_tokens": 1, "echo": True, "logprobs": 0}
    three, last = (
        asking.answer("complete", **scored, prompt=prompt, truncate_prompt_tokens=most)["choices"][0]
        for prompt, most in ((ids, 3), (ids[-3:], None))
    )
    assert three == last
    assert len(asking.answer("complete", **scored, prompt=ids)["choices"][0]["logprobs"]["tokens"]) == 76  # in windows
    assert "expected 1 or more, or -1" in asking.refusal("complete", prompt="ka", truncate_prompt_tokens=0).message
    assert asking.answer("complete", prompt="ka vi " * 99, max_tokens=2)["usage"]["prompt_tokens"] == 198  # no context

    long = [*TALK, {"role": "assistant", "content": "bit " * 9}, *TALK]
    error = asking.refusal("chat", model="talker", messages=long, max_tokens=20)
    assert (error.code, error.param) == ("context_length_exceeded", "messages")
    assert asking.chat(long, max_tokens=20, truncate_prompt_tokens=-1) == asking.chat(TALK, max_tokens=20)
    prompt = len(served.causal.chat_model.whole_prompt(TALK).tokens)
    answer = asking.answer("chat", model="talker", messages=TALK, logit_bias={"2": -100}, temperature=0)
    assert answer["usage"]["total_tokens"] <= CONTEXT  # as long as there is room, where the request does not say
    error = asking.refusal("respond", model="talker", input=long, max_output_tokens=20)
    assert (error.code, error.param) == ("context_length_exceeded", "input")
    for cut in ({"truncation": "auto"}, {"truncate_prompt_tokens": -1}):
        shown = asking.answer("respond", model="talker", input=long, max_output_tokens=20, **cut)
        assert shown["usage"]["input_tokens"] == prompt


def test_what_would_change_an_answer_elsewhere_is_refused_and_the_rest_named(asking: Asking) -> None:
    for verb, body in (("complete", {"prompt": "ka"}), ("chat", {"messages": TALK}), ("respond", {"input": "ka"})):
        error = asking.refusal(verb, **body, temprature=0)
        assert (error.code, error.param) == ("unknown_parameter", "temprature")
        assert "is it temperature?" in error.message
    assert "leave it out" in asking.refusal("embed", input="ka", task_type="x").message
    body = {"messages": [{"role": "user", "name": "Anna", "content": "x"}], "user": "me", "store": True, "foo": None}
    assert parse_body(json.dumps(body).encode(), ChatBody).ignored == ["store", "user", "messages.name"]
    assert "without logprobs" in asking.refusal("chat", model="talker", messages=TALK, top_logprobs=2).message
    error = asking.refusal("complete", prompt="ka", stream=True, stream_options={"continuous_usage_stats": True})
    assert "continuous_usage_stats" in error.message


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"include": ["message.output_text.logprobs"]}], ids=str)
def test_responses_are_answers_to_conversations(asking: Asking, settings: dict[str, Any]) -> None:
    asked = {"model": "talker", "max_output_tokens": 9, "seed": 4, **settings}
    record = asking.answer("respond", **asked, instructions="the man", input="the cat sat")
    own = {"seed": 4, "max_tokens": 9, **({"temperature": 0} if "temperature" in settings else {"logprobs": True})}
    expected = asking.answer("chat", model="talker", messages=[{"role": "system", "content": "the man"}, *TALK], **own)
    [item], [choice] = record["output"], expected["choices"]
    assert item["content"][0]["text"] == choice["message"]["content"]
    assert item["content"][0]["logprobs"] == (choice["logprobs"] or {"content": []})["content"]
    assert record["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]
    assert record["usage"]["output_tokens"] == expected["usage"]["completion_tokens"]
    is_cut = choice["finish_reason"] == "length"
    assert record["status"] == ("incomplete" if is_cut else "completed")
    assert (record["store"], record["previous_response_id"]) == (False, None)
    parts = [{"type": "input_text", "text": "the cat sat"}]
    items = [{"role": "developer", "content": "the man"}, {"type": "message", "role": "user", "content": parts}]
    assert asking.answer("respond", **asked, input=items)["output"][0]["content"] == item["content"]

    lines = asking.answer("respond", **asked, instructions="the man", input="the cat sat", stream=True)
    blocks = [block.split("\n") for block in lines.rstrip("\n").split("\n\n")]
    events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [name.removeprefix("event: ") for name, _ in blocks] == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    texts = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(texts) == item["content"][0]["text"]
    whole, streamed = (
        {**each, "id": 0, "created_at": 0, "completed_at": 0} for each in (record, events[-1]["response"])
    )
    assert streamed.pop("output")[0]["content"] == whole.pop("output")[0]["content"]
    assert streamed == whole
    assert [event["type"] for event in events if "delta" not in event] == [
        *("response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"),
        *("response.output_text.done", "response.content_part.done", "response.output_item.done"),
        f"response.{record['status']}",
    ]


def test_responses_call_functions_and_read_what_they_gave(asking: Asking) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"], "additionalProperties": False}
    tool = {"type": "function", "name": "f", "parameters": schema}
    asked = {"model": "talker", "input": "the", "tools": [tool], "tool_choice": "required", "seed": 1}
    asked |= {"max_output_tokens": 60, "truncation": "auto"}
    service = Service(asking.service.table, ServerLimits())
    served: Any = asyncio.run(service.table.get("talker"))
    served.context = None  # the description of a function is longer
    try:
        record = asking.answer("respond", **asked)
        [call] = record["output"]
        assert (call["type"], call["name"]) == ("function_call", "f")
        lines = asking.answer("respond", **asked, stream=True).split("\n")
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        deltas = [e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta"]
        assert "".join(deltas) == call["arguments"]
        if record["status"] == "completed":
            assert json.loads(call["arguments"]) == {"n": 7}
        gave = {"type": "function_call_output", "call_id": call["call_id"], "output": "8"}
        items = [*TALK, {**call, "arguments": '{"n": 7}'}, gave]
        read = asking.answer("respond", model="talker", input=items, max_output_tokens=2)
        called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"n": 7}'}}
        talk = [
            *TALK,
            {"role": "assistant", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "c", "content": "8"},
        ]
        expected = asking.answer("chat", model="talker", messages=talk, max_tokens=2)
        assert read["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]
    finally:
        served.context = CONTEXT


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "nothing is stored here; send the whole"),
        ({"background": True}, "background", "nothing is stored here"),
        ({"conversation": "c"}, "conversation", "nothing is stored here"),
        ({"tools": [{"type": "web_search"}]}, "tools", "web_search is not there; expected functions"),
        ({"include": ["reasoning.encrypted_content"]}, "include", "reasoning.encrypted_content is not there"),
        ({"reasoning": {"effort": "low"}}, "reasoning", "no such field"),
        ({"text": {"verbosity": "low"}}, "text.verbosity", "no such setting"),
        ({"text": {"format": {"type": "xml"}}}, "text.format", "text.format is"),
        ({"max_tokens": 3}, "max_tokens", "use max_output_tokens"),
        ({"n": 2}, "n", "there is one answer"),
        ({"max_output_tokens": 0}, "max_output_tokens", "expected 1 to"),
        ({"max_output_tokens": 10**6}, "max_output_tokens", "expected at most 4,096"),
        ({"input": [{"type": "reasoning"}]}, "input", "item 1 is a reasoning; expected message, function_call"),
        ({"input": [7]}, "input", "item 1 is a int"),
        ({"input": {}}, "input", "expected a list"),
        ({"input": []}, "input", "there is no message"),
    ],
    ids=str,
)
def test_what_responses_cannot_do_is_refused_by_name(
    asking: Asking, body: dict[str, Any], param: str, message: str
) -> None:
    error = asking.refusal("respond", **{"model": "talker", "input": "the cat", **body})
    assert (error.param, message in error.message) == (param, True), error.message


def test_a_causal_model_fills_gaps_by_the_tokens_of_its_tokenizer(asking: Asking) -> None:
    served: Any = asyncio.run(asking.service.table.get("talker"))
    splitter = served.tokenizer.splitter
    ours = test_chat_templates.TokenIdMap(**served.causal.record["hugging_face"]["tokens"]).ours()
    before, after, gap = (int(ours[splitter.numbers[name]]) for name in GAP)
    plain = [served.tokenizer.encode_texts([text]).ids[:-1].tolist() for text in ("the cat", " the mat")]
    ids = np.array([before, *plain[0], after, *plain[1], gap], np.int32)
    model = served.causal.language_model
    state, expected = model.read([ids], None), []
    for _ in range(5):
        row = model.next_log_probs(state)[0]
        row[served.banned] = -np.inf
        expected.append(int(row.argmax()))
        state = model.advance(state, np.array(expected[-1:], np.int32))
    body = {"model": "talker", "prompt": "the cat", "suffix": " the mat", "temperature": 0, "max_tokens": 5}
    record = asking.answer("complete", **body, logprobs=0)
    [choice] = record["choices"]
    assert choice["logprobs"]["tokens"] == [served.names.name(token) for token in expected]
    assert record["usage"]["prompt_tokens"] == len(ids)
    written = {**body, "prompt": "<fim_prefix>the cat<fim_suffix> the mat<fim_middle>", "suffix": None}
    assert asking.answer("complete", **written, logprobs=0)["usage"] == record["usage"]
    assert asking.answer("complete", **written)["choices"][0]["text"] == choice["text"]
    assert asking.refusal("complete", **body, echo=True).param == "echo"


def test_a_masked_model_fills_a_gap_of_so_many_tokens(asking: Asking) -> None:
    model: Any = asyncio.run(asking.service.table.get("masked")).any_model  # type: ignore[attr-defined]
    [best] = model.fill("ka [MASK] nin", 3)
    body = {"model": "masked", "prompt": "ka", "suffix": "nin", "temperature": 0}
    record = asking.answer("complete", **body)
    assert record["choices"] == [{"text": f" {best[0][0]} ", "index": 0, "logprobs": None, "finish_reason": "length"}]
    assert record["usage"] == {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    several = asking.answer("complete", **{**body, "temperature": 1}, n=4, max_tokens=3, seed=5)["choices"]
    assert [len(choice["text"].split()) for choice in several] == [3] * 4
    again = asking.answer("complete", **{**body, "temperature": 1}, n=4, max_tokens=3, seed=5)["choices"]
    assert several == again
    assert asking.answer("complete", **body, stream=True).count("data: ") == 2
    for given, param in (({"logprobs": 1}, "logprobs"), ({"max_tokens": 40}, "prompt"), ({"prompt": [3]}, "prompt")):
        assert asking.refusal("complete", **{**body, **given}).param == param
    assert asking.refusal("complete", model="ngram", prompt="ka", suffix="vi").code == "unsupported_parameter"
