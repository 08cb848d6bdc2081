"""Networks over graphs beside an LSTM on the same data: shortest paths, Euler circuits, words, pictures.

    python bench/graphs.py [--parts algorithms batching words pictures] [--ewt DIR] [--nlvr DIR] [--seeds 3]
                           [--tasks NAME ...] [--networks NAME ...]

algorithms: the two tasks of Li et al. 2016, section 5.2, learned from 50 graphs: 5 nodes and 4 of a graph beside them
that is not connected; then 15 and 12. A network chooses one node after the other until it chooses the node `end`, as
their GGS-NN with observed annotations; a sequence counts as right if all of it is. The LSTM reads the list of edges.
batching: a batch of graphs against graph by graph. words: parts of speech and dependency relations of EWT, with the
gold tree as the graph; DIR has train.conllu.gz and dev.conllu.gz. pictures: the shape of each pixel of NLVR's scenes,
by superpixels, with and without edges; DIR has train.zip, train.jsonl.gz, valid.zip and valid.jsonl.gz.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx
import numpy as np
from machine import circumstances

import chainrule
from chainrule import ClassifierTrainingConfig, Edge, Graph, Labelled
from chainrule.features.classify.network.config import BagLabelling, LSTMLabelling
from chainrule.features.trees.config import GraphLabelling
from chainrule.features.trees.structures.graph import labelled

if TYPE_CHECKING:
    from collections.abc import Callable

NEXT, OTHER, END = "next", "other", "end"
STEPS = {"gated": 5, "lstm": 3}
SHAPES = ["background", "circle", "square", "triangle"]
BACKGROUND = 211  # in all three colours


@dataclass(frozen=True)
class Question:
    """An undirected graph, whose last node is `end` and has no edge; what is known at first; the nodes to be chosen."""

    nodes: int
    edges: list[tuple[int, int]]
    given: list[int]  # the first nodes of the sequence
    goal: int | None
    answer: list[int]
    names: list[str]


def shortest_path(size: int, beside: int, chance: np.random.Generator) -> Question:
    """The only shortest way between two nodes, of three nodes at least."""
    while True:
        graph = networkx.connected_watts_strogatz_graph(size, 3, 0.5, seed=int(chance.integers(1 << 31)))
        source, target = chance.permutation(size)[:2].tolist()
        paths = list(networkx.all_shortest_paths(graph, source, target))
        if len(paths) == 1 and len(paths[0]) >= 3:
            break
    other = networkx.connected_watts_strogatz_graph(beside, 3, 0.5, seed=int(chance.integers(1 << 31)))
    return _question(graph, other, paths[0][:1], target, paths[0][1:], chance)


def euler_circuit(size: int, beside: int, chance: np.random.Generator) -> Question:
    """The way around a ring, of which the first two nodes are given."""
    graph = _ring(size, chance)
    way = [edge[0] for edge in networkx.eulerian_circuit(graph)]
    return _question(graph, _ring(beside, chance), way[:2], None, way[2:], chance)


def _ring(size: int, chance: np.random.Generator) -> networkx.Graph:
    while True:
        graph = networkx.random_regular_graph(2, size, seed=int(chance.integers(1 << 31)))
        if networkx.is_connected(graph):
            return graph


def _question(
    graph: networkx.Graph, other: networkx.Graph, given: list[int], goal: int | None, rest: list[int],
    chance: np.random.Generator,
) -> Question:  # fmt: skip
    size = len(graph) + len(other)
    moved = chance.permutation(size).tolist()
    both = [*graph.edges, *((a + len(graph), b + len(graph)) for a, b in other.edges)]
    edges = [(moved[a], moved[b]) for i in chance.permutation(len(both)).tolist() for a, b in [both[i]]]
    names = [str(name) for name in range(size)]
    return Question(
        size + 1, edges, [moved[node] for node in given], None if goal is None else moved[goal],
        [*(moved[node] for node in rest), size], [*names, END],
    )  # fmt: skip


def as_graph(question: Question, chosen: list[int]) -> Graph:
    """What a network sees after some nodes were chosen: where it is, where it has been, its goal."""
    words: list[str | None] = [None] * question.nodes
    for node in chosen:
        words[node] = "passed"
    if question.goal is not None and words[question.goal] is None:
        words[question.goal] = "goal"
    words[chosen[-1]] = "here" if chosen[-1] != question.goal else "arrived"
    words[-1] = END
    return Graph(tuple(words), tuple(Edge(*ends) for a, b in question.edges for ends in ((a, b), (b, a))))


def as_text(question: Question, chosen: list[int]) -> str:
    """The list of edges, then the question, then what was chosen."""
    names = question.names
    edges = " ".join(f"{names[a]} {names[b]} ;" for pair in question.edges for a, b in (pair, pair[::-1]))
    goal = "" if question.goal is None else f" to {names[question.goal]}"
    return f"{edges} from {' '.join(names[node] for node in chosen[: len(question.given)])}{goal} by " + " ".join(
        names[node] for node in chosen[len(question.given) :]
    )


def steps_of(question: Question) -> list[tuple[list[int], int]]:
    """The nodes chosen before each step, and the one to choose."""
    return [([*question.given, *question.answer[:i]], node) for i, node in enumerate(question.answer)]


def answered(questions: list[Question], choose: Callable[[list[tuple[Question, list[int]]]], list[int]]) -> float:
    """The share of questions with all nodes right. choose: the next node of each question."""
    chosen = [list(question.given) for question in questions]
    wrong = [False] * len(questions)
    for step in range(max(len(question.answer) for question in questions)):
        left = [i for i, question in enumerate(questions) if not wrong[i] and step < len(question.answer)]
        if not left:
            break
        for i, node in zip(left, choose([(questions[i], chosen[i]) for i in left]), strict=True):
            wrong[i] = node != questions[i].answer[step]
            chosen[i].append(node)
    return 1 - sum(wrong) / len(questions)


def measure_graph_network(questions: list[Question], tests: list[list[Question]], cell: str, seed: int) -> list[float]:
    examples = []
    for question in questions:
        for before, node in steps_of(question):
            labels = tuple(NEXT if i == node else OTHER for i in range(question.nodes))
            examples.append(labelled(replace(as_graph(question, before), labels=labels), "node"))
    network = GraphLabelling(
        cell=cell, width=32, embedding_width=16, dropout=0.0, directions="forward", steps=STEPS[cell]
    )
    training = ClassifierTrainingConfig(epochs=150, patience=150, batch=16, learning_rate=5e-3, seed=seed)
    model = chainrule.train_classifier(examples, network, unit="node", training=training, progress=False)
    column = model.classifier.labels.index(NEXT)

    def choose(asked: list[tuple[Question, list[int]]]) -> list[int]:
        found = model.classify([as_graph(question, before) for question, before in asked])
        return [int(rows.log_probs[:, column].argmax()) for rows in found]

    return [answered(own, choose) for own in tests]


def measure_lstm(questions: list[Question], tests: list[list[Question]], seed: int) -> list[float]:
    examples = [
        Labelled(as_text(question, before), (question.names[node],))
        for question in questions
        for before, node in steps_of(question)
    ]
    network = LSTMLabelling(width=64, embedding_width=32, dropout=0.0)
    training = ClassifierTrainingConfig(epochs=60, patience=60, batch=16, learning_rate=5e-3, seed=seed)
    model = chainrule.train_classifier(examples, network, training=training, tokenizer="whitespace", progress=False)

    def choose(asked: list[tuple[Question, list[int]]]) -> list[int]:
        found = model.classify([as_text(question, before) for question, before in asked])
        names = [rows.best[0][0] for rows in found]
        return [
            question.names.index(name) if name in question.names else -1
            for name, (question, _) in zip(names, asked, strict=True)
        ]

    return [answered(own, choose) for own in tests]


def measure_algorithm(name: str, questions: list[Question], tests: list[list[Question]], seed: int) -> list[float]:
    """The shares that are right of each set of tests."""
    if name == "LSTM on the edges":
        return measure_lstm(questions, tests, seed)
    return measure_graph_network(questions, tests, "lstm" if name == "Graph LSTM" else "gated", seed)


def measure_algorithms(options: argparse.Namespace) -> None:
    for task, make in (("shortest path", shortest_path), ("Euler circuit", euler_circuit)):
        if options.tasks and task not in options.tasks:
            continue
        chance = np.random.default_rng(1)
        tests = [[make(5 * k, 4 * k, chance) for _ in range(options.tests // k**2)] for k in (1, 3)]
        trained = [[make(5, 4, chance) for _ in range(options.graphs)] for _ in range(options.seeds)]
        for name in ("gated graph network", "Graph LSTM", "LSTM on the edges"):
            if name not in options.networks:
                continue
            began = time.perf_counter()
            shares = [measure_algorithm(name, own, tests, seed) for seed, own in enumerate(trained)]
            own, larger = (" ".join(f"{100 * share:.1f}" for share in column) for column in zip(*shares, strict=True))
            print(
                f"{task}, {options.graphs} graphs: {name:<20} {own} % right; three times as large: {larger} % "
                f"({time.perf_counter() - began:.0f} s)",
                flush=True,
            )


def measure_batching(options: argparse.Namespace) -> None:
    """128 graphs of 20 nodes and 4 types of edges, forward and back."""
    import torch

    from chainrule.features.trees.graph_networks import GraphBody
    from chainrule.features.trees.structures.arrays import GraphArrays

    torch.set_num_threads(1)
    chance = np.random.default_rng(0)
    graphs = []
    for _ in range(128):
        sources, targets, types = (
            chance.integers(20, size=40),
            chance.integers(20, size=40),
            chance.integers(4, size=40),
        )
        words, none = chance.integers(3, 100, 20), np.empty((20, 0), np.float32)
        graphs.append(GraphArrays(words, none, sources, targets, types, np.arange(20)))
    for cell in ("gated", "lstm"):
        torch.manual_seed(0)
        network = GraphLabelling(cell=cell, width=100, embedding_width=100, dropout=0.0, edge_types=tuple("abcd"))
        body = GraphBody(network, 100, "node").eval()

        def timed(run: Callable[[], Any]) -> tuple[float, Any]:
            best = float("inf")
            for _ in range(3):
                began = time.perf_counter()
                found = run()
                found.sum().backward()
                best = min(best, time.perf_counter() - began)
            return best, found

        together, batched = timed(lambda body=body: body(graphs))
        alone, one = timed(lambda body=body: torch.cat([body([graph]) for graph in graphs]))
        print(
            f"{cell}: 128 graphs, 2,560 nodes, 5,120 edges: {1e3 * together:.0f} ms in a batch, {1e3 * alone:.0f} ms "
            f"graph by graph, {alone / together:.1f} times; greatest difference "
            f"{float((batched - one).detach().abs().max()):.1e}",
            flush=True,
        )


def relations(name: Path) -> list[Any]:
    """The sentences of a file, whose nodes are labelled with the relation to their head, without its subtype."""
    import gzip

    graphs = chainrule.read_graphs(name, "node")
    with gzip.open(name, "rt", encoding="utf-8") as file:
        columns = [line.split("\t") for line in file if line[:1].isdigit()]
    names = iter([row[7].partition(":")[0] for row in columns if row[0].isdecimal()])
    return [labelled(replace(own.input, labels=tuple(next(names) for _ in own.input.nodes)), "node") for own in graphs]


def measure_words(options: argparse.Namespace) -> None:
    files = [options.ewt / "train.conllu.gz", options.ewt / "dev.conllu.gz"]
    tasks = {
        "parts of speech": [chainrule.read_graphs(name, "node") for name in files],
        "relations": [relations(name) for name in files],
    }
    training = ClassifierTrainingConfig(batch=32, learning_rate=2e-3, epochs=options.epochs, patience=options.epochs)
    networks = {
        "bag": BagLabelling(),
        "two-directional LSTM": LSTMLabelling(width=150, dropout=0.3, directions="both"),
        "gated graph network": GraphLabelling(width=150, dropout=0.3, steps=3),
        "Graph LSTM": GraphLabelling(cell="lstm", width=100, dropout=0.3, steps=2),
    }
    for task, (train, dev) in tasks.items():
        if options.tasks and task not in options.tasks:
            continue
        for name, network in networks.items():
            if name not in options.networks:
                continue
            given = [train, dev]
            if not isinstance(network, GraphLabelling):
                given = [[Labelled(each.input.text(), each.labels) for each in own] for own in given]
            results = []
            for seed in range(options.seeds):
                model = chainrule.train_classifier(
                    given[0], network, unit="node" if isinstance(network, GraphLabelling) else "word",
                    tokenizer="whitespace", training=replace(training, seed=seed), progress=False,
                )  # fmt: skip
                results.append(model.assess(given[1]))
            low, high = results[0].accuracy.interval
            shares = [result.accuracy.share for result in results]
            seconds = model.record["training_seconds"] / max(1, model.record["epochs"])
            print(
                f"EWT, {task}: {name:<22}{100 * statistics.mean(shares):6.2f} % of {results[0].accuracy.pairs:,} words "
                f"(first seed {100 * low:.1f} to {100 * high:.1f}), {model.record['parameters']:,} parameters, "
                f"{seconds:.0f} s an epoch",
                flush=True,
            )


def scenes(folder: Path, part: str, count: int) -> list[tuple[Any, Any]]:
    """The pixels of boxes of NLVR, 100 x 100, and the label of each pixel, by its object."""
    import gzip
    import json
    import zipfile

    from chainrule.features.vision.pictures.codec import decode

    found: list[tuple[Any, Any]] = []
    with gzip.open(folder / f"{part}.jsonl.gz", "rt") as lines, zipfile.ZipFile(folder / f"{part}.zip") as archive:
        for line in lines:
            row = json.loads(line)
            if not row["picture"].endswith("-0.png"):
                continue  # the same scene in another order
            with archive.open(row["picture"]) as file:
                whole = decode(file)[..., :3]
            for box in range(3):
                pixels = np.ascontiguousarray(whole[:, 150 * box : 150 * box + 100])
                labels = np.zeros((100, 100), np.int64)
                for own in (own for own in row["objects"] if own["box"] == box):
                    place = slice(own["y"], own["y"] + own["size"]), slice(own["x"], own["x"] + own["size"])
                    is_object = (pixels[place].astype(int) != BACKGROUND).any(2)
                    labels[place][is_object] = SHAPES.index(own["shape"])
                found.append((pixels, labels))
            if len(found) >= count:
                return found[:count]
    return found


def measure_pictures(options: argparse.Namespace) -> None:
    """Which shape each pixel is of, by superpixels."""
    from chainrule.features.trees.structures.region_graphs import region_graph, superpixels

    sets = [scenes(options.nlvr, part, count) for part, count in (("train", 900), ("valid", 300))]
    regions = [[superpixels(pixels, 400) for pixels, _ in own] for own in sets]
    for edges in (False, True):
        train, test = (
            [region_graph(*scene[:1], where, scene[1], SHAPES) for scene, where in zip(own, places, strict=True)]
            for own, places in zip(sets, regions, strict=True)
        )
        if not edges:
            train, test = ([replace(graph, edges=()) for graph in own] for own in (train, test))
        for name, network in (
            ("gated graph network", GraphLabelling(width=64, dropout=0.0, steps=6)),
            ("Graph LSTM", GraphLabelling(cell="lstm", width=48, dropout=0.0, steps=2)),
        ):
            if name not in options.networks:
                continue
            model = chainrule.train_classifier(
                [labelled(graph, "node") for graph in train], network, unit="node", progress=False,
                training=ClassifierTrainingConfig(
                    epochs=options.epochs, patience=options.epochs, batch=16, learning_rate=4e-3
                ),
            )  # fmt: skip
            right = objects = object_pixels = best = 0
            for (_, labels), where, graph, found in zip(sets[1], regions[1], test, model.classify(test), strict=True):
                predicted = np.array([SHAPES.index(label) for label, _ in found.best])[where]
                given = np.array([SHAPES.index(str(label)) for label in graph.labels])[where]
                right += int((predicted == labels).sum())
                best += int((given == labels).sum())
                objects += int((predicted == labels)[labels > 0].sum())
                object_pixels += int((labels > 0).sum())
            pixels = 10_000 * len(sets[1])
            tag = "with edges" if edges else "without edges"
            print(
                f"NLVR, shapes by superpixels: {name}, {tag}: {100 * right / pixels:.2f} % of pixels, "
                f"{100 * objects / object_pixels:.1f} % of those of objects (background everywhere "
                f"{100 * (1 - object_pixels / pixels):.2f} %, all superpixels right {100 * best / pixels:.2f} %); "
                f"{model.record['training_seconds']:.0f} s",
                flush=True,
            )


PARTS = {
    "algorithms": measure_algorithms,
    "batching": measure_batching,
    "words": measure_words,
    "pictures": measure_pictures,
}
NETWORKS = ["gated graph network", "Graph LSTM", "LSTM on the edges", "bag", "two-directional LSTM"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--tasks", nargs="+", default=[], help="by their names as printed; by default all")
    parser.add_argument("--ewt", type=Path)
    parser.add_argument("--nlvr", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--graphs", type=int, default=50, help="to learn an algorithm from")
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=5, help="of EWT")
    options = parser.parse_args()
    print(circumstances(), flush=True)
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
