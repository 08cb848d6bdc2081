"""Several processes serve the shards of one model: here several threads, over the loopback address."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.base.progress import silent
from chainrule.errors import ServiceError, SettingError
from chainrule.features.serve.shards import ERROR, PADDING, ShardClient, ShardServer, open_shards
from chainrule.ngram.saving import shard_model
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.ngram.models.sharded_model import ShardedModel

ORDER = 4


@pytest.fixture(scope="module")
def model() -> chainrule.CausalModel:
    chance = np.random.default_rng(2)
    words = np.minimum(chance.zipf(1.4, (300, 12)), 50)
    texts = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    return chainrule.train(chainrule.Lines(texts), chainrule.NGramConfig(order=ORDER), tokenizer="whitespace")


@pytest.fixture(scope="module")
def cut(model) -> ShardedModel:
    return shard_model(model.language_model, 3, silent)


@contextmanager
def serving(
    cut: ShardedModel, *numbers: int, digest: str = "model", port: int = 0
) -> Iterator[tuple[ShardServer, str]]:
    with ShardServer({k: cut.shards[k] for k in numbers}, cut.edges, digest, "127.0.0.1", port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server, f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@contextmanager
def client_of(cut: ShardedModel) -> Iterator[ShardClient]:
    with ExitStack() as stack:
        addresses = [stack.enter_context(serving(cut, *numbers))[1] for numbers in ((0, 2), (1,))]
        yield stack.enter_context(ShardClient(addresses))


def test_scores_are_those_of_the_whole_model(model, cut) -> None:
    chance = np.random.default_rng(3)
    sentences = [chance.integers(3, model.vocabulary_size, 8).astype(np.int32) for _ in range(40)]
    sentences += [model.tokenizer.encode_texts(["w1 w2 w1 w1 w3 w2"]).ids[:-1]]
    expected = np.concatenate(model.language_model.score(sentences, end=False))
    ngrams = []
    for sentence in sentences:
        tokens = [PADDING] * (ORDER - 2) + [BEGIN, *sentence.tolist()]
        ngrams += [tokens[i : i + ORDER] for i in range(len(sentence))]
    with client_of(cut) as client:
        assert np.array_equal(client.score(np.array(ngrams)), expected)
        assert np.array_equal(client.score(np.array(ngrams)[:, -1:]), cut._unigrams[np.concatenate(sentences)])
        assert client.score(np.empty((0, ORDER), np.int32)).size == 0


def test_a_lost_process_is_an_error_that_names_its_shards(model, cut, tmp_path) -> None:
    model.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "big", shards=3)
    command = [sys.executable, "-m", "chainrule", "shard-serve", str(tmp_path / "big"), "--shards", "1", "--port", "0"]
    digest = open_shards(tmp_path / "big", (0,))[2]
    with (
        serving(cut, 0, 2, digest=digest) as (_, kept),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.readline()
        address = re.search(r"serving shards 1 of 3 on (\S+); Ctrl-C stops", said)[1]
        with ShardClient([kept, address], timeout=60) as client:
            ngrams = np.array([[word, 4] for word in range(3, model.vocabulary_size)])
            assert np.isfinite(client.score(ngrams)).all()
            process.kill()
            process.wait()
            with pytest.raises(ServiceError, match=rf"shard 1 at {re.escape(address)} cannot be reached: .*--shards 1"):
                client.score(ngrams)


def _ngrams_of(cut: ShardedModel, shard: int) -> np.ndarray:
    first = max(3, cut.edges[shard])
    return np.array([[word, 5] for word in range(first, cut.edges[shard + 1])][:4])


@pytest.mark.parametrize("error", [ConnectionError, ValueError])
def test_after_an_error_no_answer_of_the_call_before_is_returned(model, cut, error, monkeypatch) -> None:
    """Both processes are asked, the first one's answer or error ends the call: the other's answer is never read."""
    both = np.concatenate([_ngrams_of(cut, 0), _ngrams_of(cut, 1)])
    with serving(cut, 0) as (first, one), serving(cut, 1, 2) as (_, other), ShardClient([one, other]) as client:
        expected = client.score(np.flip(both, 0))
        with monkeypatch.context() as patch:

            def fail(rows: object) -> None:
                raise error("the first process fails")

            patch.setattr(first, "answer", fail)
            with pytest.raises(ServiceError, match=r"cannot be reached|the first process fails"):
                client.score(both)
        assert np.array_equal(client.score(np.flip(both, 0)), expected)
        assert len(set(expected.tolist())) == len(expected)  # so that another row's answer would be seen


def test_an_answer_to_another_request_is_an_error(cut) -> None:
    """A process that answers the request before, as one behind a faulty proxy would."""
    with serving(cut, 0, 1, 2) as (_, address), ShardClient([address]) as client:
        client.score(np.array([[3, 4]]))
        process = client._processes[0]
        process.send(np.array([[3, PADDING, PADDING, PADDING]], np.int32))  # and nobody reads its answer
        with pytest.raises(ServiceError, match="answered request 2 with 1 rows; expected request 3 with 2"):
            client.score(np.array([[3, 4]]))
        assert client.score(np.array([[3, 4]])).size == 1


def test_shards_of_two_models_with_one_vocabulary_are_refused(cut, tmp_path) -> None:
    """Other discounts: the same words, n-grams and edges, other probabilities."""
    texts = chainrule.Lines(["a b c a b d a c d b", "b c d a d c b a"])
    opened = []
    for name, discount in (("one", 0.3), ("other", 0.6)):
        config = chainrule.NGramConfig(order=2, smoothing="kneser-ney", discount=(discount,))
        model = chainrule.train(texts, config, tokenizer="whitespace")
        model.save(tmp_path / name)
        chainrule.convert(tmp_path / name, tmp_path / f"{name}-big", shards=2)
        opened.append(open_shards(tmp_path / f"{name}-big", ()))
    assert opened[0][0] == opened[1][0]
    servers = [ShardServer({k: opened[k][1][k]}, opened[k][0], opened[k][2], "127.0.0.1", 0) for k in range(2)]
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
        addresses = [f"127.0.0.1:{server.server_address[1]}" for server in servers]
        with pytest.raises(ServiceError, match="serve shards of different models"):
            ShardClient(addresses)


def test_a_process_that_comes_back_with_another_model_is_refused(cut) -> None:
    with ExitStack() as stack:
        _, address = stack.enter_context(serving(cut, 0, 1, 2))
        client = stack.enter_context(ShardClient([address]))
        client.close()
        stack.pop_all().close()
    with (
        serving(cut, 0, 1, 2, digest="another", port=int(address.split(":")[1])),
        pytest.raises(ServiceError, match="serves another model than before; make a new ShardClient"),
    ):
        client.score(np.array([[3, 4]]))


def test_a_shard_that_nobody_serves_is_named(cut) -> None:
    with (
        serving(cut, 0, 2) as (_, address),
        pytest.raises(ServiceError, match="shard 1 is served nowhere, of 3"),
    ):
        ShardClient([address])


@pytest.mark.parametrize(
    ("ngrams", "message"),
    [
        ([[99_999_999, 4]], "99999999 is not a word id; expected 0 to"),
        ([[-2, 4]], "-2 is not a word id"),
        ([[3, PADDING, 4]], "-1 is allowed only at the beginning of a row"),
        ([[3, PADDING]], "each has a last word"),
        ([[1.5, 2.0]], "expected an array of ids of words"),
        ([[1, 2], [3]], "expected an array of ids of words"),
        ([3, 4], "expected an array of ids of words"),
        ([[1] * 9], "n-grams x 1 to"),
        ("abc", "expected an array of ids of words"),
    ],
    ids=str,
)
def test_what_is_no_ngram_is_refused(cut, ngrams, message) -> None:
    with client_of(cut) as client, pytest.raises(SettingError, match=message):
        client.score(ngrams)


def test_bad_addresses_are_refused() -> None:
    with pytest.raises(SettingError, match="expected a list of them, such as"):
        ShardClient("127.0.0.1:9000")
    with pytest.raises(SettingError, match="'here' is not an address; expected host:port"):
        ShardClient(["here"])
    with pytest.raises(SettingError, match="no address of shards is given"):
        ShardClient([])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(ServiceError, match=r"no shards are served there: .*refused"):
            ShardClient([f"127.0.0.1:{closed.getsockname()[1]}"])


def test_words_outside_of_the_vocabulary_are_refused_and_the_connection_lives(cut) -> None:
    with client_of(cut) as client:
        client.vocabulary_size = 10**7  # so that the servers have to refuse
        with pytest.raises(ServiceError, match="a row has a number that is not a word id; expected 0 to"):
            client.score(np.array([[3, 10**6]]))
        assert client.score(np.array([[3, 4]])).size == 1


def test_garbage_ends_a_connection_and_not_the_server(cut) -> None:
    with serving(cut, 0, 1, 2) as (server, address):
        host, port = address.split(":")
        for request in (b"\0\0\0\0\xff\xff\xff\x7f", b"\0\0\0\0\x01\0\0\0abc", b"GET", b""):
            with socket.create_connection((host, int(port)), 5) as connection, connection.makefile("rb") as file:
                file.readline()
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                answer = file.read()
                assert answer[4:8] in (b"", ERROR.to_bytes(4, "little"))
        with ShardClient([address]) as client:
            assert client.score(np.array([[3, 4]])).size == 1
        with pytest.raises(ValueError, match="shard 1 is not served here, only 0"):
            ShardServer.answer(_only_first(server), np.array([[cut.edges[1], PADDING, PADDING, PADDING]], np.int32))


def _only_first(server: ShardServer) -> ShardServer:
    server.shards = {0: server.shards[0]}
    return server
