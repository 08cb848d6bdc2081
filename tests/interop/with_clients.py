"""Unchanged clients against `chainrule serve`: openai, llm, LangChain and lm-evaluation-harness (make test-clients).

CLIENTS names the Python of an environment with their packages. The server runs as a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import chainrule

sys.path.insert(0, str(Path(__file__).parents[1] / "open_models"))
from test_chat_templates import TEMPLATES, Talker

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = os.environ.get("CLIENTS", ".clients/bin/python")
FIXTURES = Path(__file__).parents[1] / "fixtures"
KEY = "abcdefgh12345678"


class Serving(NamedTuple):
    url: str
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
    Talker(TEMPLATES["chatml"], folders["talker"])
    (home / "key.txt").write_text(KEY + "\n")
    command = [sys.executable, "-m", "chainrule", "serve", *map(str, folders.values()), "--port", "0"]
    server = subprocess.Popen([*command, "--api-key-file", str(home / "key.txt")], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    words = server.stdout.readline().split()
    yield Serving(next(word for word in words if word.startswith("http")).rstrip(";"), folders, home)
    server.terminate()
    server.stdout.close()
    assert server.wait(20) in (0, -15, 143)


def run(code: str, serving: Serving, *arguments: str, **environment: str) -> Any:
    """What a client's program prints, as JSON."""
    own = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "URL": serving.url,
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
    out = run(OPENAI, serving)
    model = chainrule.load(serving.folders["ngram"])
    assert out["models"] == ["ngram", "lstm", "transformer", "talker"]
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
    assert "no chat template" in out["chat"]


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
    out = run(LANGCHAIN, serving)
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
        "api_base": serving.url,
        "api_key_name": "k",
        "completion": True,
    }
    (serving.home / "keys.json").write_text(json.dumps({"k": KEY}))
    (serving.home / "extra-openai-models.yaml").write_text(f"- {json.dumps(entry)}\n")
    out = run(LLM, serving)
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
    model="talker", base_url=os.environ["URL"], api_key=os.environ["KEY"], max_tokens=12, seed=3, temperature=0.7,
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
    entry = {"model_id": "talker", "model_name": "talker", "api_base": serving.url, "api_key_name": "k"}
    (serving.home / "keys.json").write_text(json.dumps({"k": KEY}))
    (serving.home / "extra-openai-models.yaml").write_text(f"- {json.dumps(entry)}\n")
    out = run(CHAT, serving)
    sampling = chainrule.SamplingConfig(temperature=0.7, top_p=0.9)
    model = chainrule.load(serving.folders["talker"])
    messages = [{"role": "user", "content": "the cat sat"}]
    expected = model.chat(messages, sampling, chainrule.Limits(max_tokens=12), seed=3)
    assert out["text"] == out["streamed"] == out["langchain"] == expected
    assert out["llm"].rstrip("\n") == expected.rstrip("\n")
    assert len(out["log_probs"]) == len(out["tops"]) == out["tokens"]
    assert all(log_prob < 0 for log_prob in out["log_probs"])
    assert set(out["tops"]) == {2}


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
    [text] = run(TALKED, serving)
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
    out = run(PLUGIN, serving, OPENAI_API_KEY="")
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
    outs = [run(TASKS, serving, family, batch, concurrent) for batch, concurrent in (("1", "1"), ("8", "4"))]
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
