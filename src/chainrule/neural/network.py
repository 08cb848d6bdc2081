"""A neural language model as a module: softmax(U f(w_1 .. w_i-1)), with an embedding before the context encoder f.

Its input begins with </s>, so that a text begins as every document of a stream does; a network that also reads what
follows a text gets </s> after it, too (`add_boundaries`).
Legend: B batch, T time, D width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.layers.output import SampledSoftmax
from chainrule.neural.sentence_pairs import with_types
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.network import Memory
    from chainrule.neural.layers.basic import Embedding
    from chainrule.neural.layers.output import AdaptiveSoftmax, FullSoftmax, NoOutput
    from chainrule.neural.layers.state import State
    from chainrule.neural.sentence_pairs import NextSentence


class Encoder(Protocol):
    """A context encoder, f: an nn.Module that takes care of causality and of its state."""

    @property
    def width(self) -> int:
        """The width of its hidden states."""

    @property
    def is_bidirectional(self) -> bool:
        """Whether a token's hidden state also depends on later tokens; if so, there is no state to continue from."""

    @property
    def context(self) -> int | None:
        """The most tokens that a state holds; None for any number.

        Before a full state reads one more token, it drops all but the last `context // 2` tokens and reads them again.
        """

    @property
    def reach(self) -> int | None:
        """If a state never fills: how many of the last tokens a prediction depends on; None for all."""

    def start(self, rows: int) -> State:
        """Return the state of rows that have read nothing."""

    def __call__(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T width"], State]:
        """Return hidden states, and the state to continue from (possibly None if no state was given).

        state: from `start` or an earlier call; the call consumes it. starts: True where a row forgets what it has read
        and begins anew: at the borders of packed documents, and at the end of padding on the left.
        """

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T width"]]:
        """Return the hidden states of each layer, from the first to the last, for rows that are read from their
        beginning.

        Those of the last layer are what a call returns. x, starts: as for a call.
        """

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the named parameters, as `nn.Module.named_parameters` does."""


class Network(nn.Module):
    """Embedding, encoder, output.

    alone: whether texts are scored each in a separate pass; None where that costs nothing. stride: the distance between
    the windows in which texts longer than the context are scored, in tokens; None for half of the context. begin: the
    token that texts begin with, in place of what the configuration says; None for that.
    """

    alone: bool | None = None
    stride: int | None = None
    begin: int | None = None

    def __init__(
        self,
        config: NetworkConfig,
        embedding: Embedding,
        encoder: Encoder,
        output: FullSoftmax | SampledSoftmax | AdaptiveSoftmax | NoOutput,
        next_sentence: NextSentence | None = None,
    ) -> None:
        """Store the parts of the network. next_sentence: whether there is a second output, for pairs of sentences."""
        super().__init__()
        self.config, self.embedding, self.encoder, self.output = config, embedding, encoder, output
        self.next_sentence = next_sentence
        self.vocabulary_size = len(embedding.weight)

    def end_sampling(self) -> None:
        """Put the full softmax, by which it is evaluated, in place of a sampled one, by which it learned."""
        if isinstance(self.output, SampledSoftmax):
            self.output, self.config = self.output.full, replace(self.config, output="full")

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        state: State = None,
        starts: Bool[Tensor, "B T"] | None = None,
        second: Int64[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return hidden states, and the state to continue from.

        tokens: (B, T), with </s> before the first token of each text. state, starts: as for `Encoder`. A network whose
        memory is a document's begins anew at every </s>. second: where the second sentence begins in rows that are
        pairs, each of them one document.
        """
        if second is not None:
            return self.encoder(with_types(self.embed(tokens), self.types, second), state, starts)
        if self.memory == "document":
            borders = tokens == END
            starts = borders if starts is None else starts | borders
        return self.read(self.as_read(tokens), state, starts)

    def read(
        self, tokens: Int64[Tensor, "B T"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return hidden states after tokens that are read exactly as given, and the state to continue from.

        state, starts: as for `Encoder`.
        """
        return self.encoder(self.embedding(tokens), state, starts)

    def packs_texts(self) -> bool:
        """Return whether `read_texts` can be called, and gives each text the bits that it has when it is read alone."""
        packs = getattr(self.encoder, "packs_texts", None)
        return packs is not None and packs()

    def read_texts(self, tokens: Int64[Tensor, "1 T"], lengths: Sequence[int]) -> Float[Tensor, "1 T D"]:
        """Return hidden states after the tokens of several texts, one after the other, each read from its beginning."""
        read = cast("Callable[[Tensor, Sequence[int]], Tensor]", self.encoder.read_texts)  # type: ignore[attr-defined]
        return read(self.embedding(self.as_read(tokens)), lengths)

    def as_read(self, tokens: Int64[Tensor, "B T"]) -> Int64[Tensor, "B T"]:
        """Return the tokens that are read: the </s> before a text becomes what texts begin with, where that is another
        token.

        A network with a document's memory reads </s> only as what a text begins with.
        """
        return tokens if self.first_token == END else torch.where(tokens == END, self.first_token, tokens)

    @property
    def first_token(self) -> int:
        """The token that is read before a text."""
        if self.encoder.is_bidirectional:
            return END
        if self.begin is not None:
            return self.begin
        if self.config.first_read is not None:
            return self.config.first_read
        return BEGIN if self.config.begins_with == "<s>" else END

    def embed(self, tokens: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the vectors of the tokens, `as_read`."""
        return cast("Tensor", self.embedding(self.as_read(tokens)))

    def start(self, rows: int) -> State:
        """Return the state of rows that have read nothing."""
        return self.encoder.start(rows)

    @property
    def reach(self) -> int | None:
        """As `Encoder.reach`."""
        return self.encoder.reach

    @property
    def types(self) -> Tensor | None:
        """The vectors of token types, (types, D), for the sentences of a pair; None if the network has none."""
        return cast("Tensor | None", getattr(self.encoder, "segments", None))

    @property
    def memory(self) -> Memory:
        return self.config.memory

    @property
    def capabilities(self) -> frozenset[str]:
        """What it has of what `set_reading` sets: windows, a cache, blocks, a beginning."""
        is_causal = not self.encoder.is_bidirectional
        has = {
            "windows": is_causal and self.encoder.context is not None,
            "beginning": is_causal and self.memory == "document",
            "cache": getattr(self.encoder, "has_cache", False),
            "blocks": hasattr(self.encoder, "set_float64_layers"),
        }
        return frozenset(name for name, own in has.items() if own)

    def set_reading(
        self,
        *,
        alone: bool | None,
        stride: int | None,
        begin: int | None,
        cache_bits: int | None,
        float64_layers: int | None,
    ) -> None:
        """Set how it reads texts, as far as it has what that needs. None leaves the default, of `begin` the setting.

        alone, stride, begin: as the attributes. cache_bits, float64_layers: as for a Transformer. Raises SettingError.
        """
        has, encoder = self.capabilities, cast("Any", self.encoder)
        self.alone = alone
        if "beginning" in has:
            self.begin = begin
        if "cache" in has and cache_bits is not None:
            encoder.set_cache_bits(cache_bits)
        if "blocks" in has and float64_layers is not None:
            encoder.set_float64_layers(float64_layers)
        if "windows" in has and stride is not None:
            if stride > encoder.context:
                raise SettingError(
                    f"window_stride is {stride}; expected 1 to {encoder.context}, the tokens that the network sees"
                )
            self.stride = stride

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def matrices(self) -> list[nn.Parameter]:
        """Return the encoder's matrices, whose gradients Muon orthogonalises; tables by position or distance are not
        among them.
        """
        return [weight for name, weight in self.encoder.named_parameters() if weight.ndim == 2 and not _is_table(name)]

    def others(self) -> list[nn.Parameter]:
        """Return all parameters but the `matrices`."""
        matrices = {id(weight) for weight in self.matrices()}
        return [weight for weight in self.parameters() if id(weight) not in matrices]


def _is_table(name: str) -> bool:
    """Return whether a two-dimensional parameter is a table, of vectors by position or segment or of biases by
    distance.
    """
    return name.startswith(("places.", "bias.", "segments"))


def add_boundaries(sequence: Int32[ndarray, " tokens"], network: Network) -> Int64[ndarray, " inputs"]:
    """Return the text with its </s>; the final one begins the next document, so networks of single documents never read
    it.

    A network that has a special token for the end of what it reads (BERT's [SEP]) reads that.
    """
    return np.concatenate([[END], sequence, _after_text(network)]).astype(np.int64)


def check_length(network: Network, tokens: int, limit: int | None = None) -> None:
    """Check that a network reads a text of so many tokens at once, with what it reads around them.

    limit: the most that whoever asks would show, which counts if it is less. Raises SettingError.
    """
    context = network.encoder.context
    own = None if context is None else context - 1 - len(_after_text(network))
    if own == 0 and tokens:
        raise SettingError(
            "the network reads one token at a time (context 1), so it never reads a whole text; expected a network "
            "with a longer context"
        )
    if own is not None and tokens > own and (limit is None or own <= limit):
        raise SettingError(f"the text has {tokens:,} tokens, but the network reads at most {own:,} at once; shorten it")
    if limit is not None and tokens > limit:
        raise SettingError(f"the text has {tokens:,} tokens; this is shown of up to {limit:,}: shorten it")


def _after_text(network: Network) -> list[int]:
    if not network.encoder.is_bidirectional:
        return []
    if network.config.closed_by is not None:
        return [network.config.closed_by]
    return [END] if network.memory == "stream" else []


def padding_starts(
    lengths: Sequence[int], device: torch.device | None = None, *, width: int = 0
) -> Bool[Tensor, "B T"] | None:
    """Return True where the padding of a row begins, as a separate document; None if there is no padding.

    width: the length to pad rows to, if none is longer.
    """
    width = max(width, *lengths)
    if min(lengths) == width:
        return None
    return torch.arange(width, device=device) == torch.tensor(lengths, device=device)[:, None]
