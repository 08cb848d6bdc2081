"""Translation, Multi30k German to English: a part for each figure to reach.

    python bench/conditional.py multi30k/ --work FOLDER [--only transformer|lstm|bottleneck|attention|beam|speed]
        [--minutes 60] [--table-minutes 10] [--steps N] [--lines N] [--rows NAME ...] [--seed 0]

multi30k/ holds train, val and test_2016_flickr, .de and .en, compressed or not. Models are kept in --work; started
again with the same arguments, the script resumes or reuses them. Every result is a line of results.jsonl there.
`--steps` and `--lines` shorten runs and tests, to try the script out.

transformer  a Transformer of at most 9 M parameters: test BLEU with a beam of 5, after --minutes of training
lstm         an LSTM with additive attention
bottleneck   the same without attention; BLEU of both by the length of the source, as a plot
attention    six scores; soft, local and hard; equal training times; one table
beam         the Transformer with beams of 1 to 10: BLEU, and seconds with 64 sources at once
speed        seconds of a beam of 5 with 64 sources at once, float32, against transformers.generate with a Marian
             model of the same size, where that is installed

BLEU is sacreBLEU's, tokenize none, since the text is tokenised.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from machine import circumstances

import chainrule
from chainrule import BeamConfig, Seq2SeqConfig, TokenizerConfig, TrainingConfig
from chainrule.decoding.beam import search
from chainrule.decoding.limits import Constraints
from chainrule.drawing.plots import Axis, Line, line_plot, write_plot
from chainrule.text.parallel import Pairs, pairs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.training.reports import Report

PIECES = TokenizerConfig(kind="bpe", vocabulary_size=8000)
TRANSFORMER = Seq2SeqConfig(
    width=256,
    feed_forward_width=1024,
    style="modern",
    positions="rotary",
    score="content",
    shared="all",
    dropout=0.2,
)
TRANSFORMER_TRAINING = TrainingConfig(batch=64, label_smoothing=0.1, ema=0.998, validate_every=400)
LSTM = Seq2SeqConfig(
    encoder="lstm",
    decoder="lstm",
    encoder_layers=1,
    decoder_layers=1,
    width=384,
    score="additive",
    shared="target",
    dropout=0.3,
)
LSTM_TRAINING = TrainingConfig(batch=128, label_smoothing=0.1, ema=0.998, validate_every=400)
SMALL = replace(LSTM, width=256)
TABLE: dict[str, Seq2SeqConfig] = {
    **{f"soft, {name}": replace(SMALL, score=name) for name in ("dot", "scaled_dot", "general", "additive")},
    **{f"soft, {name}": replace(SMALL, score=name) for name in ("content", "location")},
    "local, window around the place": replace(SMALL, attention="local", score="general"),
    "local, window that is predicted": replace(SMALL, attention="local", score="general", center="predicted"),
    "hard, REINFORCE, summed over": replace(SMALL, attention="hard", score="general", input_feeding=False),
    "hard, REINFORCE, four draws": replace(SMALL, attention="hard", score="general", input_feeding=False, draws=4),
    "hard, straight through, no input feeding": replace(
        SMALL, attention="hard", score="general", input_feeding=False, estimator="straight_through"
    ),
    "hard, straight through": replace(SMALL, attention="hard", score="general", estimator="straight_through"),
    "none": replace(SMALL, attention="none"),
    "soft, additive, Bahdanau's": replace(SMALL, attends="before"),
    "soft, additive, no input feeding": replace(SMALL, input_feeding=False),
}
_RUNS = 5  # that are timed, in turns
LENGTHS = (8, 10, 12, 14, 17)  # of sources in words, where a new group begins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", choices=SUB_BENCHMARKS)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--table-minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--lines", type=int)
    parser.add_argument("--rows", nargs="*", choices=list(TABLE), help="of the table of attention; by default all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print(circumstances(), flush=True)
    for name in [options.only] if options.only else SUB_BENCHMARKS:
        print(f"\n## {name}\n", flush=True)
        SUB_BENCHMARKS[name](options)


def pairs_named(options: argparse.Namespace, name: str) -> Pairs:
    files = [next(iter(sorted(options.texts.glob(f"{name}.{side}*")))) for side in ("de", "en")]
    return pairs_of([str(file) for file in files], ("", ""))


def test_pairs(options: argparse.Namespace) -> Pairs:
    found = pairs_named(options, "test_2016_flickr")
    return Pairs(found.sources[: options.lines], found.targets[: options.lines])


def model_named(
    name: str, config: Seq2SeqConfig, training: TrainingConfig, minutes: float, options: argparse.Namespace
) -> Seq2SeqModel:
    """Trained, or gone on with, or opened where that is over."""
    folder = options.work / name
    if not (folder / "config.json").exists():
        budget = {"steps": options.steps} if options.steps else {"minutes": minutes}
        model = chainrule.train_pairs(
            pairs_named(options, "train"),
            config,
            tokenizer=PIECES,
            training=replace(training, seed=options.seed, **budget),
            validation=pairs_named(options, "val"),
            folder=folder,
            resume=True,
            on_report=print_report,
        )
        model.save(folder)
    return chainrule.load(folder, chainrule.Seq2SeqModel)


def print_report(report: Report) -> None:
    if report.valid_loss is not None:
        best = " *" if report.is_best else ""
        print(f"  step {report.step:,}: {report.valid_loss:.4f} after {report.seconds:.0f} s{best}", flush=True)


def bleu_of(texts: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Of a corpus, with its signature."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", force=True)
    score = metric.corpus_score(list(texts), [list(references)]).score
    return float(score), str(metric.get_signature())


def write_texts(model: Seq2SeqModel, pairs: Pairs, beam: BeamConfig) -> tuple[list[str], float]:
    """The best texts, and the seconds that they took."""
    began = time.perf_counter()
    found = [texts[0].text if texts else "" for texts in model.write(pairs.sources, beam)]
    return found, time.perf_counter() - began


def kept(options: argparse.Namespace, what: str, result: dict[str, Any]) -> None:
    with open(options.work / "results.jsonl", "a") as file:
        file.write(json.dumps({"what": what, **result}) + "\n")
    print(
        ", ".join(f"{name} {round(value, 2) if isinstance(value, float) else value}" for name, value in result.items())
    )


def measure(name: str, model: Seq2SeqModel, options: argparse.Namespace) -> list[str]:
    pairs = test_pairs(options)
    texts, seconds = write_texts(model, pairs, BeamConfig(size=5, rank_by="mean", stop="likely"))
    score, signature = bleu_of(texts, pairs.targets)
    record = model.record
    kept(
        options,
        name,
        {
            "BLEU": score,
            "parameters": record["parameters"],
            "validation": record["validation"]["loss"],
            "steps": record["steps"],
            "training seconds": record["training_seconds"],
            "translating seconds": seconds,
            "signature": signature,
        },
    )
    return texts


def transformer(options: argparse.Namespace) -> None:
    measure("transformer", the_transformer(options), options)


def the_transformer(options: argparse.Namespace) -> Seq2SeqModel:
    return model_named("transformer", TRANSFORMER, TRANSFORMER_TRAINING, options.minutes, options)


def lstm(options: argparse.Namespace) -> None:
    measure("lstm", model_named("lstm", LSTM, LSTM_TRAINING, options.minutes, options), options)


def bottleneck(options: argparse.Namespace) -> None:
    pairs = test_pairs(options)
    names = {"additive attention": ("lstm", LSTM), "no attention": ("bottleneck", replace(LSTM, attention="none"))}
    lengths = np.array([len(source.split()) for source in pairs.sources])
    groups = np.digitize(lengths, LENGTHS)
    lines = []
    for title, (name, config) in names.items():
        texts = measure(name, model_named(name, config, LSTM_TRAINING, options.minutes, options), options)
        points = []
        for group in np.unique(groups).tolist():
            chosen = np.flatnonzero(groups == group).tolist()
            score, _ = bleu_of([texts[i] for i in chosen], [pairs.targets[i] for i in chosen])
            points.append((float(lengths[chosen].mean()), score))
            print(f"  {title}, sources of {lengths[chosen].min()} to {lengths[chosen].max()} words: {score:.1f}")
        lines.append(Line(label=title, x=[x for x, _ in points], y=[y for _, y in points]))
    plot = line_plot("BLEU by length of the source", lines, Axis(label="words of the source"), Axis(label="BLEU"))
    write_plot(plot, options.work / "bottleneck.svg")


def attention(options: argparse.Namespace) -> None:
    for name, config in TABLE.items():
        if options.rows and name not in options.rows:
            continue
        is_hard = config.attention == "hard"
        training = replace(LSTM_TRAINING, label_smoothing=0.0 if is_hard else LSTM_TRAINING.label_smoothing)
        folder = "table-" + "".join(c if c.isalnum() else "-" for c in name)
        print(name)
        measure(name, model_named(folder, config, training, options.table_minutes, options), options)


def beam(options: argparse.Namespace) -> None:
    model, pairs = the_transformer(options), test_pairs(options)
    write_texts(model, Pairs(pairs.sources[:64], pairs.targets[:64]), BeamConfig(size=5))  # warm
    for size in (1, 2, 3, 5, 10):
        texts, seconds = write_texts(model, pairs, BeamConfig(size=size, rank_by="mean", stop="likely"))
        kept(options, f"beam {size}", {"beam": size, "BLEU": bleu_of(texts, pairs.targets)[0], "seconds": seconds})


def speed(options: argparse.Namespace) -> None:
    """Both from ids to ids, in the same batches, untrained in what they write: lengths are made equal by both having to
    write as many tokens as the reference has at most.
    """
    model = the_transformer(options)
    sources = sorted(model.sources(test_pairs(options).sources), key=len)
    batches = [sources[i : i + 64] for i in range(0, len(sources), 64)]
    nothing = np.empty(0, np.int32)
    rows: list[tuple[str, Callable[[], None]]] = []

    def ours() -> None:
        for batch in batches:
            limits = Constraints(max_tokens=40, banned=[0])
            beam = BeamConfig(size=5, rank_by="mean", stop="likely")
            search(model.model.given(batch), [nothing] * len(batch), beam, limits)

    rows.append(("chainrule", ours))
    try:
        theirs = marian(model, batches)
    except ImportError:
        print("transformers is not installed, so there is nothing to compare with")
    else:
        rows.append(("transformers", theirs))
    seconds: dict[str, list[float]] = {name: [] for name, _ in rows}
    for number in range(1 + _RUNS):  # the first is not counted
        for name, run in rows:
            began = time.perf_counter()
            run()
            seconds[name] += [time.perf_counter() - began] * (number > 0)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, times in seconds.items():
        ratio = medians[name] / medians["chainrule"]
        kept(options, f"speed, {name}", {"who": name, "seconds": medians[name], "all": times, "ratio": ratio})


def marian(model: Seq2SeqModel, batches: list[list[np.ndarray]]) -> Callable[[], None]:
    """transformers.generate with a Marian model of the same size, that has our weights' sizes but not their values; it
    stops each text after as many tokens as ours has, so that both write the same number.
    """
    from transformers import MarianConfig, MarianMTModel

    config, size = model.model.network.config, model.target.vocabulary_size
    hidden = config.feed_forward_width or 4 * config.width
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=size + 1,
            d_model=config.width,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            max_position_embeddings=512,
            share_encoder_decoder_embeddings=True,
            pad_token_id=size,
            eos_token_id=2,
            decoder_start_token_id=size,
            forced_eos_token_id=None,
        )
    ).eval()
    nothing = np.empty(0, np.int32)
    lengths = []
    for batch in batches:
        limits = Constraints(max_tokens=40, banned=[0])
        found = search(
            model.model.given(batch), [nothing] * len(batch), BeamConfig(size=5, rank_by="mean", stop="likely"), limits
        )
        lengths.append(max(len(result.hypotheses[0].tokens) for result in found) + 1)

    @torch.inference_mode()
    def run() -> None:
        for batch, length in zip(batches, lengths, strict=True):
            longest = max(map(len, batch)) + 1
            ids = torch.full((len(batch), longest), size)
            for line, source in zip(ids, batch, strict=True):
                line[: len(source)] = torch.from_numpy(source.astype(np.int64))
                line[len(source)] = 2
            theirs.generate(
                ids, attention_mask=(ids != size).long(), num_beams=5, max_new_tokens=length, min_new_tokens=length
            )

    return run


SUB_BENCHMARKS: dict[str, Callable[[argparse.Namespace], None]] = {
    "transformer": transformer,
    "lstm": lstm,
    "bottleneck": bottleneck,
    "attention": attention,
    "beam": beam,
    "speed": speed,
}


if __name__ == "__main__":
    main()
