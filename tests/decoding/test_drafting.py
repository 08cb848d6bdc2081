"""Drafts change no text: greedy or drawn, in a form, with any limits, right guesses or wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_networks import DOCUMENT_NETWORKS, MODERN, STREAM_NETWORKS, VOCABULARY_SIZE, random_network, small
from samples import examples

import chainrule
from chainrule.decoding.config import GREEDY, SamplingConfig
from chainrule.decoding.drafters import Guess, ModelDrafter, NGramLookup, PromptLookup, SurestDrafter
from chainrule.decoding.drafting import DraftedModel, DraftLength
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import Batch, Row, Sample, sample
from chainrule.mixture.uniform import UniformModel
from chainrule.neural.build import build
from chainrule.neural.config import TransformerConfig, gpt2, llama
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.matrix_products import pack
from chainrule.neural.quantization import packable
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


TRANSFORMERS = {
    name: config
    for name, config in {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}.items()
    if isinstance(config, TransformerConfig) and not getattr(config, "mixers", ())
}
PREFIX = np.array([5, 9, 5, 9, 5], np.int32)


@dataclass
class Known:
    """A drafter that knows, or believes to know, the text that will come after a prefix."""

    tokens: Sequence[int]
    prefix_length: int = len(PREFIX)

    def begin(self) -> Known:
        self.read = -self.prefix_length
        return self

    def add(self, tokens: Sequence[int]) -> None:
        self.read += len(tokens)

    def ahead(self) -> Iterator[Guess]:
        return (Guess(token, 0.99) for token in self.tokens[self.read :])


def network_of(config: TransformerConfig, seed: int = 1, spread: float = 0.4) -> NeuralModel:
    """Weights so large that texts vary."""
    torch.manual_seed(seed)
    network = build(config, VOCABULARY_SIZE)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=spread)
    return NeuralModel(network)


def both(
    model: NeuralModel, drafter: Any, config: SamplingConfig, constraints: Constraints, **options: Any
) -> tuple[list[Sample], list[Sample], DraftedModel]:
    """Texts without drafts and with them, and the model that drafted them."""
    drafted = DraftedModel(model, drafter)
    prefixes = options.pop("prefixes", [PREFIX])
    return (
        sample(model, prefixes, config, constraints, seed=7, **options),
        sample(drafted, prefixes, config, constraints, seed=7, **options),
        drafted,
    )


def assert_same(first: list[Sample], second: list[Sample]) -> None:
    for one, other in zip(first, second, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.log_probs.tobytes() == other.log_probs.tobytes()  # the same bits
        assert one.ending == other.ending


ONE_STEP = chainrule.TrainingConfig(steps=1, compile="no")
LONG = Constraints(max_tokens=24, min_tokens=24)


@pytest.mark.spread(7)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_texts_of_every_transformer_are_the_same_and_what_is_right_is_accepted(name: str) -> None:
    model = network_of(TRANSFORMERS[name])
    [plain] = sample(model, [PREFIX], GREEDY, LONG, seed=7)
    first, second, drafted = both(model, Known(plain.tokens.tolist()), GREEDY, LONG)
    assert_same(first, second)
    assert drafted.counts.accepted in (drafted.counts.drafted, drafted.counts.drafted - 1)  # nothing follows the last


@pytest.mark.parametrize("name", ["Transformer, modern, of documents", "Transformer, windows in every other block"])
def test_a_pass_over_several_tokens_has_the_bits_of_one_after_the_other(name: str) -> None:
    """Whatever share of what was read ahead is kept: the rest is written over, or copied if it was not given up."""
    model = network_of(replace(TRANSFORMERS[name], context=40, width=48, heads=4))
    rng, tokens = np.random.default_rng(3), np.random.default_rng(4).integers(3, VOCABULARY_SIZE, 60).astype(np.int32)
    state = ahead = model.start([PREFIX])
    place = 0
    while place < len(tokens):
        room = min(model.room_ahead(ahead), 9, len(tokens) - place)
        states = model.read_ahead(ahead, tokens[place : place + room]) if room else []
        if not room:
            states = [model.advance(ahead, tokens[place : place + 1])]
        states = states[: rng.integers(1, len(states) + 1)]
        for expected in states:
            state = model.advance(state, tokens[place : place + 1])
            assert model.next_log_probs(expected).tobytes() == model.next_log_probs(state).tobytes()
            place += 1
        ahead = states[-1]
        if rng.random() < 0.7:
            model.forget_ahead(ahead)


def test_weights_in_eight_bits_and_matrices_for_our_kernel() -> None:
    """256 x 1024 weights go to the kernel for few vectors, the others to torch."""
    model = network_of(replace(small(llama(), heads=8), width=256, feed_forward_width=512, context=64), spread=0.05)
    for name in packable(model.network):
        owner, _, own = name.rpartition(".")
        packed = torch.nn.Parameter(pack(model.network.get_parameter(name)), requires_grad=False)
        setattr(model.network.get_submodule(owner), own, packed)
    first, second, drafted = both(model, NGramLookup(), GREEDY, LONG)
    assert_same(first, second)
    assert drafted.counts.accepted


CONFIGS = st.sampled_from(
    [
        GREEDY,
        SamplingConfig(),
        SamplingConfig(temperature=0.5),
        SamplingConfig(temperature=1.5),
        SamplingConfig(top_k=3),
        SamplingConfig(top_p=0.7),
        SamplingConfig(temperature=0.7, frequency_penalty=0.5),
        SamplingConfig(repetition_penalty=1.3),
    ]
)
DRAFTERS = st.sampled_from([PromptLookup(), NGramLookup(), ModelDrafter(UniformModel(VOCABULARY_SIZE)), None])
SHAPES = [
    small(MODERN, context=30),
    small(gpt2(), context=12, feed_forward="gelu"),
    small(llama(), context=30, window=5, head_width=6),
]


@examples(1.5)
@given(
    CONFIGS,
    DRAFTERS,
    st.sampled_from(SHAPES),
    st.integers(0, 99),
    st.integers(0, 30),
    st.integers(0, 12),
    st.integers(0, 3),
    st.lists(st.integers(3, VOCABULARY_SIZE - 1), max_size=20),
)
def test_random_networks_settings_and_drafts(
    config: SamplingConfig,
    drafter: Any,
    shape: TransformerConfig,
    seed: int,
    most: int,
    least: int,
    no_repeat: int,
    believed: list[int],
) -> None:
    model = network_of(shape, seed)
    constraints = Constraints(
        max_tokens=max(most, least), min_tokens=least, no_repeat=2 * no_repeat, banned=[3], begin=[6] * (least % 2)
    )
    first, second, _ = both(
        model, drafter or Known([6] * (least % 2) + believed), config, constraints, until=lambda _, text: text[-1] == 11
    )
    assert_same(first, second)


def test_texts_in_a_form_with_stops_are_the_same() -> None:
    """Letters as tokens; the form's masses too have the same bits."""
    lines = chainrule.Lines(["abc abc (abab) cab"] * 4)
    config = small(MODERN, context=60, memory="document")
    model = chainrule.train(
        lines, config, training=chainrule.TrainingConfig(steps=1, compile="no"), tokenizer="character"
    )
    assert isinstance(model, chainrule.CausalModel)
    for limits in (
        chainrule.Limits(regex="(ab|abc){3,9}", max_tokens=30),
        chainrule.Limits(stop=["bc", "(("], min_tokens=5),
    ):
        for seed in range(4):
            plain = model.sample("ab", limits=limits, seed=seed)
            drafting = chainrule.Drafting("ngram")
            assert model.sample("ab", limits=limits, seed=seed, draft=drafting) == plain
            assert drafting.passes
            assert "".join(model.stream("ab", limits=limits, seed=seed, draft="prompt")) == plain[0].text


def test_a_draft_model_has_the_tokens_of_the_model() -> None:
    lines = chainrule.Lines(["ka vi sa", "ka vi ka vi"] * 12)
    config = small(MODERN, context=60, memory="document")
    model = chainrule.train(lines, config, training=ONE_STEP)
    own = chainrule.train(lines, chainrule.NGramConfig(order=2))
    other = chainrule.train(chainrule.Lines(["ka vi"]), chainrule.NGramConfig(order=2))
    assert isinstance(model, chainrule.CausalModel)
    assert model.generate("ka", seed=1, draft=own) == model.generate("ka", seed=1)
    with pytest.raises(chainrule.SettingError, match="the draft model, a model, ngram, has other tokens"):
        model.generate("ka", draft=other)
    with pytest.raises(chainrule.SettingError, match="draft is 'promt'; expected prompt, ngram or a model"):
        model.generate("ka", draft="promt")
    with pytest.raises(chainrule.SettingError, match="this model, ngram, cannot be drafted"):
        own.generate("ka", draft="prompt")


def test_wrong_drafts_cost_few_passes_and_stop() -> None:
    model = network_of(small(MODERN, context=200))
    limits = Constraints(max_tokens=150, min_tokens=150)
    [plain] = sample(model, [PREFIX], GREEDY, limits, seed=7)
    wrong = [3 + (token + 1) % (VOCABULARY_SIZE - 3) for token in plain.tokens.tolist()]
    first, second, drafted = both(model, Known(wrong), GREEDY, limits)
    assert_same(first, second)
    assert drafted.counts.accepted == 0
    assert drafted.counts.passes == 149
    assert drafted.counts.drafted < 150 * 0.05 / 0.107  # at 0.107 of a pass a token, see the usual costs


def test_right_drafts_save_most_passes() -> None:
    model = network_of(small(MODERN, context=200))
    limits = Constraints(max_tokens=150, min_tokens=150)
    [plain] = sample(model, [PREFIX], GREEDY, limits, seed=7)
    *_, drafted = both(model, Known(plain.tokens.tolist()), GREEDY, limits)
    assert drafted.counts.passes < 150 / 10
    assert drafted.counts.passes + drafted.counts.accepted == 149  # nothing follows the last token


def test_texts_of_a_batch_are_the_same_and_the_last_one_is_drafted() -> None:
    model = network_of(small(MODERN, context=60))
    prefixes = [PREFIX, np.array([4], np.int32), np.array([8, 8, 8], np.int32)]
    limits = Constraints(max_tokens=40)
    first, second, _ = both(model, NGramLookup(), SamplingConfig(), limits, prefixes=prefixes, texts_per_prefix=2)
    assert_same(first, second)
    drafted = DraftedModel(model, PromptLookup())
    batch = Batch(drafted)
    rows = [Row([5, 6], GREEDY, Constraints(max_tokens=most), np.random.default_rng(1), 2) for most in (3, 30)]
    state = drafted.start([np.array([5, 6], np.int32)])
    batch.add(drafted.select(state, np.zeros(2, np.int32)), rows)
    while batch.rows:
        batch.step()
    assert rows[1].generated[:3] == rows[0].generated
    assert drafted.counts.passes > 0
    [alone] = sample(model, [np.array([5, 6], np.int32)], GREEDY, Constraints(max_tokens=30), seed=1)
    assert [token for token in rows[1].generated if token != END] == alone.tokens.tolist()


def test_states_that_share_what_was_read_ahead_stay_right() -> None:
    """A text forks where tokens were read ahead: one branch goes the drafted way, the other does not."""
    model = network_of(small(MODERN, context=60))
    drafted = DraftedModel(model, Known([], 0))
    drafted.drafter = Known([10, 11, 12, 13, 14, 15])
    state = drafted.advance(drafted.start([PREFIX]), np.array([10], np.int32))
    twin = drafted.select(state, np.zeros(1, np.int32))
    other = drafted.advance(state, np.array([20], np.int32))
    other = drafted.advance(other, np.array([21], np.int32))
    for token in (11, 12, 22):
        twin = drafted.advance(twin, np.array([token], np.int32))
    for own, tokens in ((twin, [10, 11, 12, 22]), (other, [10, 20, 21])):
        expected = model.start([PREFIX])
        for token in tokens:
            expected = model.advance(expected, np.array([token], np.int32))
        assert drafted.next_log_probs(own).tobytes() == model.next_log_probs(expected).tobytes()


def test_join_and_read_as_a_server_does() -> None:
    model = network_of(small(MODERN, context=60))
    drafted = DraftedModel(model, PromptLookup())
    state = drafted.read([np.array([2, 5, 6], np.int32)])
    state = drafted.read([np.array([7], np.int32)], state)
    joined = drafted.join([drafted.advance(state, np.array([5], np.int32)), drafted.start([PREFIX])])
    joined = drafted.advance(joined, np.array([6, 7], np.int32))
    expected = model.read([np.array([2, 5, 6, 7, 5, 6], np.int32)])
    np.testing.assert_allclose(
        drafted.next_log_probs(joined)[0], model.next_log_probs(expected)[0], rtol=1e-4, atol=1e-5
    )
    assert [text.tokens[:length] for text, length in joined.texts] == [[2, 5, 6, 7, 5, 6], [*PREFIX.tolist(), 7]]


def guesses(drafter: PromptLookup | NGramLookup, text: Sequence[int], most: int) -> list[int]:
    knowledge = drafter.begin()
    knowledge.add(text)
    return [guess.token for guess in islice(knowledge.ahead(), most)]


@given(st.lists(st.integers(0, 2), max_size=40))
def test_the_longest_earlier_match(text: list[int]) -> None:
    """By looking at all of them: what comes first is what followed some earlier place with the longest match."""
    longest, followers = 0, set()
    for place in range(1, len(text)):
        length = next(i for i in chain(range(place), [place]) if i == place or text[place - 1 - i] != text[-1 - i])
        if length and length >= longest:
            followers = ({text[place]} | followers) if length == longest else {text[place]}
            longest = length
    found = guesses(PromptLookup(), text, 1)
    assert found == [] if not longest else found[0] in followers


def test_a_match_goes_on_round_the_end() -> None:
    assert guesses(PromptLookup(), [7, 8, 9, 7, 8, 9, 7], 7) == [8, 9, 7, 8, 9, 7, 8]
    assert guesses(PromptLookup(), [7, 8, 9], 3) == []
    assert guesses(PromptLookup(), [5, 5], 3) == [5, 5, 5]


def test_counts_take_the_most_frequent_after_the_longest_context() -> None:
    """After 2 comes 3 twice and 4 once; but after 1 2 only 4 has come."""
    text = [2, 3, 0, 2, 3, 0, 1, 2, 4, 0, 1, 2]
    assert guesses(NGramLookup(), text, 2) == [4, 0]
    knowledge = NGramLookup(order=2).begin()
    knowledge.add(text)
    assert next(knowledge.ahead()) == (3, 2 / (3 + 2 / 1))
    knowledge = NGramLookup().begin()
    knowledge.add([1, 2, 4, 0, 1, 2])
    assert next(knowledge.ahead()) == (4, 1 / (1 + 1 / 2))


def guess_all(chances: Sequence[float]) -> Iterator[Guess]:
    return (Guess(5, chance) for chance in chances)


def test_the_surest_of_several_drafters_guesses() -> None:
    class Sure:
        def __init__(self, *guesses: Guess) -> None:
            self.guesses, self.tokens = guesses, list[int]()

        def begin(self) -> Sure:
            return self

        def add(self, tokens: Sequence[int]) -> None:
            self.tokens += tokens

        def ahead(self) -> Iterator[Guess]:
            return iter(self.guesses)

    one, other, silent = Sure(Guess(7, 0.4), Guess(8, 0.9)), Sure(Guess(5, 0.6), Guess(6, 0.1)), Sure()
    guesses = SurestDrafter(one, other, silent).begin()
    guesses.add([3, 4])
    assert [guess.token for guess in guesses.ahead()] == [5, 6]
    assert one.tokens == other.tokens == [3, 4]
    assert list(SurestDrafter(silent).begin().ahead()) == []


def test_a_draft_model_that_knows_nothing_leaves_what_the_text_repeats() -> None:
    lines = chainrule.Lines(["ka vi sa", "ka vi ka vi"] * 12)
    config = small(MODERN, context=60, memory="document")
    model = chainrule.train(lines, config, training=ONE_STEP)
    assert isinstance(model, chainrule.CausalModel)
    drafting = chainrule.Drafting(chainrule.train(lines, chainrule.NGramConfig(order=1)))
    guesses = drafting.drafted_model(model.parts).drafter.begin()
    guesses.add([3, 4, 4, 5, 3, 4, 4])
    assert next(guesses.ahead()).token == 5


def test_how_many_are_drafted() -> None:
    """By the usual costs, 0.886 + 0.107 T: a sure draft is worth all that its credit pays, an unsure one nothing."""
    lengths = DraftLength()
    assert lengths.cost(2) == pytest.approx(1.1, abs=0.01)
    draft = lengths.choose(guess_all([1.0] * 20), 15)
    assert len(draft) == 9  # a pass of 10 costs 0.96 more, one of 11 1.06, with a credit of 1.03
    for place in range(9):
        lengths.note(draft, place, is_right=True)
    draft = lengths.choose(guess_all([1.0] * 20), 15)
    assert len(draft) == 15
    for place in range(15):
        lengths.note(draft, place, is_right=True)
    assert lengths.choose(guess_all([0.1] * 20), 15) == []
    lengths.note(draft, 3, is_right=False)
    assert len(lengths.choose(guess_all([1.0] * 20), 15)) == 6
    lengths = DraftLength()
    for _ in range(20):  # the chance falls to 0.99 2 / (16.6 + 2)
        lengths.note([Guess(5, 0.99)], 0, is_right=False)
    assert lengths.choose(guess_all([0.99] * 20), 15) == []
    assert lengths.choose(iter([Guess(END, 1.0)]), 15) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tokens", [20, 60, 300])
def test_texts_whose_guesses_are_all_wrong_take_little_longer(tokens: int, seed: int) -> None:
    """Whatever their confidences say: N tokens take 1.03 N + 1 passes of one token at most."""
    lengths, random, passes = DraftLength(), np.random.default_rng(seed), 0.0
    for _ in range(tokens):
        draft = lengths.choose(guess_all(random.uniform(0.2, 1, 31).tolist()), 31)
        passes += lengths.cost(1 + len(draft)) if draft else 1
        if draft:
            lengths.note(draft, 0, is_right=False)
    assert passes <= 1.03 * tokens + 1


def test_costs_are_measured() -> None:
    """Passes that take as long as their tokens one by one are not worth a draft; once they take less, they are."""
    seconds = iter(())
    lengths = DraftLength(lambda: next(seconds))
    assert lengths.choose(guess_all([1.0] * 20), 15) == []  # nothing is measured yet
    for _ in range(2):
        lengths.note_pass(1, 0.01)
    draft = lengths.choose(guess_all([1.0] * 20), 15)
    assert draft
    for place in range(len(draft)):
        lengths.note(draft, place, is_right=True)
    for _ in range(200):
        lengths.note_pass(8, 0.08)
        lengths.note_pass(2, 0.02)
    lengths.note_pass(1, 0.01)
    assert lengths.choose(guess_all([1.0] * 20), 15) == []
    for _ in range(200):
        lengths.note_pass(8, 0.012)
        lengths.note_pass(2, 0.011)
    lengths.note_pass(1, 0.01)
    assert len(lengths.choose(guess_all([1.0] * 20), 15)) == 15


def test_networks_that_cannot_read_ahead_say_so() -> None:
    for name, config in {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}.items():
        model = NeuralModel(random_network(config))
        assert model.reads_ahead == (name in TRANSFORMERS)
        if not model.reads_ahead:
            assert model.room_ahead(model.start([PREFIX])) == 0
