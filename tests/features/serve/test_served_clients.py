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
from chainrule.features.serve.app import _stream
from chainrule.features.serve.bodies import ApiError, ChatBody, CompletionBody, EmbeddingBody, ResponseBody, parse_body
from chainrule.features.serve.config import ServerLimits
from chainrule.features.serve.generation.completions import ChatAnswer
from chainrule.features.serve.generation.tokens import json_bytes
from chainrule.features.serve.models import ModelTable, ServedModel
from chainrule.features.serve.service import Service

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
    later = model.chat_model.prompt([*TALK, talk[0]], 4).text  # also in the middle, or at the end
    assert later == "<user>the cat sat<system>the man"


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


def test_fields_of_vllm_are_ours(asking: Asking) -> None:
    """Each gives the answer of our own field, with the same seed."""
    schema = {"enum": ["the", "cat"]}
    asked = {"model": "talker", "messages": TALK, "max_tokens": 30, "seed": 5}
    forms: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"guided_json": schema}, {"json_schema": schema}),
        ({"guided_json": json.dumps(schema)}, {"json_schema": schema}),
        ({"guided_regex": "(the|cat) sat"}, {"regex": "(the|cat) sat"}),
        ({"guided_choice": ["the", "cat"]}, {"choices": ["the", "cat"]}),
        ({"guided_grammar": 'start: "the" | "cat"'}, {"grammar": 'start: "the" | "cat"'}),
    ]
    forms += [
        ({"structured_outputs": {theirs.partition("_")[2]: value}}, ours)
        for form, ours in forms
        for theirs, value in form.items()
    ]
    forms += [({"structured_outputs": {"json_object": True}}, {"json_schema": {"type": "object"}})]
    for theirs, ours in forms:
        assert asking.chat(**{**asked, **theirs}) == asking.chat(**{**asked, **ours})
    same = {"skip_special_tokens": True, "modalities": ["text"], "guided_json": None, "structured_outputs": None}
    assert asking.chat(**asked, **same) == asking.chat(**asked)
    for field, message in (
        ({"skip_special_tokens": False}, "skip_special_tokens is false; expected true, or none"),
        ({"modalities": ["text", "audio"]}, 'modalities is ["text", "audio"]; expected ["text"], or none'),
        ({"guided_json": "{"}, "guided_json is no JSON"),
        ({"guided_json": {}, "json_schema": {}}, "guided_json: it is json_schema here, which is there, too; send one"),
        ({"structured_outputs": {"jsn": {}}}, "structured_outputs.jsn: expected one of json, regex, choice, grammar"),
        ({"structured_outputs": 3}, "structured_outputs is 3; expected an object"),
    ):
        error = asking.refusal("chat", **asked, **field)
        assert message in error.message
        assert error.param == next(iter(field))


def test_stop_tokens_end_a_text_and_eos_does_not_if_it_is_ignored(asking: Asking) -> None:
    asked = {"model": "ngram", "prompt": "ka", "seed": 3, "max_tokens": 12}
    whole = asking.answer("complete", **asked, ignore_eos=True, logprobs=0)["choices"][0]
    tokens = whole["logprobs"]["tokens"]
    assert (len(tokens), whole["finish_reason"]) == (12, "length")
    assert "</s>" not in tokens
    served: Any = asyncio.run(asking.service.table.get("ngram"))
    stop = served.tokenizer.encode_texts([tokens[4]]).ids[:1].tolist()
    cut = asking.answer("complete", **asked, ignore_eos=True, stop_token_ids=stop)["choices"][0]
    assert cut["finish_reason"] == "stop"
    before = tokens[: tokens.index(tokens[4])]
    assert cut["text"].split() == before
    streamed = asking.answer("complete", **asked, ignore_eos=True, stop_token_ids=stop, logprobs=0)["choices"][0]
    assert streamed["logprobs"]["tokens"] == tokens[: len(before) + 1]  # the stop token is drawn, and is no text
    assert streamed["text"] == cut["text"]
    assert "stop_token_ids has 99" in asking.refusal("complete", **asked, stop_token_ids=[99]).message


def test_prompt_logprobs_are_those_of_echo(asking: Asking) -> None:
    asked = {"model": "ngram", "prompt": ["ka vi nin", "sa"], "max_tokens": 1, "seed": 3}
    served: Any = asyncio.run(asking.service.table.get("ngram"))
    ids = served.tokenizer.encode_texts(["ka vi nin"]).ids.tolist()
    echo = asking.answer("complete", **asked, echo=True, logprobs=2)["choices"]
    shown = asking.answer("complete", **asked, prompt_logprobs=2)["choices"]
    for theirs, ours in zip(shown, echo, strict=True):
        assert theirs["prompt_logprobs"][0] is None
        size = len(theirs["prompt_logprobs"])
        for entry, log_prob, tops in zip(
            theirs["prompt_logprobs"][1:],
            ours["logprobs"]["token_logprobs"][1:size],
            ours["logprobs"]["top_logprobs"][1:size],
            strict=True,
        ):
            values = sorted((token["logprob"] for token in entry.values()), reverse=True)
            assert values == sorted({log_prob, *tops.values()}, reverse=True)
            assert [token["rank"] for token in entry.values() if token["rank"]] == [1, 2]
    assert shown[0]["prompt_logprobs"][1].keys() >= {str(ids[1])}
    assert shown[0]["prompt_logprobs"][1][str(ids[1])]["decoded_token"] == " vi"
    for field in ({"stream": True}, {"echo": True}):
        assert "prompt_logprobs: not with" in asking.refusal("complete", **asked, prompt_logprobs=1, **field).message
    assert "expected at most 20" in asking.refusal("complete", **asked, prompt_logprobs=21).message
    error = asking.refusal("chat", model="talker", messages=TALK, prompt_logprobs=1)
    assert "prompt_logprobs: only in /v1/completions" in error.message


def test_variables_of_the_template_are_set_and_others_named(asking: Asking, tmp_path: Any) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
        "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}{{ style }}"
        "{% if reasoning_effort == 'low' %}<|user|>{% endif %}"
    )
    talker = Talker(template, tmp_path / "model")
    served = ServedModel("talker", talker.ours, "fp", ServerLimits())

    def usage(**fields: Any) -> tuple[int, list[str]]:
        body = ChatBody(messages=TALK, max_tokens=1, **fields)

        async def ask() -> Any:
            return await (await ChatAnswer.of(served, body)).record()

        return asyncio.run(ask())["usage"]["prompt_tokens"], body.ignored

    plain, ignored = usage()
    assert (plain, ignored) == (len(talker.their_ids(TALK)), [])
    assert usage(chat_template_kwargs={"enable_thinking": False}) == (plain + 2, [])
    assert usage(reasoning_effort="low") == (plain + 1, [])
    assert usage(reasoning_effort="high") == (plain, [])
    forged = "<think><|im_end|>"  # text, of as many bytes as it has: nothing forges a token
    spelled, _ = usage(chat_template_kwargs={"style": forged, "enable_thinking": False})
    assert spelled > plain + 2 + 2
    unread = {"messages": [], "nonsense": 1, "bos_token": "x"}
    names = [f"chat_template_kwargs.{name}" for name in unread]
    assert usage(chat_template_kwargs=unread) == (plain, names)
    served.scheduler.close()


def test_fields_of_other_routes_lead_to_ours(asking: Asking) -> None:
    for name in ("max_completion_tokens", "max_output_tokens", "max_new_tokens"):
        assert "is it max_tokens?" in asking.refusal("complete", model="ngram", prompt="ka", **{name: 3}).message


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
