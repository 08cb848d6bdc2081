"""What a run of minutes chooses before its first step: the size of the network, and the rows of a step.

A trial measures how long rows take on this machine. Both choices are recorded with the run, and kept when it resumes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from chainrule.errors import SettingError, TextError
from chainrule.neural.layers.ngram_memory import dense_parameters
from chainrule.training.checkpoint import FOLDER, Checkpoints
from chainrule.training.defaults import sizes_left_open, with_budget
from chainrule.training.device import explain_out_of_memory, machine_for
from chainrule.training.distributed import join_processes
from chainrule.training.job import N, Setup
from chainrule.training.optimisers import Optimisers
from chainrule.training.timetable import FINAL_SHARE, LEARNING_SHARE, batch_choices, choose_rows, time_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jaxtyping import Int32
    from numpy import ndarray
    from torch import nn

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.training.config import TrainingRun
    from chainrule.training.job import Objective, StreamOptions, TrainingJob

    MakeJob = Callable[[Int32[ndarray, " tokens"], int, NetworkConfig, StreamOptions], TrainingJob[Any]]

_TRIAL_SHARE, _MAX_TRIAL_SECONDS = 0.01, 1.0  # the trial takes this share of the minutes, but not longer
_MOST_STEPS, _MOST_SHARE = 10, 0.05  # of a trial: steps of one number of rows, and of the minutes
_INSTANT = 1e-9  # seconds
_SIZE_SHARE = 0.002  # of the minutes: what steps of one number of rows take, at least, in the trial of a size


def choose_batch(
    job: TrainingJob[N], network: N, setup: Setup, objective: Objective, matrices: list[nn.Parameter], budget: float
) -> int:
    """Rows per step: those of the recipe, or fewer. objective: built for the rows of the recipe. budget: seconds."""
    recipe, processes = setup.recipe, setup.processes
    choices = batch_choices(recipe.batch, objective.row_tokens, setup.training.accumulate * processes.number)
    if len(choices) == 1:
        return recipe.batch
    costs = _costs(job, network, setup, matrices, choices, budget, _TRIAL_SHARE)
    return int(processes.broadcast(float(choose_rows(choices, budget, *costs))))


class Costs(NamedTuple):
    """Seconds of each row of a step, and of what does not depend on its rows."""

    row: float
    fixed: float


def _costs(
    job: TrainingJob[N],
    network: N,
    setup: Setup,
    matrices: list[nn.Parameter],
    choices: list[int],
    budget: float,
    share: float,
) -> Costs:
    """What a step takes on this machine, from steps of few rows and of four times as many, and the optimiser's own.

    The shortest of each counts, since what else runs here makes some longer; it makes all longer in the end, so both
    costs are raised by the mean share. Weights and random states do not change: the optimiser is one for the trial,
    and its rates are 0. budget: seconds. share: of the budget, for each of the three. More rows are not tried where
    they would take too long.
    """
    enough = min(_MAX_TRIAL_SECONDS, share * budget)
    devices = [setup.machine.device] if setup.machine.device.type == "cuda" else []
    few, many = choices[-1], choices[max(0, len(choices) - 3)]
    rates = (setup.recipe.rate, setup.recipe.matrix_rate)
    optimisers = Optimisers(setup.training, network, matrices, rates, setup.machine.quick_bfloat16)
    network.train()
    with torch.random.fork_rng(devices):
        of_few = _gradients(job, network, setup, few)
        _, once = (_seconds_of(of_few, setup) for _ in range(2))  # the first one also warms up
        is_slow = once > _MOST_SHARE * budget
        works = {"few": of_few, "updating": lambda: optimisers.step(0.0)}
        if few < many <= _MOST_SHARE * budget / (2 * once / few):
            works["many"] = _gradients(job, network, setup, many)
        times = {} if is_slow else dict(zip(works, _seconds(list(works.values()), setup, enough), strict=True))
    network.zero_grad(set_to_none=True)
    if is_slow:
        return Costs(once / few, 0.0)
    least = {name: min(every) for name, every in times.items()}
    row = least["few"] / few
    if "many" in least:
        row = min(row, max(0.0, least["many"] - least["few"]) / (many - few))
    shortest = sum(least[name] * len(every) for name, every in times.items())
    slowness = sum(map(sum, times.values())) / max(_INSTANT, shortest)
    return Costs(slowness * row, slowness * (least["few"] - few * row + least["updating"]))


def _gradients(job: TrainingJob[N], network: N, setup: Setup, rows: int) -> Callable[[], None]:
    """What computes the gradients of the first step, were it of so many rows."""
    objective = job.objective(network, replace(setup, recipe=replace(setup.recipe, batch=rows)))
    parts = objective.parts(0)

    def compute() -> None:
        network.zero_grad(set_to_none=True)
        for part in parts:
            with setup.machine.precision():
                nats = objective.loss(0, part, network, 0.0)
            nats.backward()  # type: ignore[no-untyped-call]

    return compute


def _seconds(works: Sequence[Callable[[], None]], setup: Setup, enough: float) -> list[list[float]]:
    """Seconds of each, by turns, but for its first time, which also warms up. enough: of the first, all together."""
    times: list[list[float]] = [[] for _ in works]
    while len(times[0]) < 2 or (len(times[0]) < _MOST_STEPS and sum(times[0]) < enough):
        for each, work in zip(times, works, strict=True):
            each.append(_seconds_of(work, setup))
    return [each[1:] for each in times]


def _seconds_of(work: Callable[[], None], setup: Setup) -> float:
    began = time.perf_counter()
    work()
    setup.machine.wait()
    return time.perf_counter() - began


_VALIDATING = LEARNING_SHARE + FINAL_SHARE  # of the minutes
_TOKENS_A_WEIGHT, _TOKENS_A_PARAMETER = 3.0, 0.02  # that a size reads at least: of its layers' matrices, and of all
_PARAMETERS_A_TOKEN = 15.0  # of the text, at most: a larger network learns a short text by heart
_LARGE_VOCABULARY = 10_000  # tokens; above, a full softmax takes most of a step
_TRIAL_TEXT = 1 << 16  # tokens that trials of sizes read


class Trial(NamedTuple):
    """What a network could do in the minutes.

    weights: in the matrices of its layers. parameters: of these, the tokens' vectors and the output. tokens: that it
    would read.
    """

    weights: int
    parameters: int
    tokens: float

    def fits(self, text: int) -> bool:
        """Whether it would read enough for its size, and a text of so many tokens is long enough for that."""
        needed = max(_TOKENS_A_WEIGHT * self.weights, _TOKENS_A_PARAMETER * self.parameters)
        return self.tokens >= needed and not self.is_too_large(text)

    def is_too_large(self, text: int) -> bool:
        """Whether a text of so many tokens is too short for it, however much there is time to read."""
        return self.parameters > _PARAMETERS_A_TOKEN * text


class FittedSize(NamedTuple):
    """A network of the size chosen, its trial, and that of the next one, which is too large, if there is one."""

    config: NetworkConfig
    trial: Trial
    larger: Trial | None


def fit_size(
    config: NetworkConfig, names: frozenset[str], text: int, trial: Callable[[NetworkConfig], Trial]
) -> FittedSize | None:
    """The largest size of a family that fits the minutes and the text, or its smallest one.

    names: the settings that it may choose. text: tokens. Sizes are tried from the smallest on; those that other
    settings, or the length of the text, rule out are left out. None if there are no others.
    """
    chosen: FittedSize | None = None
    for size in config.sizes:
        for candidate in _of_size(config, size, names):
            if chosen is not None and candidate == chosen.config:
                break  # settings leave nothing of the difference
            try:
                tried = trial(candidate)
            except (SettingError, TextError):
                continue
            if chosen is not None and not tried.fits(text):
                return chosen._replace(larger=tried)
            chosen = FittedSize(candidate, tried, None)
            break
    return chosen


def _of_size(config: NetworkConfig, size: Mapping[str, int], names: frozenset[str]) -> Iterator[NetworkConfig]:
    """The settings with this size, and with the longer contexts of other sizes, which a window or a row may need."""
    changes: dict[str, Any] = {name: value for name, value in size.items() if name in names}
    longer = [other["context"] for other in config.sizes if other["context"] >= size["context"]]
    for context in dict.fromkeys(longer) if "context" in changes else (config.context,):
        with suppress(SettingError):
            yield replace(config, **{**changes, "context": context})


def with_size(
    make_job: MakeJob,
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    config: NetworkConfig,
    options: StreamOptions,
    run: TrainingRun,
) -> tuple[NetworkConfig, tuple[str, ...]]:
    """The settings of a network, with a size and an output for its vocabulary where they are not given; and notes.

    A run that resumes keeps its size. Raises ModelFormatError if its checkpoint is damaged.
    """
    training = with_budget(options.training)
    names = frozenset() if options.start is not None else sizes_left_open(config, training)
    if options.vectors is not None:
        names -= {"width", config.token_width_setting}  # the vectors say
    if "width" not in names:
        names -= {"heads"}  # which follow it
    if not names or training.minutes is None:
        return config, ()
    kept = Checkpoints(run.folder / FOLDER).network() if run.resume and run.folder is not None else None
    if kept is not None:
        return replace(config, **{name: kept[name] for name in names if name in kept}), ()
    tried = replace(options, training=training, validation=None, vectors=None, start=None)
    notes: list[str] = []
    if "output" in names and vocabulary_size > _LARGE_VOCABULARY and options.known is None:
        with suppress(SettingError):
            config = replace(config, output="adaptive")
            notes.append(f"output='adaptive', since there are {vocabulary_size:,} tokens")
    if not names & config.sizes[0].keys():
        return config, tuple(notes)
    budget = 60 * training.minutes
    left = budget if run.began is None else time_left(budget, time.monotonic() - run.began)

    def trial(size: NetworkConfig) -> Trial:
        job = make_job(stream[:_TRIAL_TEXT], vocabulary_size, size, tried)
        with explain_out_of_memory(lambda device: f"the memory of the {device} is not enough"):
            return _trial(job, (1 - _VALIDATING) * left)

    fitted = fit_size(config, names, stream.size, trial)
    if fitted is None:
        return config, tuple(notes)
    notes[:0] = _notes(fitted, names, budget, stream.size)
    config, why = _with_dropout(fitted, names, stream.size)
    return config, (*notes, *why)


def _with_dropout(fitted: FittedSize, names: frozenset[str], text: int) -> tuple[NetworkConfig, tuple[str, ...]]:
    """The settings, with dropout where a text of so many tokens would be learned by heart without; and a note."""
    config, trial, _ = fitted
    dropout: dict[str, Any] = {name: share for name, share in config.repeated.items() if name in names}
    passes, share = trial.tokens / text, trial.parameters / text
    if not dropout or passes * share < config.by_heart:
        return config, ()
    why = (
        f"{_shown(dropout)}, since there is time to read the text {_rounded(passes)} times, with {_rounded(share)} "
        "parameters for each of its tokens"
    )
    return replace(config, **dropout), (why,)


def _trial(job: TrainingJob[Network], budget: float) -> Trial:
    """What this network could do in a budget of seconds."""
    processes = join_processes()
    setup = Setup(job.training, job.recipe, machine_for(job.training), processes)
    with torch.random.fork_rng([]):
        network = job.build().to(setup.machine.device)
        objective, matrices = job.objective(network, setup), job.matrices(network)
        choices = batch_choices(job.recipe.batch, objective.row_tokens, job.training.accumulate * processes.number)
        costs = _costs(job, network, setup, matrices, choices, budget, _SIZE_SHARE)
    rows = choose_rows(choices, budget, *costs) if job.training.batch is None else job.recipe.batch
    tokens = budget / (rows * costs.row + costs.fixed) * rows * objective.row_tokens
    weights, parameters = (sum(each.numel() for each in every) for every in (matrices, dense_parameters(network)))
    return Trial(weights, parameters, processes.broadcast(tokens))


def _notes(fitted: FittedSize, names: frozenset[str], budget: float, text: int) -> tuple[str, ...]:
    """budget: seconds. text: tokens."""
    config, trial, larger = fitted
    chosen = {name: getattr(config, name) for name in config.sizes[0] if name in names}
    notes = [f"the size is {_shown(chosen)}, unless settings say otherwise"] if chosen else []
    besides = " besides the table of n-grams" if config.ngram_memory else ""
    minutes = "1 minute has" if budget == 60 else f"{budget / 60:g} minutes have"
    time_for = f"{minutes} time for {trial.tokens:,.0f} tokens for {trial.parameters:,} parameters"
    if larger is None:
        notes.append(f"{time_for}{besides}")
    elif larger.is_too_large(text):
        more = f"more than {_PARAMETERS_A_TOKEN:g} for each token of the text"
        notes.append(f"{time_for}{besides}; the next size has {larger.parameters:,}, {more}")
    else:
        more = f"in the next size {larger.tokens:,.0f} tokens for {larger.parameters:,} parameters"
        notes.append(f"{time_for}, and {more}{besides}")
    return tuple(notes)


def _rounded(number: float) -> str:
    """Two digits, or whole: 0.054, 1.2, 43, 1,204."""
    return f"{number:.2g}" if number < 10 else f"{number:,.0f}"


def _shown(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
