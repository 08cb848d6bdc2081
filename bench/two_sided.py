"""Acceptability, fine-tuning and embeddings: a part for each figure to reach.

    python bench/two_sided.py acceptability --text novels/train.txt.xz --pairs blimp/*.jsonl.gz --work runs/blimp
        [--minutes 15] [--only masked]
    python bench/two_sided.py finetuning --work runs/labels [--minutes 3] [--only masked]
       [--learned 500] [--rates 3e-4 1e-3 3e-3]
    python bench/two_sided.py embeddings [--texts 2000]

acceptability  the first 5,000,000 tokens of a text, a word 5-gram, and networks of pieces with so many minutes each:
               one table over the sets of minimal pairs
finetuning     which of the twenty largest packages of the standard library a docstring comes from, learned from all
               labels or so many: every family of networks, pre-trained for so many minutes on the rest of the built-in
               text, against the same from scratch; of several learning rates, each takes the one that is best in
               validation
embeddings     texts a second, against transformers with a model of the same shape, where that is installed: its batches
               in the order of the texts, and sorted by length as ours are

What is finished is kept in --work and not done again, and what was interrupted goes on from its checkpoint; --only
does one model and no other. The tables, in Markdown, have what is there so far.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import circumstances
from neural import print_report

import chainrule
from chainrule import NGramConfig, TokenizerConfig, TrainingConfig
from chainrule.base.tables import markdown_table
from chainrule.features.classify.labelled.texts import Labelled
from chainrule.features.classify.training import finetune
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.neural.build import build
from chainrule.neural.config import MaskedConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.embedding import token_vectors
from chainrule.protocol import END
from chainrule.storage.config_json import CONFIG
from chainrule.text.corpus.sample import sample_docstrings, sample_lines
from chainrule.training.checkpoint import remove_checkpoints
from chainrule.training.config import FineTuningConfig

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TOKENS, CLASSES, TEST_SHARE = 5_000_000, 20, 5  # a fifth of the docstrings is tested on
PIECES = TokenizerConfig(kind="bpe", vocabulary_size=8000)
BOTH: dict[str, Any] = {"layers": 4, "width": 256, "context": 128, "tied": True}
ACCEPTABILITY: dict[str, Any] = {
    "n-gram": NGramConfig(order=5),
    "LSTM": RecurrentConfig(layers=2, width=512, embedding_width=256, context=64, memory="document", tied=True),
    "Transformer": TransformerConfig(**BOTH, memory="document"),
    "masked": MaskedConfig(**BOTH),
}
RUNNING: dict[str, Any] = {"memory": "stream"}  # the lines of the built-in text are cut anywhere
SMALL: dict[str, dict[str, Any]] = {  # for a text of two megabytes
    "transformer": {"layers": 3, "width": 192, "heads": 3, "context": 128, "dropout": 0.1},
    "masked": {"layers": 3, "width": 192, "heads": 3, "context": 128, "dropout": 0.1},
    "recurrent": {"width": 256, "dropout": 0.3, "context": 64, "tied": True},
    "masked-recurrent": {"width": 256, "dropout": 0.3, "context": 64, "tied": True, **RUNNING},
    "two-sided": {"width": 256, "dropout": 0.3, "context": 64, "tied": True, **RUNNING},
}
SHAPE: dict[str, Any] = {"layers": 6, "width": 384, "heads": 6, "context": 512}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("acceptability", "finetuning", "embeddings"))
    parser.add_argument("--text")
    parser.add_argument("--pairs", nargs="+")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--only")
    parser.add_argument("--learned", type=int)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3])
    parser.add_argument("--texts", type=int, default=2000)
    asked = parser.parse_args()
    print(circumstances())
    if asked.part == "embeddings":
        embeddings(asked.texts)
    elif asked.work is None:
        parser.error("--work is missing: the folder that models and figures are kept in")
    elif asked.part == "finetuning":
        finetuning(asked.work, asked.minutes or 3, asked.only, asked.learned, asked.rates)
    elif asked.text is None or asked.pairs is None:
        parser.error("--text and --pairs are missing")
    else:
        acceptability(asked.text, asked.pairs, asked.work, asked.minutes or 15, asked.only)


def acceptability(text: str, pairs: Sequence[str], work: Path, minutes: float, only: str | None) -> None:
    lines = work / "train.txt"
    if not lines.exists():
        work.mkdir(parents=True, exist_ok=True)
        lines.write_text("".join(_first_tokens(text, TOKENS)))
    for name, config in ACCEPTABILITY.items():
        if only in (None, name):
            _model(work / name, lines, config, "word" if name == "n-gram" else PIECES, minutes)
            _kept(work / f"{name}.json", lambda name=name: _judged(work / name, pairs))
    found = {name: json.loads(path.read_text()) for name in ACCEPTABILITY if (path := work / f"{name}.json").exists()}
    if found:
        names = [f"{row['kind']} {row['name']}".strip() for row in next(iter(found.values()))]
        rows = []
        for number, name in enumerate(names):
            rows.append([name, *(_accuracy(figures[number]["sum"]) for figures in found.values())])
        print(markdown_table(["", *found], rows))


def _first_tokens(text: str, tokens: int) -> Iterator[str]:
    """Whole lines, of so many tokens between spaces."""
    left = tokens
    for block in chainrule.Corpus.of(text).blocks():
        for line in block.documents():
            left -= len(line.split())
            if left < 0:
                return
            yield line + "\n"


def _judged(model: Path, pairs: Sequence[str]) -> list[dict[str, Any]]:
    return [row.as_json() for row in chainrule.load(model).judge_pairs(pairs)]


def _model(folder: Path, text: Path, config: Any, tokenizer: TokenizerConfig | str, minutes: float) -> None:
    """Trains what is not there yet, and goes on where it was interrupted."""
    if (folder / CONFIG).exists():
        return
    print(f"training {folder.name}", flush=True)
    if isinstance(config, NGramConfig):
        chainrule.train(text, config, tokenizer=tokenizer).save(folder)
        return
    is_recurrent = isinstance(config, RecurrentConfig)  # fewer and larger steps
    training = TrainingConfig(minutes=minutes, ema=0.99 if is_recurrent else 0.995)
    model = chainrule.train(
        text, config, tokenizer=tokenizer, training=training, folder=folder, resume=True, on_report=print_report
    )
    model.save(folder)
    remove_checkpoints(folder)


def _kept(path: Path, compute: Callable[[], Any]) -> Any:
    """What was made before, or is made now, as JSON."""
    if not path.exists():
        path.write_text(json.dumps(compute(), indent=1))
    return json.loads(path.read_text())


def _accuracy(found: dict[str, float]) -> str:
    return f"{found['accuracy']:.1%} ({100 * found['low']:.1f}-{100 * found['high']:.1f})"


def finetuning(work: Path, minutes: float, only: str | None, number: int | None, rates: Sequence[float]) -> None:
    learned, tested = _docstrings()
    learned, ending = learned[:number], f"-{number}" if number else ""
    work.mkdir(parents=True, exist_ok=True)
    lines = work / "train.txt"
    if not lines.exists():
        hidden = {" ".join(line.split()) for example in tested for line in example.text.split("\n")}
        lines.write_text("".join(line + "\n" for line in sample_lines() if line not in hidden))
    for family, kind in {**NETWORKS, **BIDIRECTIONAL}.items():
        if only in (None, family):
            _model(work / family, lines, kind(**SMALL.get(family, {})), PIECES, minutes)
            for fresh in (False, True):
                name = f"{family}{'-fresh' * fresh}{ending}.json"
                tuned = partial(_finetuned, work / family, learned, tested, fresh, rates)
                _kept(work / name, tuned)
    rows = []
    for family in (*NETWORKS, *BIDIRECTIONAL):
        paths = [work / f"{family}{end}{ending}.json" for end in ("", "-fresh")]
        if all(path.exists() for path in paths):
            found = [json.loads(path.read_text()) for path in paths]
            figures = [f"{each['macro_f1']:.3f} / {each['calibration_error']:.3f}" for each in found]
            rows.append([family, *(_accuracy(each) for each in found), *figures])
    counts = Counter(example.labels[0] for example in tested)
    print(f"{len(learned):,} docstrings to learn from, {len(tested):,} to test on; the largest class has ", end="")
    print(f"{max(counts.values()) / len(tested):.1%} of these")
    header = ["", "pre-trained", "from scratch", "F1 / calibration", "F1 / calibration, from scratch"]
    print(markdown_table(header, rows))


def _docstrings() -> tuple[list[Labelled], list[Labelled]]:
    """Of the packages with most of them: to learn from, and every fifth to test on; the same one is there once."""
    found = list(dict.fromkeys((package, " ".join(text.split())) for package, text in sample_docstrings()))
    largest = {name for name, _ in Counter(package for package, _ in found).most_common(CLASSES)}
    examples = [Labelled(text, (package,), package) for package, text in found if package in largest]
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    cut = len(order) // TEST_SHARE
    return [examples[i] for i in order[cut:]], [examples[i] for i in order[:cut]]


def _finetuned(
    model: Path, learned: Sequence[Labelled], tested: Sequence[Labelled], fresh: bool, rates: Sequence[float]
) -> dict[str, Any]:
    found = []
    for rate in rates:
        print(f"fine-tuning {model.name}{', from scratch' * fresh}, rate {rate:g}", flush=True)
        config = FineTuningConfig(fresh=fresh, epochs=20, learning_rate=rate)
        found.append(finetune(chainrule.load(model), learned, "text", config, on_report=print))
    best = min(found, key=lambda classifier: classifier.record["validation_nats"])
    return {**best.assess(tested).as_json(), "rate": best.record["settings"]["learning_rate"]}


def embeddings(texts: int) -> None:
    lines = sample_lines()[:texts]
    model = chainrule.train(chainrule.Lines(lines), NGramConfig(order=1), tokenizer=PIECES)
    sequences = [model.tokenizer.encode_texts([line]).ids[:-1] for line in lines]
    tokens = sum(map(len, sequences))
    config = chainrule.preset("gpt2", **SHAPE)
    network = build(config, model.vocabulary_size).eval()
    theirs = _their_model(model.vocabulary_size) if importlib.util.find_spec("transformers") is not None else None
    by_length = sorted(sequences, key=len)
    rows = []
    for precision in ("float32", "bfloat16"):
        short = precision == "bfloat16"
        ours = _seconds(lambda short=short: _our_vectors(network, sequences, short))
        found = [("chainrule", ours)]
        if theirs is not None:
            with torch.autocast("cpu", torch.bfloat16, enabled=short):
                for name, given in (("transformers", sequences), ("transformers, sorted", by_length)):
                    found.append((name, _seconds(lambda given=given: _their_vectors(theirs, given))))
        for name, seconds in found:
            speeds = [f"{number / seconds:,.0f}" for number in (len(lines), tokens)]
            rows.append([f"{name}, {precision}", *speeds, f"{seconds / ours:.2f}"])
    print(markdown_table(["", "texts/s", "tokens/s", "ours is so many times as fast"], rows))


def _our_vectors(network: Any, sequences: Sequence[np.ndarray], bfloat16: bool) -> None:
    [vectors.mean(0) for vectors in token_vectors(network, sequences, bfloat16=bfloat16) if len(vectors)]


def _their_model(vocabulary_size: int) -> Any:
    from transformers import GPT2Config, GPT2Model

    names = {"n_layer": "layers", "n_embd": "width", "n_head": "heads", "n_positions": "context"}
    shape = {theirs: SHAPE[ours] for theirs, ours in names.items()}
    markers = {"bos_token_id": END, "eos_token_id": END}
    return GPT2Model(GPT2Config(vocab_size=vocabulary_size, use_cache=False, **markers, **shape)).eval()


def _their_vectors(theirs: Any, sequences: Sequence[np.ndarray], batch: int = 32) -> None:
    """As they are mostly computed: padded batches, the mean over what is no padding."""
    with torch.inference_mode():
        for first in range(0, len(sequences), batch):
            some = sequences[first : first + batch]
            longest = max(map(len, some))
            ids, mask = np.zeros((2, len(some), longest + 1), np.int64)
            for i, sequence in enumerate(some):
                ids[i, 1 : len(sequence) + 1], mask[i, : len(sequence) + 1] = sequence, 1
            seen = torch.from_numpy(mask)
            hidden = theirs(torch.from_numpy(ids), attention_mask=seen).last_hidden_state
            (hidden * seen[..., None]).sum(1) / seen.sum(1, keepdim=True)


def _seconds(work: Callable[[], Any], runs: int = 3) -> float:
    """The median, after one run that is not counted."""
    work()
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
