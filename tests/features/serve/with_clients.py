"""Unchanged clients against `chainrule serve`: openai, llm, LangChain, LiteLLM, lm-evaluation-harness, and the requests
of an editor's plugin (make test-clients).

CLIENTS names the Python of an environment with their packages. The server runs as a process of its own, behind a proxy
that notes what each client sends; a whole run writes the table in bench/results/clients.md.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pytest
import test_chat_templates
from recording import Recorder, recording, table_of, write_table
from test_chat_templates import TEMPLATES, Talker

import chainrule
from chainrule.features.vision.network.config import ResNetLabelling
from chainrule.features.vision.pictures.captions import CaptionedPicture
from chainrule.features.vision.pictures.codec import encode_png
from chainrule.features.vision.pictures.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = os.environ.get("CLIENTS", ".clients/bin/python")
FIXTURES = Path(__file__).parents[2] / "fixtures"
KEY = "abcdefgh12345678"


PACKAGES = {
    "openai": "openai",
    "llm": "llm",
    "langchain": "langchain-openai",
    "litellm": "litellm",
    "lm_eval": "lm_eval",
}
GAP = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")


class Serving(NamedTuple):
    recorder: Recorder
    folders: dict[str, Path]
    home: Path


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    home, text = tmp_path_factory.mktemp("serving"), FIXTURES / "train.txt"
    one_step = chainrule.TrainingConfig(steps=1, compile="no")
    models = {
        "ngram": chainrule.train(text, chainrule.NGramConfig(order=3)),
        "lstm": chainrule.train(text, chainrule.RecurrentConfig(layers=1, width=16), training=one_step),
        "transformer": chainrule.train(
            text, chainrule.TransformerConfig(layers=1, width=16, heads=2, context=64), training=one_step
        ),
    }
    folders = {name: home / name for name in models}
    for name, model in models.items():
        model.save(folders[name])
    folders["talker"] = home / "talker"  # a Hugging Face folder with a chat template
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(test_chat_templates, "SPECIAL", [*test_chat_templates.SPECIAL, *GAP])
        Talker(TEMPLATES["chatml"], folders["talker"], context=4096)
    folders["captioner"] = home / "captioner"
    pixels = np.arange(6 * 12 * 3, dtype=np.uint8).reshape(6, 12, 3)
    (home / "picture.png").write_bytes(encode_png(pixels))
    chainrule.train_captions(
        [CaptionedPicture(Picture(pixels, "it"), ("a dark day", "a bright day"))] * 20,
        chainrule.CaptionConfig(width=8),
        encoder=ResNetLabelling(size=(6, 12), width=4, blocks=(1,)),
        training=one_step,
        progress=False,
    ).save(folders["captioner"])
    (home / "key.txt").write_text(KEY + "\n")
    command = [sys.executable, "-m", "chainrule", "serve", *map(str, folders.values()), "--port", "0"]
    server = subprocess.Popen([*command, "--api-key-file", str(home / "key.txt")], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    words = server.stdout.readline().split()
    with recording(next(word for word in words if word.startswith("http")).rstrip(";")) as recorder:
        yield Serving(recorder, folders, home)
    server.terminate()
    server.stdout.close()
    assert server.wait(20) in (0, -15, 143)


def run(code: str, serving: Serving, *arguments: str, client: str, **environment: str) -> Any:
    """What a client's program prints, as JSON."""
    own = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "URL": serving.recorder.url(client),
        "URL_LANGCHAIN": serving.recorder.url("langchain"),
        "KEY": KEY,
        "HF_HUB_OFFLINE": "1",
        "OPENAI_API_KEY": KEY,
        "LLM_USER_PATH": str(serving.home),
        **environment,
    }
    done = subprocess.run(
        [CLIENTS, "-c", code, *arguments], env=own, capture_output=True, text=True, timeout=280, cwd=serving.home
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


OPENAI = """
import json, os
from openai import OpenAI, NotFoundError, BadRequestError, AuthenticationError
client = OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"])
out = {"models": [model.id for model in client.models.list()], "one": client.models.retrieve("lstm").id}
try:
    client.models.retrieve("gpt-4")
except NotFoundError as error:
    out["missing"] = error.code
try:
    OpenAI(base_url=os.environ["URL"], api_key="wrong").models.list()
except AuthenticationError as error:
    out["wrong key"] = error.status_code
asked = dict(model="ngram", prompt="ka vi", max_tokens=6, seed=3, logprobs=2, echo=True)
plain = client.completions.create(**asked)
chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
out["text"] = plain.choices[0].text
out["log_probs"] = plain.choices[0].logprobs.token_logprobs
out["streamed"] = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
out["usage"] = [plain.usage.total_tokens, chunks[-1].usage.total_tokens]
out["n"] = [choice.text for choice in client.completions.create(model="ngram", prompt="ka", n=3, seed=1).choices]
vectors = client.embeddings.create(model="lstm", input=["ka vi", "sa"])
out["vectors"] = [row.embedding for row in vectors.data]
floats = client.embeddings.create(model="lstm", input="ka vi", encoding_format="float")
out["floats"] = [row.embedding for row in floats.data]
try:
    client.chat.completions.create(model="ngram", messages=[{"role": "user", "content": "ka"}])
except BadRequestError as error:
    out["chat"] = error.body["message"]
print(json.dumps(out))
"""


def test_openai(serving: Serving) -> None:
    out = run(OPENAI, serving, client="openai")
    model = chainrule.load(serving.folders["ngram"])
    assert out["models"] == ["ngram", "lstm", "transformer", "talker", "captioner"]
    assert (out["one"], out["missing"], out["wrong key"]) == ("lstm", "model_not_found", 401)
    expected = model.generate("ka vi", limits=chainrule.Limits(max_tokens=6), seed=3)[0]
    assert out["text"] == out["streamed"] == expected
    assert out["log_probs"][0] is None
    assert all(log_prob < 0 for log_prob in out["log_probs"][1:])
    assert out["usage"][0] == out["usage"][1]
    assert out["n"] == [
        text.removeprefix("ka") for text in model.generate("ka", 3, limits=chainrule.Limits(max_tokens=16), seed=1)
    ]
    vectors = chainrule.load(serving.folders["lstm"], chainrule.CausalNetwork).embed(["ka vi", "sa"])
    np.testing.assert_allclose(out["vectors"], vectors, atol=1e-6)
    np.testing.assert_allclose(out["floats"][0], vectors[0], atol=1e-6)
    assert "the model ngram has no chat template; send texts to /v1/completions" in out["chat"]


QUICK_START = """
import base64, json, os
from openai import APIError, BadRequestError, OpenAI
from pydantic import BaseModel
client = OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"])  # what follows is as in its README, shorter
model, out = "talker", {}

def refused(call, *arguments, **fields):
    try:
        call(*arguments, **fields)
    except APIError as error:
        return error.code, error.body["message"]

small = dict(model=model, max_output_tokens=16)
said = client.responses.create(**small, instructions="Be brief.", input="the cat sat")
out["text"] = said.output_text
stream = client.responses.create(**small, input="the cat sat", stream=True)
events = list(stream)
out["events"] = sorted({event.type for event in events})
out["streamed"] = ["".join(e.delta for e in events if e.type.endswith("text.delta")), events[-1].response.output_text]
with client.responses.stream(**small, input="the cat sat", extra_body={"choices": ["yes"]}) as helper:
    for event in helper:
        pass
    out["helper"] = [helper.get_final_response().status, event.response.status]
talk = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "the cat sat"}]
out["chat"] = client.chat.completions.create(model=model, messages=talk, max_tokens=8).choices[0].message.content
parts = [{"role": "user", "content": [{"type": "text", "text": "the cat sat"}]}]
out["parts"] = client.chat.completions.create(model=model, messages=parts, max_tokens=8).choices[0].message.content
form = {"type": "json_object"}
asked = dict(model=model, input=[{"role": "user", "content": "the"}], text={"format": form}, max_output_tokens=64)
out["json"] = client.responses.create(**asked).output_text

class Answer(BaseModel):
    yes: bool

parsed = client.responses.parse(model=model, input="is it?", text_format=Answer, max_output_tokens=400, temperature=0)
out["parsed"] = isinstance(parsed.output_parsed, Answer)
schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
tools = [{"type": "function", "name": "f", "parameters": {**schema, "additionalProperties": False}}]
called = client.responses.create(
    model=model, input="is it?", tools=tools, tool_choice="required", max_output_tokens=400, temperature=0
)
call = called.output[0]
out["call"] = [call.type, call.name, sorted(json.loads(call.arguments))]
items = [{"role": "user", "content": "is it?"}, *called.output]
items.append({"type": "function_call_output", "call_id": call.call_id, "output": "8"})
out["after the call"] = client.responses.create(**small, input=items, tools=tools).status
with open("picture.png", "rb") as file:
    address = "data:image/png;base64," + base64.b64encode(file.read()).decode()
question = {"type": "input_text", "text": "What is in this picture?"}
picture = [{"role": "user", "content": [question, {"type": "input_image", "image_url": address}]}]
out["picture"] = client.responses.create(model="captioner", input=picture).output_text
out["refused"] = [
    refused(client.responses.create, **small, input=picture),
    refused(client.responses.create, **small, input="and?", previous_response_id="resp_1"),
    refused(client.responses.create, **small, input="and?", tools=[{"type": "web_search"}]),
    refused(client.chat.completions.create, model=model, messages=talk, max_tokens=4096),
    refused(client.chat.completions.create, model=model, messages=talk, verbosity="low"),
    refused(client.completions.create, model="ngram", prompt="ka", suffix="vi"),
    refused(client.moderations.create, input="x"),
]
gap = client.completions.create(model=model, prompt="the cat", suffix=" the mat", max_tokens=4)
out["gap"] = gap.choices[0].finish_reason
print(json.dumps(out))
"""


def test_the_quick_start_of_openai(serving: Serving) -> None:
    out = run(QUICK_START, serving, client="openai")
    assert all(isinstance(out[name], str) for name in ("text", "chat", "parts", "json"))
    assert out["streamed"][0] == out["streamed"][1]
    assert {"response.created", "response.output_text.delta", "response.output_item.done"} <= set(out["events"])
    assert out["helper"][0] == out["helper"][1]
    assert out["parsed"]
    assert out["call"] == ["function_call", "f", ["yes"]]
    assert out["after the call"] in ("completed", "incomplete")
    expected = chainrule.load(serving.folders["captioner"]).caption([str(serving.home / "picture.png")])
    assert out["picture"] == expected[0][0].text
    codes = ["unsupported_part", *["unsupported_parameter"] * 2, "context_length_exceeded", "unknown_parameter"]
    assert [code for code, _ in out["refused"]] == [*codes, "unsupported_parameter", "not_found"]
    assert out["gap"] in ("stop", "length")


LANGCHAIN = """
import json, os
from langchain_openai import OpenAI, OpenAIEmbeddings
common = dict(base_url=os.environ["URL"], api_key=os.environ["KEY"])
model = OpenAI(model="ngram", max_tokens=6, seed=3, temperature=0.7, **common)
out = {"text": model.invoke("ka vi"), "streamed": "".join(model.stream("ka vi"))}
out["batch"] = model.batch(["ka vi", "sa"])
embeddings = OpenAIEmbeddings(model="lstm", check_embedding_ctx_length=False, **common)
out["vector"] = embeddings.embed_query("ka vi")
print(json.dumps(out))
"""


def test_langchain(serving: Serving) -> None:
    out = run(LANGCHAIN, serving, client="langchain")
    model = chainrule.load(serving.folders["ngram"])
    [expected] = model.generate(
        "ka vi", 1, chainrule.SamplingConfig(temperature=0.7), chainrule.Limits(max_tokens=6), seed=3
    )
    assert out["text"] == out["streamed"] == out["batch"][0] == expected.removeprefix("ka vi")
    vector = chainrule.load(serving.folders["lstm"], chainrule.CausalNetwork).embed(["ka vi"])[0]
    np.testing.assert_allclose(out["vector"], vector, atol=1e-6)


LLM = """
import json, subprocess, sys, os
llm = [sys.executable, "-m", "llm"]
ask = [*llm, "-m", "ours", "ka vi", "-o", "max_tokens", "6", "-o", "seed", "3", "-o", "logprobs", "2"]

def printed(command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout

text, plain = printed(ask), printed([*ask, "--no-stream"])
print(json.dumps({"text": text, "plain": plain, "logs": json.loads(printed([*llm, "logs", "--json", "-n", "2"]))}))
"""


def test_llm(serving: Serving) -> None:
    entry = {
        "model_id": "ours",
        "model_name": "ngram",
        "api_base": serving.recorder.url("llm"),
        "api_key_name": "k",
        "completion": True,
    }
    (serving.home / "keys.json").write_text(json.dumps({"k": KEY}))
    (serving.home / "extra-openai-models.yaml").write_text(f"- {json.dumps(entry)}\n")
    out = run(LLM, serving, client="llm")
    expected = chainrule.load(serving.folders["ngram"]).generate("ka vi", limits=chainrule.Limits(max_tokens=6), seed=3)
    assert out["text"].rstrip("\n") == out["plain"].rstrip("\n") == expected[0].removeprefix("ka vi")
    assert "logprobs" in json.dumps(out["logs"][0])


CHAT = """
import json, os, subprocess, sys
from langchain_openai import ChatOpenAI
from openai import OpenAI
client = OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"])
asked = dict(model="talker", messages=[{"role": "user", "content": "the cat sat"}], max_tokens=12, seed=3)
whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
out = {"text": whole.choices[0].message.content, "tokens": whole.usage.completion_tokens}
out["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
out["log_probs"] = [entry.logprob for entry in whole.choices[0].logprobs.content]
out["tops"] = [len(entry.top_logprobs) for entry in whole.choices[0].logprobs.content]
chain = ChatOpenAI(
    model="talker", base_url=os.environ["URL_LANGCHAIN"], api_key=os.environ["KEY"], max_tokens=12, seed=3,
    temperature=0.7,
    top_p=0.9,
)
out["langchain"] = chain.invoke("the cat sat").content
ask = [sys.executable, "-m", "llm", "-m", "talker", "the cat sat", "-o", "max_tokens", "12", "-o", "seed", "3"]
done = subprocess.run([*ask, "--no-stream"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
out["llm"] = done.stdout
print(json.dumps(out))
"""


def test_conversations(serving: Serving) -> None:
    entry = {"model_id": "talker", "model_name": "talker", "api_base": serving.recorder.url("llm"), "api_key_name": "k"}
    (serving.home / "keys.json").write_text(json.dumps({"k": KEY}))
    (serving.home / "extra-openai-models.yaml").write_text(f"- {json.dumps(entry)}\n")
    out = run(CHAT, serving, client="openai")
    sampling = chainrule.SamplingConfig(temperature=0.7, top_p=0.9)
    model = chainrule.load(serving.folders["talker"])
    messages = [{"role": "user", "content": "the cat sat"}]
    expected = model.chat(messages, sampling, chainrule.Limits(max_tokens=12), seed=3)
    assert out["text"] == out["streamed"] == out["langchain"] == expected
    assert out["llm"].rstrip("\n") == expected.rstrip("\n")
    assert len(out["log_probs"]) == len(out["tops"]) == out["tokens"]
    assert all(log_prob < 0 for log_prob in out["log_probs"])
    assert set(out["tops"]) == {2}


LANGCHAIN_CHAT = """
import json, os
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from openai import BadRequestError
from pydantic import BaseModel
common = dict(base_url=os.environ["URL"], api_key=os.environ["KEY"])
chat = ChatOpenAI(model="talker", max_tokens=16, **common)
parts = [SystemMessage([{"type": "text", "text": "Be brief."}]), HumanMessage([{"type": "text", "text": "the cat"}])]
out = {"parts": chat.invoke(parts).content}
out["streamed"] = "".join(chunk.content for chunk in chat.stream("the cat sat"))
responses = ChatOpenAI(model="talker", max_tokens=16, use_responses_api=True, **common)
out["responses"] = responses.invoke("the cat sat").text
out["responses streamed"] = "".join(chunk.text for chunk in responses.stream("the cat sat"))

class Answer(BaseModel):
    yes: bool

roomy = ChatOpenAI(model="talker", max_tokens=400, temperature=0, **common)
out["structured"] = isinstance(roomy.with_structured_output(Answer).invoke("is it?"), Answer)
out["called"] = roomy.bind_tools([Answer], tool_choice="any").invoke("is it?").tool_calls[0]["name"]
try:  # by default, it sends ids of OpenAI's tokenizer, where it has that
    OpenAIEmbeddings(model="lstm", **common).embed_query("ka vi")
except Exception as error:
    out["ids"] = str(error)
print(json.dumps(out))
"""


def test_langchain_talks(serving: Serving) -> None:
    out = run(LANGCHAIN_CHAT, serving, client="langchain")
    assert all(isinstance(out[name], str) for name in ("parts", "streamed", "responses", "responses streamed"))
    assert (out["structured"], out["called"]) == (True, "Answer")


LITELLM = """
import json, os
import litellm
litellm.suppress_debug_info = True
common = dict(api_base=os.environ["URL"], api_key=os.environ["KEY"])
talk = [{"role": "user", "content": "the cat sat"}]
out = {}
whole = litellm.completion(model="openai/talker", messages=talk, max_tokens=8, seed=3, **common)
out["text"] = whole.choices[0].message.content
chunks = litellm.completion(model="openai/talker", messages=talk, max_tokens=8, seed=3, stream=True, **common)
out["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
plain = litellm.text_completion(model="text-completion-openai/ngram", prompt="ka vi", max_tokens=6, seed=3, **common)
out["plain"] = plain.choices[0].text
vectors = litellm.embedding(model="openai/lstm", input=["ka vi"], encoding_format="float", **common)
out["vector"] = vectors.data[0]["embedding"]
out["response"] = litellm.responses(model="openai/talker", input="the cat", max_output_tokens=16, **common).status
try:
    litellm.completion(model="openai/talker", messages=talk, max_tokens=4096, **common)
except litellm.ContextWindowExceededError as error:
    out["too long"] = str(error)
print(json.dumps(out))
"""


def test_litellm(serving: Serving) -> None:
    out = run(LITELLM, serving, client="litellm", LITELLM_LOCAL_MODEL_COST_MAP="True")
    assert out["text"] == out["streamed"]
    model = chainrule.load(serving.folders["ngram"])
    expected = model.generate("ka vi", limits=chainrule.Limits(max_tokens=6), seed=3)[0]
    assert out["plain"] == expected.removeprefix("ka vi")
    vector = chainrule.load(serving.folders["lstm"], chainrule.CausalNetwork).embed(["ka vi"])[0]
    np.testing.assert_allclose(out["vector"], vector, atol=1e-6)
    assert out["response"] in ("completed", "incomplete")
    assert "maximum context length is 4,096 tokens" in out["too long"]


# What Continue's provider `openai` sends: chat; completion at the cursor, with the tokens of gaps in the prompt; and,
# for servers that it knows to have it, prompt and suffix apart.
CONTINUE = [
    (
        "chat/completions",
        {
            "messages": [
                {"role": "system", "content": "You are in chat mode."},
                {"role": "user", "content": [{"type": "text", "text": "the cat"}, {"type": "text", "text": "sat"}]},
            ],
            "model": "talker",
            "max_tokens": 64,
            "temperature": 0.5,
            "stream": True,
        },
    ),
    (
        "completions",
        {
            "prompt": "<fim_prefix>the cat<fim_suffix> the mat<fim_middle>",
            "model": "talker",
            "max_tokens": 32,
            "temperature": 0.01,
            "stream": True,
            "stop": ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<|endoftext|>", "/src/", "```"],
        },
    ),
    (
        "completions",
        {
            "prompt": "the cat",
            "suffix": " the mat",
            "model": "talker",
            "max_tokens": 32,
            "stop": ["```"],
            "stream": True,
        },
    ),
]


def test_requests_of_an_editor(serving: Serving) -> None:
    address = urlsplit(serving.recorder.url("Continue"))
    for route, body in CONTINUE:
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}", "api-key": KEY}
        connection.request("POST", f"{address.path}/{route}", json.dumps(body), headers)
        answer = connection.getresponse()
        lines = [line for line in answer.read().decode().split("\n") if line]
        assert (answer.status, lines[-1]) == (200, "data: [DONE]")
        events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert events[-1]["choices"][0]["finish_reason"] in ("stop", "length")


TALKED = """
import json, os
import lm_eval
from lm_eval.tasks import TaskManager
url, key = os.environ["URL"], os.environ["KEY"]
results = lm_eval.simple_evaluate(
    model="local-chat-completions",
    model_args=f"model=talker,base_url={url}/chat/completions,num_concurrent=1",
    tasks=["talked"],
    task_manager=TaskManager(include_path=os.getcwd(), include_defaults=False),
    apply_chat_template=True,
    log_samples=True,
    bootstrap_iters=0,
)
print(json.dumps([sample["filtered_resps"][0] for sample in results["samples"]["talked"]]))
"""


def test_lm_evaluation_harness_with_conversations(serving: Serving) -> None:
    (serving.home / "talks.jsonl").write_text('{"context": "the cat sat"}\n')
    (serving.home / "talked.yaml").write_text(
        "task: talked\ndataset_path: json\ndataset_kwargs: {data_files: {test: talks.jsonl}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{context}}'\ndoc_to_target: context\n"
        "generation_kwargs: {until: [never, '</s>'], max_gen_toks: 8, temperature: 0, do_sample: false}\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    [text] = run(TALKED, serving, client="lm_eval")
    model, sampling = chainrule.load(serving.folders["talker"]), chainrule.SamplingConfig(temperature=0)
    messages = [{"role": "user", "content": "the cat sat"}]
    assert text == model.chat(messages, sampling, chainrule.Limits(max_tokens=8), seed=1)


PLUGIN = """
import json, subprocess, sys
def llm(*arguments):
    command = [sys.executable, "-m", "llm", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.rstrip("\\n") if done.returncode == 0 else done.stderr

settings = ["-o", "max_tokens", "6", "-o", "seed", "3"]
out = {"text": llm("-m", "chainrule:ngram", "ka vi", *settings), "next": llm("-c", "sa", *settings)}
out["whole"] = llm("-m", "chainrule:ngram", "ka vi", *settings, "-o", "log_prob", "1")
out["log"] = json.loads(llm("logs", "--json", "-n", "1"))[0]["response_json"]
out["system"] = llm("-m", "chainrule:ngram", "--system", "be brief", "ka vi")
print(json.dumps(out))
"""


def test_the_plugin_for_llm(serving: Serving) -> None:
    """Without a server. A conversation goes on with -c, which names no model."""
    out = run(PLUGIN, serving, client="llm", OPENAI_API_KEY="")
    model = chainrule.load(serving.folders["ngram"])
    limits = chainrule.Limits(max_tokens=6)
    [expected] = model.sample("ka vi", limits=limits, seed=3)
    assert out["text"] == out["whole"] == expected.continuation
    assert out["next"] == model.sample("sa", limits=limits, seed=3)[0].continuation
    assert out["log"]["tokens"] == expected.tokens
    assert out["log"]["log_prob"] == pytest.approx(expected.log_prob, abs=1e-6)
    assert "no chat template" in out["system"]


TASKS = """
import json, sys, os
import lm_eval
from lm_eval.tasks import TaskManager
model, batch, concurrent = sys.argv[1], sys.argv[2], sys.argv[3]
url, key = os.environ["URL"], os.environ["KEY"]
settings = f"model={model},base_url={url}/completions,max_length=2048,num_concurrent={concurrent},auth_token={key}"
results = lm_eval.simple_evaluate(
    model="local-completions",
    model_args=settings,
    batch_size=int(batch),
    tasks=["chosen", "rolled", "written"],
    task_manager=TaskManager(include_path=os.getcwd(), include_defaults=False),
    log_samples=True,
    bootstrap_iters=0,
)
samples = {
    "chosen": [[pair[0] for pair in sample["filtered_resps"]] for sample in results["samples"]["chosen"]],
    "greedy": [[pair[1] for pair in sample["filtered_resps"]] for sample in results["samples"]["chosen"]],
    "rolled": [sample["filtered_resps"][0] for sample in results["samples"]["rolled"]],
    "written": [sample["filtered_resps"][0] for sample in results["samples"]["written"]],
}
print(json.dumps({"samples": samples, "accuracy": results["results"]["chosen"]["acc,none"]}))
"""
CHOICES = ["vi", "nin sa", "man"]
CONTEXTS = ["ka", "sa man ka", "nin"]
COMMON = "dataset_path: json\ndataset_kwargs: {data_files: {test: data.jsonl}}\ntest_split: test\n"


@pytest.mark.parametrize("family", ["ngram", "lstm", "transformer"])
def test_lm_evaluation_harness(serving: Serving, family: str) -> None:
    rows = [{"context": context, "choices": CHOICES, "gold": i} for i, context in enumerate(CONTEXTS)]
    (serving.home / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (serving.home / "chosen.yaml").write_text(
        f"task: chosen\n{COMMON}output_type: multiple_choice\ndoc_to_text: '{{{{context}}}}'\n"
        "doc_to_choice: choices\ndoc_to_target: gold\nmetric_list: [{metric: acc}]\n"
    )
    (serving.home / "rolled.yaml").write_text(
        f"task: rolled\n{COMMON}output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{{{context}}}}'\n"
        "metric_list: [{metric: bits_per_byte}]\n"
    )
    (serving.home / "written.yaml").write_text(
        f"task: written\n{COMMON}output_type: generate_until\ndoc_to_text: '{{{{context}}}}'\ndoc_to_target: gold\n"
        "generation_kwargs: {until: ['\\n', 'never here', '</s>'], max_gen_toks: 5, temperature: 0, do_sample: false}\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    outs = [
        run(TASKS, serving, family, batch, concurrent, client="lm_eval")
        for batch, concurrent in (("1", "1"), ("8", "4"))
    ]
    model = chainrule.load(serving.folders[family])
    engine, encode = model.language_model, lambda text: model.tokenizer.encode_texts([text]).ids[:-1]
    for out in outs:
        samples = out["samples"]
        for context, log_probs, greedy in zip(CONTEXTS, samples["chosen"], samples["greedy"], strict=True):
            for choice, log_prob, is_greedy in zip(CHOICES, log_probs, greedy, strict=True):
                prefix, rest = encode(context), encode(f"{context} {choice}")[len(encode(context)) :]
                [expected] = engine.score([rest], prefixes=[prefix], end=False)
                assert math.isclose(log_prob, expected.sum(), abs_tol=1e-4)
                best = engine.top(engine.start([prefix]), 1)[1][0, 0]
                assert is_greedy == (len(rest) == 1 and best == rest[0]) or len(rest) > 1
        for context, log_prob in zip(CONTEXTS, samples["rolled"], strict=True):
            [expected] = engine.score([encode(context)], end=False)
            assert math.isclose(log_prob, expected.sum(), abs_tol=1e-4)
        for context, text in zip(CONTEXTS, samples["written"], strict=True):
            sampling, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=5)
            assert text == model.generate(context, 1, sampling, limits, seed=1)[0].removeprefix(context)
    np.testing.assert_allclose(outs[0]["samples"]["chosen"], outs[1]["samples"]["chosen"], atol=1e-4)
    assert outs[0]["accuracy"] == outs[1]["accuracy"]
    assert outs[0]["samples"]["written"] == outs[1]["samples"]["written"]


def test_the_table_of_clients(serving: Serving) -> None:
    """Last, and only after all others: what was noted becomes the table in bench/results/clients.md."""
    clients = [*PACKAGES, "Continue"]
    calls = serving.recorder.calls
    if {call.client for call in calls} != set(clients):
        pytest.skip("not all clients have run")
    assert not [call for call in calls if call.status >= 500]
    code = (
        f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(p) for n, p in {PACKAGES!r}.items()}}))"
    )
    versions = run(code, serving, client="openai")
    write_table(table_of(calls, {**versions, "Continue": "(recorded)"}))
