"""Networks over structures, beside an LSTM on the same data: how right they are, and how fast.

    python bench/structures.py --sst DIR --trec FILE --ewt DIR --sick TRAIN TEST [--vectors FILE] [--seeds 3]
                               [--parts sst phrases listops batching texts ewt sick]

DIR has train.txt.gz and dev.txt.gz of the Stanford Sentiment Treebank in brackets; FILE has questions, a line each:
`LOC:city What county is ...`. Accuracies are of roots: SST on its dev part, the epoch chosen on a tenth of train; of
the binary task the neutral phrases and sentences are left out. 500 questions of TREC, drawn at random, are for testing.
EWT's DIR has train.conllu.gz and dev.conllu.gz; SICK's files are JSON lines of pairs of trees with their ratings.
--vectors adds word vectors, those of lower-cased words, tuned and fixed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from listops import as_binary, as_tokens, listops
from machine import circumstances

import chainrule
from chainrule import ClassifierTrainingConfig, Labelled, Pair, TokenizerConfig
from chainrule.features.classify.network.config import (
    LABELLING,
    BagLabelling,
    ConvolutionLabelling,
    LSTMLabelling,
    TransformerLabelling,
)
from chainrule.features.trees.config import TreeLabelling
from chainrule.features.trees.structures.arrays import encode_trees
from chainrule.features.trees.structures.linearized import CLOSE, HEAD, OPEN, tree_text
from chainrule.features.trees.structures.tree import Tree, labelled
from chainrule.features.trees.structures.tree_files import read_unlabelled

if TYPE_CHECKING:
    from chainrule.features.metrics.classification import Classification

WORDS = TokenizerConfig(kind="whitespace")
LOWER = TokenizerConfig(kind="whitespace", normalise=("lower",))  # for vectors, whose words are lower-cased
BINARY = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
TRAINING = ClassifierTrainingConfig(batch=25, learning_rate=2e-3, epochs=6, patience=3)
TREE = TreeLabelling(cell="binary", width=150, embedding_width=150, dropout=0.3)
LSTM = LSTMLabelling(width=150, embedding_width=150, dropout=0.3, directions="both", pooling="max")
WAYS: dict[str, dict[str, Any]] = {"fresh": {}}  # to use word vectors


def sst(folder: Path, *, binary: bool) -> tuple[list[Any], list[Any]]:
    """Trees with labels at their nodes, and dev with labels at its roots."""
    train = [each.input for each in chainrule.read_trees(folder / "train.txt.gz", "node")]
    dev = [each.input for each in chainrule.read_trees(folder / "dev.txt.gz", "node")]
    if binary:
        train, dev = ([tree.relabelled(BINARY) for tree in trees] for trees in (train, dev))
        dev = [tree for tree in dev if tree.labels[tree.root] is not None]
        train = [tree for tree in train if any(tree.labels)]
    return [labelled(tree, "node") for tree in train], [labelled(_only_root(tree), "node") for tree in dev]


def _only_root(tree: Tree) -> Tree:
    labels = tuple(label if node == tree.root else None for node, label in enumerate(tree.labels))
    return Tree(tree.words, labels, tree.parents)


def phrases(trees: list[Any], *, roots: bool = False) -> list[Labelled]:
    """Each labelled node of trees as a text, each different one once; or the roots alone."""
    found: dict[str, str] = {}
    for each in trees:
        tree = each.input
        for node, label in enumerate(tree.labels):
            if label is not None and (not roots or node == tree.root):
                found[tree.text(node)] = label
    return [Labelled(text, (label,)) for text, label in found.items()]


def report(name: str, results: list[Classification], models: list[Any]) -> None:
    shares = [result.accuracy.share for result in results]
    low, high = results[0].accuracy.interval
    spread = f" +- {100 * statistics.stdev(shares):.1f}" if len(shares) > 1 else ""
    epochs = statistics.mean(model.record["training_seconds"] / max(1, model.record["epochs"]) for model in models)
    print(
        f"{name:<44}{100 * statistics.mean(shares):6.1f}{spread}  (first seed {100 * low:.1f} to {100 * high:.1f})  "
        f"{models[0].record['parameters']:,} parameters, {epochs:.1f} s an epoch, "
        f"best after {[model.record['best_epoch'] for model in models]}",
        flush=True,
    )


def measure(name: str, train: list[Any], test: list[Any], config: Any, seeds: int, **options: Any) -> None:
    training = options.pop("training", TRAINING)
    models = [
        chainrule.train_classifier(train, config, training=replace(training, seed=seed), progress=False, **options)
        for seed in range(seeds)
    ]
    report(name, [model.assess(test) for model in models], models)


def measure_sst(options: argparse.Namespace) -> None:
    for binary in (False, True):
        train, dev = sst(options.sst, binary=binary)
        task = "SST binary" if binary else "SST fine"
        for way, vectors in WAYS.items():
            measure(f"{task}: binary Tree-LSTM, {way}", train, dev, TREE, options.seeds, unit="node", **vectors)


def measure_phrases(options: argparse.Namespace) -> None:
    for binary in (False, True):
        train, dev = sst(options.sst, binary=binary)
        task = "SST binary" if binary else "SST fine"
        training = replace(TRAINING, batch=256, epochs=5)
        measure(
            f"{task}: two-directional LSTM on phrases", phrases(train), phrases(dev, roots=True), LSTM, options.seeds,
            tokenizer="whitespace", training=training,
        )  # fmt: skip


def measure_listops(options: argparse.Namespace) -> None:
    train, test = listops(options.expressions, 1), listops(2_000, 2)
    training = ClassifierTrainingConfig(batch=64, learning_rate=3e-3, epochs=18, patience=4)
    binary = TreeLabelling(cell="binary", width=128, embedding_width=32, dropout=0.0)
    child_sum = replace(binary, cell="child-sum")
    lstm = LSTMLabelling(width=160, embedding_width=32, dropout=0.0)
    for name, config, form in (
        ("binary Tree-LSTM, argument by argument", binary, as_binary),
        ("Child-Sum", child_sum, lambda tree: tree),
    ):
        nodes = [labelled(form(each.input), "node", each.place) for each in train]
        roots = [labelled(_only_root(form(each.input)), "node", each.place) for each in test]
        measure(f"ListOps: {name}", nodes, roots, config, options.seeds, training=training, unit="node")
    texts, tests = ([Labelled(as_tokens(each.input), each.labels) for each in examples] for examples in (train, test))
    measure("ListOps: LSTM", texts, tests, lstm, options.seeds, training=training, tokenizer="whitespace")


def measure_batching(options: argparse.Namespace) -> None:
    """25, 100 and 400 trees at once against one node at a time, forward and back."""
    import torch

    from chainrule.features.classify.network.build import build_classifier
    from chainrule.text.tokenization.tokenizer import Tokenizer

    train, _ = sst(options.sst, binary=False)
    tokenizer = Tokenizer.untrained("whitespace")
    text = "\n".join(each.input.text() for each in train[:400]) + "\n"
    tokenizer.encode(np.frombuffer(text.encode(), np.uint8).copy(), grow=True)
    torch.manual_seed(0)
    body = build_classifier(TREE, ["a", "b"], "node", tokenizer.vocabulary_size).body.eval()

    def timed(run: Any) -> tuple[float, Any]:
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            found = run()
            found.sum().backward()
            best = min(best, time.perf_counter() - began)
        return best, found

    for count in (25, 100, 400):
        inputs = encode_trees(tokenizer.with_markers("keep"), train[:count], "node")
        together, batched = timed(lambda inputs=inputs: body(inputs))
        alone, one = timed(lambda inputs=inputs: torch.cat([_node_by_node(body, tree) for tree in inputs]))
        nodes = sum(len(tree.tokens) for tree in inputs)
        apart = float((batched - one).detach().abs().max())
        print(
            f"{count} trees of SST, {nodes:,} nodes: {1e3 * together:.0f} ms batched, {1e3 * alone:.0f} ms node by "
            f"node, {alone / together:.0f} times; greatest difference {apart:.1e}",
            flush=True,
        )


def _node_by_node(body: Any, tree: Any) -> Any:
    """The binary Tree-LSTM, a node at a time."""
    import torch

    width, hidden = body.width, {}
    zero = torch.zeros(width)
    for node in np.argsort(-tree.depths, kind="stable").tolist():
        own = body.own.bias
        if tree.tokens[node] >= 0:
            own = body.own(body.embedding[tree.tokens[node]])
        pairs = [hidden[k] for k in np.flatnonzero(tree.parents == node).tolist()]
        c = 0
        if pairs:
            (left, c_left), (right, c_right) = pairs
            read = body.cell.of_children(torch.cat((left, right)))
            i, o, u = (own[: 3 * width] + read[: 3 * width]).chunk(3)
            f_left, f_right = (own[3 * width :].repeat(2) + read[3 * width :]).chunk(2)
            c = torch.sigmoid(f_left) * c_left + torch.sigmoid(f_right) * c_right
        else:
            i, o, u = own[: 3 * width].chunk(3)
        c = c + torch.sigmoid(i) * torch.tanh(u) + zero
        hidden[node] = torch.sigmoid(o) * torch.tanh(c), c
    return torch.stack([hidden[node][0] for node in tree.units.tolist()])


def measure_texts(options: argparse.Namespace) -> None:
    """Sentences alone, no phrases: SST of five classes, and TREC's six types."""
    train, dev = sst(options.sst, binary=False)
    tasks = {"SST fine": (phrases(train, roots=True), phrases(dev, roots=True))}
    if options.trec is not None:
        lines = [line.split(" ", 1) for line in options.trec.read_text(encoding="latin-1").splitlines() if line.strip()]
        questions = [Labelled(text.strip(), (label.partition(":")[0],)) for label, text in lines]
        order = np.random.default_rng(0).permutation(len(questions)).tolist()
        tasks["TREC"] = [questions[i] for i in order[500:]], [questions[i] for i in order[:500]]
    networks = {
        "bag of vectors": BagLabelling(),
        "deep averaging network": BagLabelling(layers=2),
        "LSTM": LSTMLabelling(),
        "two-directional LSTM": LSTM,
        "convolutions of Kim": ConvolutionLabelling(),
        "Transformer": TransformerLabelling(),
    }
    for task, (own, test) in tasks.items():
        for name, config in networks.items():
            for way, vectors in WAYS.items():
                measure(
                    f"{task}: {name}, {way}", own, test, config, options.seeds,
                    **{"training": ClassifierTrainingConfig(epochs=12), "tokenizer": WORDS, **vectors},
                )  # fmt: skip


def measure_ewt(options: argparse.Namespace) -> None:
    """Bits a word of the tree model, beside an LSTM of equal size on the words, and on the brackets of the trees."""
    training = chainrule.TrainingConfig(epochs=options.epochs, batch=32, learning_rate=3e-3, optimiser="adamw")
    tokenizer = TokenizerConfig(kind="whitespace", min_count=2)
    trees = {part: read_unlabelled(options.ewt / f"{part}.conllu.gz")[: options.sentences] for part in ("train", "dev")}
    train, dev = (chainrule.Lines([tree_text(tree) for tree in own]) for own in trees.values())
    words = {part: chainrule.Lines([tree.text() for tree in own]) for part, own in trees.items()}
    count = sum(len(tree) for tree in trees["dev"])
    lstm = chainrule.RecurrentConfig(
        width=200, layers=1, tied=True, memory="document", input_dropout=0.3, output_dropout=0.3, context=64
    )
    runs = {
        "tree model: words and trees": (train, dev, chainrule.TreeConfig(width=200, dropout=0.3)),
        "LSTM on brackets: words and trees": (train, dev, lstm),
        "LSTM on words": (words["train"], words["dev"], lstm),
    }
    for name, (own, test, config) in runs.items():
        began = time.perf_counter()
        model = chainrule.train(
            own, config, tokenizer=tokenizer, training=training, markers="keep", progress=False
        )  # fmt: skip
        seconds = time.perf_counter() - began
        measured = model.evaluate(test, progress=False)
        bits = measured.bits_per_byte * measured.bytes
        low, high = (bound * measured.bytes / count for bound in measured.interval)
        print(
            f"EWT: {name:<36}{bits / count:6.3f} bits a word ({low:.3f} to {high:.3f}), "
            f"{model.record['parameters']:,} parameters, {seconds:.0f} s",
            flush=True,
        )
        if isinstance(config, chainrule.TreeConfig):
            tokens = model.tokenizer.encode_texts(dev.lines).ids
            nats = -model.engine.score_stream(tokens)
            marks = np.isin(tokens, [model.tokenizer.vocabulary.id_of(mark) for mark in (OPEN, CLOSE, HEAD)])
            for what, chosen in (("brackets and places", marks), ("words, without spelling", ~marks)):
                print(f"EWT:   of which {what}: {nats[chosen].sum() / np.log(2) / count:.3f}")


def measure_sick(options: argparse.Namespace) -> None:
    """Ratings of pairs: Child-Sum over dependencies, and an LSTM of equal size over the words."""
    training = ClassifierTrainingConfig(batch=25, epochs=10, learning_rate=4e-3)
    parts = [chainrule.read_labelled_pairs(file, "tree", ratings=True) for file in options.sick]
    texts = [[each._replace(input=Pair(*(tree.text() for tree in each.input))) for each in part] for part in parts]
    sizes = {"width": 150, "embedding_width": 150, "dropout": 0.2}
    runs = {"Child-Sum": (TreeLabelling(**sizes), parts), "LSTM": (LSTMLabelling(**sizes), texts)}
    for way, vectors in WAYS.items():
        for name, (config, (own, test)) in runs.items():
            model = chainrule.train_classifier(
                own, config, unit="rating", training=training, progress=False, **{"tokenizer": LOWER, **vectors}
            )  # fmt: skip
            print(f"SICK: {name}, {way}", model.assess_ratings(test, progress=False), sep="\n", flush=True)


PARTS = {
    "sick": measure_sick,
    "ewt": measure_ewt,
    "batching": measure_batching,
    "sst": measure_sst,
    "phrases": measure_phrases,
    "listops": measure_listops,
    "texts": measure_texts,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst", type=Path)
    parser.add_argument("--trec", type=Path)
    parser.add_argument("--ewt", type=Path)
    parser.add_argument("--sentences", type=int, help="of EWT, at most so many of each part")
    parser.add_argument("--expressions", type=int, default=20_000, help="of ListOps, to learn from")
    parser.add_argument("--sick", type=Path, nargs=2, help="JSON lines of pairs of trees: to train on, and to test on")
    parser.add_argument("--epochs", type=int, default=4, help="of the language models")
    parser.add_argument("--vectors")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(circumstances(), f"networks: {', '.join(LABELLING)}", sep="\n", flush=True)
    if options.vectors is not None:
        own = {"vectors": options.vectors, "tokenizer": LOWER}
        WAYS.update(tuned=own, fixed={**own, "fixed_vectors": True})
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
