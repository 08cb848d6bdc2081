"""The ladder on two texts: what each family reaches with the same tokens in the same time.

    python bench/ladder.py characters tinyshakespeare/input.txt --work runs/characters [--minutes 5]
    python bench/ladder.py words novels/train.txt.xz novels/test.txt.xz --work runs/words [--minutes 10]
        [--only LSTM] [--seed 0]

characters  a 6-gram, an LSTM and a Transformer with the recipes of neural.py, and mixtures of each with the 6-gram.
            The last tenth of the characters is for testing; a twentieth of the rest, in runs of 50 lines, for tuning.
words       the first 1,000,000 tokens and a vocabulary of 10,000: every family, Kneser-Ney of order 5, and mixtures.
            The next 50,000 tokens are for tuning.

The tuning text chooses the best weights of networks and mixtures and gives the learning curves; no model is trained
on it. Models are kept in --work: finished ones are not trained again, interrupted ones resume from their checkpoints.
So the work can be spread over several sessions; --only trains a single model. The table, in Markdown, has the results
so far.
"""

from __future__ import annotations

import argparse
import io
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import circumstances
from neural import BEST_LSTM, BEST_LSTM_TRAINING, BEST_TRANSFORMER, BEST_TRANSFORMER_TRAINING, print_report

import chainrule
from chainrule import NGramConfig, RecurrentConfig, TokenizerConfig, TrainingConfig
from chainrule.features.compare.ladder import parameters_of
from chainrule.kinds import CAUSAL_NETWORK, configs_of
from chainrule.training.checkpoint import remove_checkpoints
from chainrule.training.reports import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import NetworkConfig
    from chainrule.text.corpus.corpus import Source

    Recipe = tuple[NetworkConfig, TrainingConfig]

TOKENS, TUNING_TOKENS, VOCABULARY = 1_000_000, 50_000, 10_000
# Where the defaults do not fit a million words: they would learn them by heart. Tied and averaged, the log-bilinear
# model is at 4.70 nats on what tunes after 55 s; otherwise its best is 5.01, after 160 s.
WORDS: dict[str, dict[str, Any]] = {
    "bilinear": {"embedding_dropout": 0.1},
    "bag": {"embedding_width": 256, "dropout": 0.2},
    "feedforward": {"window": 4, "embedding_width": 256, "dropout": 0.3},
    "convolution": {"layers": 4, "width": 256, "dropout": 0.3},
    "recurrent": {"embedding_width": 256, "input_dropout": 0.1, "dropout": 0.2, "output_dropout": 0.2, "context": 64},
    "transformer": {"context": 128, "dropout": 0.1},
}
AVERAGED = TrainingConfig(ema=0.995, early_stopping=5)  # ends where only what is learned still gets likelier
RECURRENT_AVERAGED = replace(AVERAGED, ema=0.99)  # fewer and larger steps


@dataclass(frozen=True)
class Ladder:
    """ngram: the name of the model that the others are held against. mixtures: of which models, by name."""

    ngram: str
    ngrams: dict[str, NGramConfig]
    networks: dict[str, Recipe]
    mixtures: dict[str, list[str]]


@dataclass(frozen=True)
class Texts:
    """Three files."""

    train: Path
    tune: Path
    test: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["characters", "words"])
    parser.add_argument("texts", nargs="+", help="characters: one file; words: one to train on and one to measure on")
    parser.add_argument("--work", type=Path, required=True, help="the folder that models are kept in")
    parser.add_argument("--minutes", type=float, help="of training, for each network; 5 for characters, 10 for words")
    parser.add_argument("--only", help="train this model alone, by its name in the table")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.task == "characters":
        ladder, tokenizer = character_ladder(), TokenizerConfig(kind="character")
        texts = characters(options.work, *options.texts)
        minutes = options.minutes or 5
    else:
        ladder, tokenizer = word_ladder(), TokenizerConfig(kind="whitespace", vocabulary_size=VOCABULARY)
        texts = words(options.work, *options.texts)
        minutes = options.minutes or 10
    if options.only not in (None, *ladder.networks):
        parser.error(f"--only takes one of {', '.join(ladder.networks)}, not {options.only}")
    for name, config in ladder.ngrams.items():
        train_ngram(options.work / name, config, texts, tokenizer)
    for name, (config, training) in ladder.networks.items():
        if options.only in (None, name):
            print(f"{name}:", flush=True)
            training = replace(training, minutes=minutes, seed=options.seed)
            train_network(options.work / name, config, training, texts, options.work / ladder.ngram)
    print(f"\n{circumstances()}\n{minutes:g} minutes each, seed {options.seed}\n")
    print(table(options.work, ladder, texts))


def character_ladder() -> Ladder:
    networks: dict[str, Recipe] = {
        "LSTM": (BEST_LSTM, BEST_LSTM_TRAINING),
        "transformer": (BEST_TRANSFORMER, BEST_TRANSFORMER_TRAINING),
    }
    mixtures = {f"6-gram + {name}": ["6-gram", name] for name in networks}
    mixtures["mixture of all"] = ["6-gram", *networks]
    return Ladder("6-gram", {"6-gram": NGramConfig(order=6)}, networks, mixtures)


def word_ladder() -> Ladder:
    networks: dict[str, Recipe] = {}
    for family, kind in configs_of(CAUSAL_NETWORK).items():
        config = kind(tied=True, **WORDS[family])
        if isinstance(config, RecurrentConfig):
            networks["RNN"] = replace(config, cell="rnn_tanh"), RECURRENT_AVERAGED
            networks["LSTM"] = config, RECURRENT_AVERAGED
        else:
            networks[family] = config, AVERAGED
    mixtures = {f"5-gram + {name}": ["5-gram", name] for name in networks}
    mixtures["mixture of all"] = ["5-gram", *networks]
    return Ladder("5-gram", {"5-gram": NGramConfig(order=5)}, networks, mixtures)


def characters(work: Path, text: str) -> Texts:
    """Of the first nine tenths of the characters, every twentieth run of 50 lines tunes; the last tenth is measured."""
    whole = Path(text).read_text(encoding="utf-8")
    cut = int(0.9 * len(whole))
    known = chainrule.Lines(whole[:cut].removesuffix("\n").split("\n"), "what is known")
    parts = chainrule.split(known, {"train": "19/20", "tune": "1/20"}).values()
    return write_texts(work, *("".join(lines_of(part)) for part in parts), whole[cut:])


def words(work: Path, train: str, test: str) -> Texts:
    """Lines until there are so many tokens, the lines after them, and the whole text to measure on."""
    lines = lines_of(chainrule.Corpus.of(train))
    learned_from = take_lines(lines, TOKENS)
    return write_texts(
        work, learned_from, take_lines(lines, TUNING_TOKENS), "".join(lines_of(chainrule.Corpus.of(test)))
    )


def lines_of(source: Source) -> Iterator[str]:
    for block in source.blocks():
        yield from io.StringIO(
            bytes(block.text).decode(), newline="\n"
        )  # str.splitlines knows other ends of lines, too


def take_lines(lines: Iterator[str], tokens: int) -> str:
    """The next lines, until they have so many tokens, their ends not counted."""
    text, size = [], 0
    while size < tokens and (line := next(lines, None)) is not None:
        text.append(line)
        size += len(line.split())
    return "".join(text)


def write_texts(work: Path, *parts: str) -> Texts:
    paths = [work / name for name in ("train.txt", "tune.txt", "test.txt")]
    for path, text in zip(paths, parts, strict=True):
        path.write_text(text, encoding="utf-8")
    return Texts(*paths)


def train_ngram(folder: Path, config: NGramConfig, texts: Texts, tokenizer: TokenizerConfig) -> None:
    """Trains an n-gram model anew: it takes a second."""
    chainrule.train(texts.train, config, tokenizer=tokenizer).save(folder, overwrite=True)


def train_network(
    folder: Path, config: NetworkConfig, training: TrainingConfig, texts: Texts, vocabulary: Path
) -> None:
    """Trains a network, unless that is done already; goes on where it was interrupted."""
    if (folder / "config.json").is_file():
        record = chainrule.load(folder).record
        settings = record["settings"], record["training"]["minutes"], record["training"]["seed"]
        if json.loads(json.dumps((asdict(config), training.minutes, training.seed))) != list(settings):
            raise SystemExit(f"{folder} is a model of other settings; remove it, or choose another --work")
        print("  there already")
        return
    model = chainrule.train(
        texts.train,
        config,
        tokenizer=str(vocabulary),
        training=training,
        validation=texts.tune,
        folder=folder,
        resume=True,
        on_report=print_report,
    )
    model.save(folder, overwrite=True)
    remove_checkpoints(folder)
    figures_file(folder).unlink(missing_ok=True)


def table(work: Path, ladder: Ladder, texts: Texts) -> str:
    """Markdown, of the models that are there."""
    names = [name for name in (*ladder.ngrams, *ladder.networks) if (work / name / "config.json").is_file()]
    level = figures(work / ladder.ngram, texts)["tuning_nats"]
    passed = {name: crossing(work / name, level) for name in names if name in ladder.networks}
    header = ["model", "nats a token", "perplexity", "bits per byte", "95 % interval", "parameters", "training s"]
    rows = [[*header, f"below the {ladder.ngram} after", "weights"]]
    rows += [
        [name, *cells(figures(work / name, texts)), seconds_text(passed[name]) if name in passed else "", ""]
        for name in names
    ]
    for name, parts in ladder.mixtures.items():
        if set(parts) <= set(names):
            rows.append(
                [name, *cells(result := measure_mixture([work / part for part in parts], texts)), "", result["weights"]]
            )
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    overtaking = [f"{name} after {seconds:.0f} s" for name, seconds in passed.items() if seconds is not None]
    summary = f"On what tunes, these overtake the {ladder.ngram}: {', '.join(overtaking) or 'none'}."
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:], "", summary])


def crossing(folder: Path, level: float) -> float | None:
    """After how many seconds of training the validated loss is first below a level, if ever."""
    lines = map(json.loads, (folder / LOG).read_text().splitlines())
    validated = [(line["seconds"], line["valid_loss"]) for line in lines if line.get("valid_loss") is not None]
    return next((seconds for seconds, loss in validated if loss < level), None)


def seconds_text(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f} s"


def figures_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def figures(folder: Path, texts: Texts) -> dict[str, Any]:
    """What a model was measured to have; kept beside it, since measuring large networks takes minutes."""
    path = figures_file(folder)
    if not path.is_file() or path.stat().st_mtime < (folder / "config.json").stat().st_mtime:
        model = chainrule.load(folder)
        tuned = model.evaluate(texts.tune)
        result = {**measure(model, texts), "tuning_nats": -tuned.log_prob / tuned.tokens}
        path.write_text(json.dumps(result))
    return json.loads(path.read_text())


def measure_mixture(folders: list[Path], texts: Texts) -> dict[str, Any]:
    """Of a linear mixture, whose weights are tuned on what tunes."""
    models = [chainrule.load(folder) for folder in folders]
    mixture = chainrule.mix(models, heldout=texts.tune, names=[folder.name for folder in folders])
    weights = ", ".join(f"{weight:.2f}" for weight in mixture.record["weights"][0])
    return {**measure(mixture, texts), "weights": weights}


def measure(model: chainrule.Model, texts: Texts) -> dict[str, Any]:
    result = model.evaluate(texts.test)
    return {
        "nats": -result.log_prob / result.tokens,
        "bits_per_byte": result.bits_per_byte,
        "interval": result.interval,
        "parameters": parameters_of(model),
        "seconds": model.record.get("training_seconds", model.record.get("seconds")),
    }


def cells(result: dict[str, Any]) -> list[str]:
    low, high = result["interval"]
    return [
        f"{result['nats']:.4f}",
        f"{math.exp(result['nats']):,.2f}",
        f"{result['bits_per_byte']:.4f}",
        f"{low:.4f}-{high:.4f}",
        "" if result["parameters"] is None else f"{result['parameters']:,}",
        "" if result["seconds"] is None else f"{result['seconds']:.1f}",
    ]


if __name__ == "__main__":
    main()
