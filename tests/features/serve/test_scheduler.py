"""The scheduler: texts that do not depend on their neighbours, budgets, requests that go away, failures."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.base.threads import pause
from chainrule.decoding.shared_prefixes import position_tops
from chainrule.features.serve.bodies import ApiError, CompletionBody, EmbeddingBody, ScoreBody
from chainrule.features.serve.config import ServerLimits
from chainrule.features.serve.generation import scheduler
from chainrule.features.serve.generation.completions import CompletionAnswer
from chainrule.features.serve.generation.scheduler import _next_piece
from chainrule.features.serve.generation.tokens import json_bytes
from chainrule.features.serve.generation.work import Call, PendingRequest
from chainrule.features.serve.models import ServedModel
from chainrule.features.serve.service import Service
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path


def served_model(folder: Path, drafting: chainrule.Drafting | None = None, **limits: Any) -> ServedModel:
    """A model that takes requests of any length: the scheduler reads what does not fit in windows."""
    served = ServedModel("lm", chainrule.load(folder), "fp", ServerLimits(**limits), drafting=drafting)
    served.context = None
    return served


def run(work: Awaitable[Any]) -> Any:
    async def soon() -> Any:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(soon())


def bodies(count: int, longest: int) -> list[dict[str, Any]]:
    chance = random.Random(4)
    words = ["ka", "vi", "sa", "nin", "man"]
    return [
        {
            "prompt": " ".join(chance.choices(words, k=chance.randint(0, longest))),
            "max_tokens": chance.randint(1, 20),
            "n": chance.choice([1, 1, 1, 3]),
            "seed": chance.randint(0, 5),
            "temperature": chance.choice([0, 0.5, 1, 1, 1.5]),
            "top_p": chance.choice([None, 0.8]),
            "frequency_penalty": chance.choice([None, 0.5]),
            "logprobs": chance.choice([None, 0, 3]),
            "echo": chance.choice([False, True]),
            "stop": chance.choice([None, ["ka"]]),
        }
        for _ in range(count)
    ]


async def answers(served: ServedModel, wanted: list[dict[str, Any]], *, at_once: bool) -> list[Any]:
    chance = random.Random(5)

    async def answer(body: dict[str, Any]) -> Any:
        if at_once:
            await asyncio.sleep(chance.random() * 0.05)
        record = await CompletionAnswer(served, CompletionBody(**body)).record()
        return json.loads(json_bytes(record["choices"])), record["usage"]

    if at_once:
        return list(await asyncio.gather(*map(answer, wanted)))
    return [await answer(body) for body in wanted]


@pytest.mark.parametrize("family", ["ngram", "likelihood", "bytes"])
def test_a_hundred_requests_are_answered_as_each_alone_bit_for_bit(folders: dict[str, Path], family: str) -> None:
    served = served_model(folders[family], rows=16, running_tokens=1000)
    wanted = bodies(100, 9)
    if family == "likelihood":  # some have no word that may follow, and fail alone, too
        wanted = [{**body, "prompt": "", "n": 1, "temperature": 0} for body in wanted]
    alone = run(answers(served, wanted, at_once=False))
    assert run(answers(served, wanted, at_once=True)) == alone
    assert served.scheduler.accepted_tokens == 0
    served.scheduler.close()


@pytest.mark.parametrize("family", ["lstm", "transformer", "mixture"])
def test_neighbours_change_no_text_of_a_network(folders: dict[str, Path], family: str) -> None:
    served = served_model(folders[family], rows=16)
    wanted = bodies(30, 40)
    alone, together = (run(answers(served, wanted, at_once=at_once)) for at_once in (False, True))
    same = [
        [choice["text"] for choice in ours[0]] == [choice["text"] for choice in others[0]]
        for ours, others in zip(together, alone, strict=True)
    ]
    assert sum(same) >= 29  # rounding may turn a very close race
    for ours, others, is_same in zip(together, alone, same, strict=True):
        for one, other in zip(ours[0], others[0], strict=True):
            if is_same and one["logprobs"]:
                given, expected = (c["logprobs"]["token_logprobs"] for c in (one, other))
                np.testing.assert_allclose([p for p in given if p], [p for p in expected if p], atol=1e-4)
    served.scheduler.close()


@pytest.mark.parametrize("draft", ["prompt", "ngram"])
def test_drafts_change_no_answer_and_are_counted(folders: dict[str, Path], draft: str) -> None:
    """Alone, a request has the same bits with drafts; among others, the same text, but for very close races."""
    drafting = chainrule.Drafting(draft)
    plain, served = served_model(folders["transformer"]), served_model(folders["transformer"], drafting)
    served.scheduler.model.lengths.clock = None  # drafts depend on texts alone
    monotonous = {"prompt": "k", "max_tokens": 12, "temperature": 0, "logit_bias": {"40": 100}}
    wanted = [monotonous, *({**body, "echo": False} for body in bodies(12, 2))]
    expected = run(answers(plain, wanted, at_once=False))
    assert run(answers(served, wanted, at_once=False)) == expected
    assert 0 < drafting.accepted < drafting.drafted
    together = run(answers(served, wanted, at_once=True))
    texts = [[[choice["text"] for choice in choices] for choices, _ in some] for some in (together, expected)]
    assert sum(one == other for one, other in zip(*texts, strict=True)) >= 12
    plain.scheduler.close()
    served.scheduler.close()


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_long_prompts_in_pieces_and_from_the_cache_give_the_same(
    folders: dict[str, Path], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, config = "ka vi nin sa man ka vi nin sa", {"max_tokens": 8, "seed": 3}
    expected = chainrule.load(folders[family]).generate(prompt, seed=3, limits=chainrule.Limits(max_tokens=8))
    monkeypatch.setattr("chainrule.features.serve.generation.scheduler._PIECE", 4)
    served = served_model(folders[family])
    body = {"prompt": prompt, "echo": True, **config}
    for _ in range(2):
        [(choices, _)] = run(answers(served, [body], at_once=False))
        assert [choice["text"] for choice in choices] == expected
    read = served.scheduler.read_tokens
    [(longer, _)] = run(answers(served, [{**body, "prompt": prompt + " ka"}], at_once=False))
    if family == "lstm":
        assert served.scheduler.read_tokens - read == 3  # the rest alone
    fresh = served_model(folders[family])
    [(again, _)] = run(answers(fresh, [{**body, "prompt": prompt + " ka"}], at_once=False))
    assert longer == again


@pytest.mark.parametrize("family", ["lstm", "transformer"])
@pytest.mark.parametrize("before", [[], [5, 3, 2]])
def test_prompts_longer_than_the_context_and_of_several_documents_are_read_in_pieces(
    folders: dict[str, Path], family: str, before: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one piece, 8,192 tokens held SmolLM2 for a minute and a half, even after their client had gone."""
    monkeypatch.setattr("chainrule.features.serve.generation.scheduler._PIECE", 4)
    served = served_model(folders[family])
    model: Any = served.scheduler.model
    prompt = [*before, *[5, 3, 9, 4, 7] * 8]  # 40 tokens; the transformer's context is 16
    expected = model.next_log_probs(model.start([np.array(prompt, np.int32)]))[0]
    lengths, read = [], model.read

    def noted_read(sequences: list[Any], state: Any) -> Any:
        lengths.append(len(sequences[0]))
        return read(sequences, state)

    monkeypatch.setattr(model, "read", noted_read)
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 1}
    [(choices, _)] = run(answers(served, [body], at_once=False))
    assert choices[0]["logprobs"]["token_logprobs"][0] == pytest.approx(expected.max(), abs=1e-4)
    assert max(lengths) <= 4
    assert len(lengths) > 2
    served.scheduler.close()


def test_pieces_of_prompts_are_as_long_as_the_machine_is_quick() -> None:
    assert [_next_piece(256, seconds) for seconds in (0.01, 0.3, 1.0, 60.0)] == [256, 256, 128, 16]
    assert [_next_piece(4, seconds) for seconds in (0.01, 0.3, 1.0, 60.0)] == [8, 4, 4, 4]


@pytest.mark.parametrize("family", sorted(["ngram", "mixture", "lstm", "transformer"]))
def test_the_likeliest_tokens_at_each_position_are_those_of_stepping(folders: dict[str, Path], family: str) -> None:
    model: Any = chainrule.load(folders[family]).language_model
    sequences = [np.array(ids, np.int32) for ids in ([5, 3, 9, 4] * 10, [], [7], [3, 2, 4, 2, 2, 5])]
    stepped = position_tops(model, sequences, 4)
    for sequence, (log_probs, ids) in zip(sequences, stepped, strict=True):
        for position in range(0 if family == "transformer" else len(sequence)):
            rows = model.next_log_probs(model.start([sequence[:position]]))[0]
            np.testing.assert_allclose(log_probs[position], np.sort(rows)[::-1][:4], atol=1e-4)
            assert rows[ids[position][0]] == pytest.approx(rows.max(), abs=1e-5)
    if FAMILIES[chainrule.load(folders[family]).family].embeds:
        short = [sequence[:15] for sequence in sequences]  # windows of a longer one begin elsewhere
        for (ours, _), (theirs, _) in zip(model.position_tops(short, 4), position_tops(model, short, 4), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_prompts_that_follow_answers_closely_begin_together(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = served_model(folders["transformer"])
    scheduler, step, start = served.scheduler, served.scheduler._step, served.scheduler.model.start
    started = []

    def noted_start(prefixes: list[Any]) -> Any:
        started.append(len(prefixes))
        return start(prefixes)

    def slow_step() -> None:
        step()
        scheduler._step_seconds = 60.0  # so that the wait ends with the last prompt, whatever the machine does

    monkeypatch.setattr(scheduler.model, "start", noted_start)
    monkeypatch.setattr(scheduler, "_step", slow_step)

    async def client(number: int) -> None:
        words = ["ka", "vi", "sa", "nin"]
        for word in words[:3]:
            body = CompletionBody(prompt=f"{words[number]} {word}", max_tokens=3, min_tokens=3)
            await CompletionAnswer(served, body).record()
            await asyncio.sleep(0.002 * number)

    async def scene() -> None:
        gate, reached = threading.Event(), threading.Event()
        scheduler.submit([Call(PendingRequest(1), lambda: (reached.set(), gate.wait()))])
        await asyncio.to_thread(reached.wait)  # or it would take the first clients along
        clients = [asyncio.ensure_future(client(number)) for number in range(4)]
        await asyncio.sleep(0)  # by now, each has asked
        gate.set()
        await asyncio.gather(*clients)

    run(scene())
    assert started == [4, 4, 4]
    served.scheduler.close()


def test_what_does_not_fit_is_refused_at_once_and_fits_later(folders: dict[str, Path]) -> None:
    served = served_model(folders["ngram"], waiting_tokens=400)
    refusal = threading.Event()  # nothing is answered before it, however long this thread is held up

    async def scene() -> None:
        served.scheduler.submit([Call(PendingRequest(1), refusal.wait)])
        first = CompletionAnswer(served, CompletionBody(prompt="ka", max_tokens=390, min_tokens=390))
        with pytest.raises(ApiError) as refused:
            CompletionAnswer(served, CompletionBody(prompt="ka", max_tokens=300, min_tokens=300))
        assert refused.value.status == 429
        assert refused.value.headers() == {"retry-after": "1"}
        refusal.set()
        await first.record()
        await CompletionAnswer(served, CompletionBody(prompt="ka", max_tokens=3)).record()

    run(scene())
    served.scheduler.close()


def test_a_request_that_goes_away_frees_its_rows(folders: dict[str, Path]) -> None:
    served = served_model(folders["ngram"])

    async def scene() -> None:
        bodies = [CompletionBody(prompt="ka", max_tokens=4000, min_tokens=4000, n=4) for _ in range(5)]
        tasks = [asyncio.ensure_future(CompletionAnswer(served, body).record()) for body in bodies]
        while served.scheduler.rows_in_use < 20:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while not served.scheduler.is_idle:
            await asyncio.sleep(0.001)

    run(scene())
    assert served.scheduler.rows_in_use == served.scheduler.accepted_tokens == 0
    served.scheduler.close()


def test_a_failing_model_fails_its_requests_and_then_counts_as_broken(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = served_model(folders["ngram"])

    def fail(*arguments: Any) -> None:
        raise RuntimeError("out of order")

    async def ask() -> None:
        await CompletionAnswer(served, CompletionBody(prompt="ka", max_tokens=3)).record()

    run(ask())
    monkeypatch.setattr(served.scheduler._batch, "step", fail)
    with pytest.raises(RuntimeError, match="out of order"):
        run(ask())
    run(ask())  # with a fresh batch
    monkeypatch.setattr("chainrule.features.serve.generation.scheduler.Batch.step", fail)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            run(ask())
    assert not served.scheduler.is_alive
    with pytest.raises(ApiError) as refused:
        run(ask())
    assert refused.value.status == 503
    served.scheduler.close()


def test_a_prompt_whose_rows_cannot_join_the_batch_fails_its_request(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = served_model(folders["ngram"])

    def fail(*arguments: Any) -> None:
        raise MemoryError("no room")

    async def ask() -> None:
        await CompletionAnswer(served, CompletionBody(prompt="ka", max_tokens=3)).record()

    with monkeypatch.context() as patched:
        patched.setattr("chainrule.features.serve.generation.scheduler.Batch.add", fail)
        with pytest.raises(MemoryError, match="no room"):
            run(asyncio.wait_for(ask(), 60))
    run(ask())
    assert served.scheduler.accepted_tokens == 0
    served.scheduler.close()


def test_calls_raise_what_they_raise_and_harm_nothing(folders: dict[str, Path]) -> None:
    served = served_model(folders["ngram"])

    async def scene() -> None:
        with pytest.raises(ZeroDivisionError):
            await served.call(lambda: 1 // 0)
        assert await served.call(lambda: 5) == 5

    run(scene())
    served.scheduler.close()
    served.scheduler.thread.join(60)
    assert not served.scheduler.thread.is_alive()


def test_work_that_is_cancelled_before_it_begins_is_never_done(folders: dict[str, Path]) -> None:
    served = served_model(folders["ngram"])

    async def scene() -> None:
        blocker, cancelled, done = PendingRequest(1), threading.Event(), []
        served.scheduler.submit([Call(blocker, cancelled.wait)])
        ticket = PendingRequest(1)
        served.scheduler.submit([Call(ticket, lambda: done.append(1))])
        served.scheduler.cancel(ticket)
        cancelled.set()
        await blocker.wait_until_done()
        await served.call(lambda: None)
        assert not done

    run(scene())
    served.scheduler.close()


LONG = "ka vi sa nin man " * 600  # of which the network reads some ten batches of windows


def services(served: ServedModel) -> Service:
    class Table:
        async def get(self, name: str | None, verb: str | None = None) -> ServedModel:
            return served

    return Service(Table(), served.limits)  # type: ignore[arg-type]


async def asked(served: ServedModel, long: str) -> Any:
    """Asks for what reads a long text as a whole."""
    service = services(served)
    if long == "score":
        return await service.score(ScoreBody(input=LONG))
    if long == "embed":
        return await service.embed(EmbeddingBody(input=LONG))
    answer = CompletionAnswer(served, CompletionBody(prompt=LONG, max_tokens=0, echo=True, logprobs=2))
    return await answer.record()


LONG_WORK = pytest.mark.parametrize("long", ["score", "embed", "echo"])


@LONG_WORK
def test_others_have_their_turn_while_a_long_text_is_read(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    monkeypatch.setattr(scheduler, "_SCORING_SECONDS", 0)
    served = served_model(folders["transformer"])
    log: list[str] = []

    async def noted(name: str, work: Awaitable[Any]) -> Any:
        answer = await work
        log.append(name)
        return answer

    async def scene() -> None:
        alone = await asked(served, long)
        prompt = CompletionBody(prompt="ka vi", max_tokens=3, temperature=0)
        first = asyncio.ensure_future(noted("long", asked(served, long)))
        while served.scheduler.is_idle:
            await asyncio.sleep(0)
        await noted("short", CompletionAnswer(served, prompt).record())
        beside = await first
        assert log == ["short", "long"]
        key = "choices" if long == "echo" else "data"
        assert json.loads(json_bytes(beside[key])) == json.loads(json_bytes(alone[key]))

    run(scene())
    assert served.scheduler.accepted_tokens == 0
    served.scheduler.close()


@LONG_WORK
def test_a_client_that_leaves_ends_the_reading_of_a_long_text(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    monkeypatch.setattr(scheduler, "_SCORING_SECONDS", 0)
    served = served_model(folders["transformer"])
    embedding, read = served.causal.language_model.network.embedding, []
    embedding.register_forward_pre_hook(lambda module, inputs: read.append(1))

    async def scene() -> int:
        await asked(served, long)
        whole = len(read)
        del read[:]
        task = asyncio.ensure_future(asked(served, long))
        while not read:
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await served.call(lambda: None)  # a round later
        return whole

    whole = run(scene())
    assert whole > 4
    assert len(read) < whole
    assert served.scheduler.is_idle
    assert served.scheduler.accepted_tokens == 0
    served.scheduler.close()


def test_begun_work_is_bounded_and_all_of_it_is_done(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_SCORING_SECONDS", 0)
    monkeypatch.setattr(scheduler, "_SLICED", 2)
    served = served_model(folders["ngram"])
    begun: set[int] = set()
    most: list[int] = []

    def work(number: int) -> int:
        begun.add(number)
        for _ in range(3):
            most.append(len(begun))
            pause()
        begun.discard(number)
        return number

    async def scene() -> list[int]:
        calls = [served.call(partial(work, number), is_long=True) for number in range(6)]
        return list(await asyncio.gather(*calls))

    assert run(scene()) == list(range(6))
    assert max(most) == 2
    served.scheduler.close()
