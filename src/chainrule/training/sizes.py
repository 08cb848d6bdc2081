"""What a run of minutes chooses before its first step: the size of the network, and the rows of a step.

A trial measures how long rows take on this machine. Both choices are recorded with the run, and kept when it resumes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from chainrule.errors import SettingError, TextError
from chainrule.neural.device import follow_load
from chainrule.training.checkpoint import FOLDER, Checkpoints
from chainrule.training.defaults import LARGE_VOCABULARY, MANY_TOKENS, processes_started, sizes_left_open, with_budget
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
_MOST_SHARE = 0.05  # of the minutes that a step takes, at most, for more of them to be tried
_TRIALS, _FEWEST_TRIALS, _MOST_TIMES, _MOST_TURNS = 5, 3, 3, 4  # three trials, unless they take three times as long
_MOST_WAITING = 3.0  # times the processor time
_INSTANT = 1e-9  # seconds
_SIZE_SHARE = 0.002  # of the minutes: what steps of one number of rows take, at least, in the trial of a size


def choose_batch(
    job: TrainingJob[N], network: N, setup: Setup, objective: Objective, matrices: list[nn.Parameter], budget: float
) -> int:
    """Return rows per step: those of the recipe, or fewer.

    objective: built for the rows of the recipe. budget: seconds.
    """
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
    """Return what a step takes on this machine, from steps of few rows and of four times as many, and the optimiser's
    own.

    Weights and random states do not change: the optimiser is one for the trial, and its rates are 0. budget: seconds.
    share: of the budget, for each of the three. More rows are not tried where they would take too long.
    """
    enough = min(_MAX_TRIAL_SECONDS, share * budget)
    devices = [setup.machine.device] if setup.machine.device.type == "cuda" else []
    few, many = choices[-1], choices[max(0, len(choices) - 3)]
    rates = (setup.recipe.rate, setup.recipe.matrix_rate)
    summed = None if job.summed is None else job.summed(network)
    optimisers = Optimisers(setup.training, network, matrices, rates, setup.machine.quick_bfloat16, summed=summed)
    network.train()
    with torch.random.fork_rng(devices):
        of_few = _gradients(job, network, setup, few)
        _, once = (_seconds_of(of_few, setup) for _ in range(2))  # the first one also warms up
        is_slow = once > _MOST_SHARE * budget
        works = {"few": of_few, "updating": lambda: optimisers.step(0.0)}
        if few < many <= _MOST_SHARE * budget / (2 * once / few):
            works["many"] = _gradients(job, network, setup, many)
        seconds = {} if is_slow else dict(zip(works, _seconds(list(works.values()), setup, enough), strict=True))
    network.zero_grad(set_to_none=True)
    if is_slow:
        return Costs(once / few, 0.0)
    row = seconds["few"] / few
    if "many" in seconds:
        row = min(row, max(0.0, seconds["many"] - seconds["few"]) / (many - few))
    return Costs(row, seconds["few"] - few * row + seconds["updating"])


def _gradients(job: TrainingJob[N], network: N, setup: Setup, rows: int) -> Callable[[], None]:
    """Return a function that computes the gradients of the first step, as if it had so many rows."""
    objective = job.objective(network, replace(setup, recipe=replace(setup.recipe, batch=rows)))
    parts = objective.parts(0)

    def compute() -> None:
        network.zero_grad(set_to_none=True)
        for part in parts:
            with setup.machine.precision():
                nats = objective.loss(0, part, network, 0.0)
            nats.backward()  # type: ignore[no-untyped-call]

    return compute


def _seconds(works: Sequence[Callable[[], None]], setup: Setup, enough: float) -> list[float]:
    """Return seconds of each, by turns: the median of several short trials.

    works: the first has warmed up already. enough: seconds of the first, all together. A trial is as many turns as fit
    a share of that. Programs beside this one delay some trials, so that one step may take ten times as long as another.
    """
    for work in works[1:]:  # which also warms up
        _seconds_of(work, setup)
    trials: list[list[float]] = []
    spent, most = 0.0, _MOST_TIMES * enough
    while spent < enough or (len(trials) < _FEWEST_TRIALS and spent < most):
        turns: list[list[float]] = []
        began = spent
        while not turns or (len(turns) < _MOST_TURNS and spent - began < enough / _TRIALS):
            turns.append([_seconds_of(work, setup) for work in works])
            spent += turns[-1][0]
        trials.append([sum(every) / len(turns) for every in zip(*turns, strict=True)])
        if len(trials) == _TRIALS:
            break
    return [median(every) for every in zip(*trials, strict=True)]


def _seconds_of(work: Callable[[], None], setup: Setup) -> float:
    """Return seconds by the clock, but at most three times what each of torch's threads computed: what is left is
    waiting for other programs, of which a moment says little.

    `SpeedCheck` notices those that stay.
    """
    follow_load()
    began, computed = time.perf_counter(), time.process_time()
    work()
    setup.machine.wait()
    seconds, computed = time.perf_counter() - began, time.process_time() - computed
    if setup.machine.device.type != "cpu":
        return seconds
    return min(seconds, _MOST_WAITING * computed / torch.get_num_threads())


_VALIDATING = LEARNING_SHARE + FINAL_SHARE  # of the minutes
_TOKENS_A_WEIGHT, _TOKENS_A_PARAMETER = 3.0, 0.02  # that a size reads at least: of its layers' matrices, and of all
_PARAMETERS_A_TOKEN = 15.0  # of the text, at most: a larger network memorises a short text
_FEWEST_PASSES = 2.0  # over a text, before it can be memorised
_LARGE_SOFTMAX, _SAMPLED = 4_000, 5  # tokens from which a softmax is sampled, and how many there are for each draw
_TRIAL_TEXT = 1 << 16  # tokens that trials of sizes read


class Trial(NamedTuple):
    """What a network could do in the minutes.

    weights: in the matrices of its layers. parameters: of these, the tokens' vectors and the output. tokens: that it
    would read.
    """

    weights: int
    parameters: int
    tokens: float

    def fits(self, text: int, weights_a_token: float) -> bool:
        """Return whether it would read enough for its size, and a text of so many tokens is long enough for that."""
        needed = max(_TOKENS_A_WEIGHT * self.weights, _TOKENS_A_PARAMETER * self.parameters)
        return self.tokens >= needed and not self.too_many_for(text, weights_a_token)

    def times(self, factor: float) -> Trial:
        """Return the trial of a machine that is faster by a factor."""
        return self._replace(tokens=factor * self.tokens)

    def too_many_for(self, text: int, weights_a_token: float) -> str:
        """Return what a text of so many tokens is too short for, however much there is time to read; "" if it is not.

        weights_a_token: of the layers' matrices, at most, for each token of the text.
        """
        if self.parameters > _PARAMETERS_A_TOKEN * text:
            return f"{self.parameters:,} parameters, more than {_PARAMETERS_A_TOKEN:g}"
        if self.weights > weights_a_token * text:
            return f"{self.weights:,} weights in its layers, more than {weights_a_token:g}"
        return ""


class ChosenSize(NamedTuple):
    """The settings of a network, and notes on them. check: compares the speed of training with that of the trial; None
    where there was no trial, or there is too little time to begin again.
    """

    config: NetworkConfig
    notes: tuple[str, ...] = ()
    check: SpeedCheck | None = None


class OtherSize(Exception):  # noqa: N818  # no error
    """Training is so much faster or slower than its trial that another size fits: the run has to begin again."""

    def __init__(self, chosen: ChosenSize) -> None:
        super().__init__()
        self.chosen = chosen


_CHECKED_AFTER, _DIFFERENT = 0.1, 2.0  # of the minutes; a speed is compared with that of the trial, within this factor


class SpeedCheck:
    """Compares the speed of training with that of the trial, once a tenth of the minutes have trained."""

    def __init__(
        self, size: NetworkConfig, after: float, expected: float, choose: Callable[[float], ChosenSize]
    ) -> None:
        """Store what is expected. after: seconds. expected: tokens per second. choose: what fits if so many were
        read.
        """
        self._size, self._after, self._expected, self._choose = size, after, expected, choose
        self._first: tuple[int, float] | None = None
        self._is_over = False

    def stepped(self, tokens: int, seconds: float) -> None:
        """Record a step. tokens, seconds: of all so far; the first step, which may compile, does not count.

        Raises OtherSize.
        """
        if self._is_over or self._first is None:
            self._first = self._first or (tokens, seconds)
            return
        if seconds < self._after:
            return
        self._is_over = True
        speed = (tokens - self._first[0]) / max(_INSTANT, seconds - self._first[1])
        if self._expected / _DIFFERENT <= speed <= self._expected * _DIFFERENT:
            return
        chosen = self._choose(speed)
        if chosen.config != self._size:
            why = (
                f"training reads {speed:,.0f} tokens a second, and the trial had expected {self._expected:,.0f}: it "
                "begins again with another size or dropout"
            )
            raise OtherSize(chosen._replace(notes=(why, *chosen.notes)))


class FittedSize(NamedTuple):
    """A network of the size chosen, its trial, and that of the next one, which is too large, if there is one."""

    config: NetworkConfig
    trial: Trial
    larger: Trial | None


def fit_size(
    config: NetworkConfig, names: frozenset[str], text: int, trial: Callable[[NetworkConfig], Trial]
) -> FittedSize | None:
    """Return the largest size of a family that fits the minutes and the text, or its smallest one.

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
            if chosen is not None and not tried.fits(text, config.weights_a_token):
                return chosen._replace(larger=tried)
            chosen = FittedSize(candidate, tried, None)
            break
    return chosen


def _of_size(config: NetworkConfig, size: Mapping[str, int], names: frozenset[str]) -> Iterator[NetworkConfig]:
    """Yield the settings with this size, and with the longer contexts of other sizes, which a window or a row may
    need.
    """
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
    known: Mapping[NetworkConfig, Trial] | None = None,
) -> ChosenSize:
    """Return the settings of a network, with a size and an output for its vocabulary where they are not given.

    known: where an earlier choice proved wrong, what networks could do in a second. A run that resumes keeps its size.
    Raises ModelFormatError if its checkpoint is damaged.
    """
    asked = config
    training = with_budget(options.training)
    names = frozenset() if options.start is not None else sizes_left_open(config, training)
    if options.vectors is not None:
        names -= {"width", config.token_width_setting}  # the vectors say
    if "width" not in names:
        names -= {"heads"}  # which follow it
    if not names or training.minutes is None:
        return ChosenSize(config)
    resumes = run.resume and run.folder is not None and known is None
    kept = Checkpoints(run.folder / FOLDER).network() if resumes and run.folder is not None else None
    if kept is not None:
        return ChosenSize(replace(config, **{name: kept[name] for name in names if name in kept}))
    tried = replace(options, training=training, validation=None, vectors=None, start=None)
    notes: list[str] = []
    for changes in _for_vocabulary(config, names, vocabulary_size, options):
        with suppress(SettingError):
            config = replace(config, **changes)
            loss = "; the loss while it learns is that of the samples" * (changes.get("output") == "sampled")
            notes.append(f"{_shown(changes)}, since there are {vocabulary_size:,} tokens{loss}")
    if not names & config.sizes[0].keys():
        return ChosenSize(config, tuple(notes))
    budget = 60 * training.minutes
    passed = 0.0 if run.began is None else time.monotonic() - run.began
    trained = (1 - _VALIDATING) * time_left(budget, passed)  # seconds

    trials: dict[NetworkConfig, Trial] = {}

    def trial(size: NetworkConfig) -> Trial:
        if known is not None and size in known:
            return known[size].times(trained)
        job = make_job(stream[:_TRIAL_TEXT], vocabulary_size, size, tried)
        with explain_out_of_memory(lambda device: f"the memory of the {device} is not enough"):
            trials[size] = _trial(job, trained)
        return trials[size]

    fitted = fit_size(config, names, stream.size, trial)
    if fitted is None:
        return ChosenSize(config, tuple(notes))
    notes[:0] = _notes(fitted, names, budget, stream.size)
    config, why = _with_dropout(fitted, names, stream.size)
    check, after = None, _CHECKED_AFTER * budget
    if known is None and passed + 2 * after <= budget / 2 and processes_started() == 1:

        def choose_again(speed: float) -> ChosenSize:
            factor = speed / fitted.trial.tokens  # by which all trials were wrong; those of other sizes come now
            now = {size: trial.times(factor) for size, trial in trials.items()}
            return with_size(make_job, stream, vocabulary_size, asked, options, run, now)

        check = SpeedCheck(config, after, fitted.trial.tokens / trained, choose_again)
    return ChosenSize(config, (*notes, *why), check)


def _for_vocabulary(
    config: NetworkConfig, names: frozenset[str], size: int, options: StreamOptions
) -> Iterator[dict[str, Any]]:
    """Yield settings that suit a vocabulary. names: the settings that may be chosen."""
    needs_logits = options.known is not None or options.teacher is not None
    chooses_output = "output" in names and not needs_logits
    if size > LARGE_VOCABULARY and chooses_output:
        yield {"output": "adaptive"}
        return
    if size >= MANY_TOKENS and config.gains_from_ties and "tied" in names and options.known is None:
        yield {"tied": True}
    if size >= _LARGE_SOFTMAX and config.gains_from_ties and chooses_output and not config.is_bidirectional:
        yield {"output": "sampled"} | ({"noise_samples": size // _SAMPLED} if "noise_samples" in names else {})


def _with_dropout(fitted: FittedSize, names: frozenset[str], text: int) -> tuple[NetworkConfig, tuple[str, ...]]:
    """Return the settings, with dropout where the network would memorise a text of so many tokens without it; and a
    note.
    """
    config, trial, _ = fitted
    has_many_tokens = config.tied or config.output == "adaptive"
    levels = (config.repeated_of_many if has_many_tokens else {}) or config.repeated
    passes, share = trial.tokens / text, trial.parameters / text
    reached = [settings for least, settings in levels.items() if passes * share >= least]
    dropout: dict[str, Any] = {name: value for name, value in (reached or [{}])[-1].items() if name in names}
    if not dropout or passes < _FEWEST_PASSES:
        return config, ()
    why = (
        f"{_shown(dropout)}, since there is time to read the text {_rounded(passes)} times, with {_rounded(share)} "
        "parameters, vectors and output included, for each of its tokens"
    )
    return replace(config, **dropout), (why,)


def _trial(job: TrainingJob[Network], budget: float) -> Trial:
    """Return what this network could do in a budget of seconds."""
    processes = join_processes()
    setup = Setup(job.training, job.recipe, machine_for(job.training), processes)
    with torch.random.fork_rng([]):
        network = job.build().to(setup.machine.device)
        objective, matrices = job.objective(network, setup), job.matrices(network)
        choices = batch_choices(job.recipe.batch, objective.row_tokens, job.training.accumulate * processes.number)
        costs = _costs(job, network, setup, matrices, choices, budget, _SIZE_SHARE)
    rows = choose_rows(choices, budget, *costs) if job.training.batch is None else job.recipe.batch
    tokens = budget / (rows * costs.row + costs.fixed) * rows * objective.row_tokens
    weights, parameters = (sum(each.numel() for each in every) for every in (matrices, network.parameters()))
    return Trial(weights, parameters, processes.broadcast(tokens))


def _notes(fitted: FittedSize, names: frozenset[str], budget: float, text: int) -> tuple[str, ...]:
    """Return notes on the size. budget: seconds. text: tokens."""
    config, trial, larger = fitted
    chosen = {name: getattr(config, name) for name in config.sizes[0] if name in names}
    notes = [f"size for this time: {_shown(chosen)}; to change it, set these options"] if chosen else []
    minutes = "1 minute has" if budget == 60 else f"{budget / 60:g} minutes have"
    time_for = f"{minutes} time for {trial.tokens:,.0f} tokens for {trial.parameters:,} parameters"
    if larger is None:
        notes.append(time_for)
    elif trial.too_many_for(text, config.weights_a_token):
        notes.append(f"{time_for}: many for so short a text, and there is no smaller size")
    elif too_many := larger.too_many_for(text, config.weights_a_token):
        notes.append(f"{time_for}; the next size is too large for the text: {too_many} for each of its tokens")
    else:
        of = f" for {larger.parameters:,} parameters" * (larger.parameters != trial.parameters)
        more = f"in the next size {larger.tokens:,.0f} tokens{of}"
        notes.append(f"{time_for}, and {more}")
    return tuple(notes)


def _rounded(number: float) -> str:
    """Return a number with two digits, or whole: 0.054, 1.2, 43, 1,204."""
    return f"{number:.2g}" if number < 10 else f"{number:,.0f}"


def _shown(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
