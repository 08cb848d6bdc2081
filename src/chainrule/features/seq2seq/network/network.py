"""The network for P(target | source): a source encoder, and a decoder that attends to it.

A decoder is a context encoder. After hard attention, a token is predicted from one of several choices, each with a
probability.
Legend: M sources, S their tokens, B rows of the decoder, T time, D width, *shape positions of any shape, C choices,
V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.convolution_decoder import ConvolutionDecoder
from chainrule.features.seq2seq.network.cross_attention import Source
from chainrule.features.seq2seq.network.encoders import build_reader
from chainrule.features.seq2seq.network.recurrent_decoder import HierarchicalDecoder, RecurrentDecoder
from chainrule.features.seq2seq.network.transformer_decoder import TransformerDecoder
from chainrule.features.seq2seq.network.vector_sources import VectorInput
from chainrule.neural.layers.basic import Embedding, Scaled
from chainrule.neural.layers.output import FullSoftmax
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float, Float32, Int64, Shaped

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.cross_attention import KeysAndValues, WeightLists
    from chainrule.features.seq2seq.network.encoders import SourceEncoder
    from chainrule.neural.layers.state import State

_BASELINE = 0.99  # decay of the running mean loss, the baseline of REINFORCE


class HardAttentionSoftmax(nn.Module):
    """P(token) = sum over choices of P(choice) P(token | choice); in training, choices are drawn at random.

    The last element of each hidden state is log P(choice). Rounding of the sum makes no probability more than 1.
    """

    def __init__(self, full: FullSoftmax, *, is_exact: bool = False) -> None:
        """Start with a baseline of 0 nats. is_exact: whether training, too, sums over all choices (Wu et al. 2018)."""
        super().__init__()
        self.full, self.is_exact = full, is_exact
        self.register_buffer("baseline", torch.zeros(1))  # nats

    @property
    def weight(self) -> nn.Parameter:
        return self.full.weight

    def loss(
        self,
        hidden: Float[Tensor, "*shape C D+1"],
        targets: Int64[Tensor, "*shape"],
        *,
        label_smoothing: float = 0.0,
        weights: Float[Tensor, "*shape"] | None = None,
    ) -> Float32[Tensor, ""]:
        """Implement `Output.loss`.

        In training, the variational bound of Xu et al. 2015 (equation 10); the gradient of the choice is that of
        REINFORCE, with the mean loss as baseline.
        """
        if label_smoothing:
            raise SettingError("label_smoothing does not work with hard attention; leave one of them out")
        if weights is not None:  # padding adds nothing, even if its token has no probability
            hidden, targets, weights = (each[weights != 0] for each in (hidden, targets, weights))
        if not self.training or self.is_exact:
            nats = -self.log_probs_of(hidden, targets)
            return nats.sum() if weights is None else (nats * weights).sum()
        if hidden.shape[-2] > 1:
            return self._loss_of_several(hidden, targets, weights)
        drawn = hidden[..., 0, :]
        nats = -self.full.log_probs_of(drawn[..., :-1].contiguous(), targets)
        counts = torch.ones_like(nats) if weights is None else weights
        assert isinstance(self.baseline, Tensor)
        worse = (nats - self.baseline).detach()
        with torch.no_grad():
            self.baseline.lerp_((nats * counts).sum() / counts.sum(), 1 - _BASELINE)
        bound = (nats * counts).sum()
        choosing = (worse * drawn[..., -1] * counts).sum()
        return bound + choosing - choosing.detach()  # the value is that of the bound, the gradient that of both

    def _loss_of_several(
        self, hidden: Float[Tensor, "*shape C D+1"], targets: Int64[Tensor, "*shape"], weights: Tensor | None
    ) -> Float32[Tensor, ""]:
        """Return -log of the mean probability of K draws, a closer bound (Mnih and Rezende 2016, equation 4).

        The reward of a draw is how much it adds to that logarithm: the baseline has the geometric mean of the other
        probabilities in place of the draw's probability (equation 10).
        """
        draws = hidden.shape[-2]
        log_probs = self.full.log_probs_of(hidden[..., :-1].contiguous(), targets[..., None].expand(hidden.shape[:-1]))
        bound = log_probs.logsumexp(-1) - math.log(draws)
        with torch.no_grad():
            of_others = (log_probs.sum(-1, keepdim=True) - log_probs) / (draws - 1)
            is_own = torch.eye(draws, dtype=torch.bool, device=hidden.device)
            without = torch.where(is_own, of_others.unsqueeze(-1), log_probs.unsqueeze(-2))  # (*shape, K, K)
            worth = bound.unsqueeze(-1) - (without.logsumexp(-1) - math.log(draws))
        choosing = (worth * hidden[..., -1]).sum(-1)
        counts = torch.ones_like(bound) if weights is None else weights
        return -((bound + choosing - choosing.detach()) * counts).sum()

    def log_probs(self, hidden: Float[Tensor, "*shape C D+1"]) -> Float32[Tensor, "*shape V"]:
        """Implement `Output.log_probs`."""
        if not len(hidden):  # without rows, there are no choices either
            return hidden.new_zeros(0, len(self.weight))
        return (self.full.log_probs(hidden[..., :-1]) + hidden[..., -1:]).logsumexp(-2).clamp(max=0)

    def log_probs_of(
        self, hidden: Float[Tensor, "*shape C D+1"], targets: Int64[Tensor, "*shape *tokens"]
    ) -> Float32[Tensor, "*shape *tokens"]:
        """Implement `Output.log_probs_of`."""
        choice = hidden.dim() - 2
        tokens = targets.shape[choice:]
        repeated = targets.unsqueeze(choice).expand(*hidden.shape[:-1], *tokens)
        log_probs = self.full.log_probs_of(hidden[..., :-1].contiguous(), repeated)
        of_choices = hidden[..., -1].view(*hidden.shape[:-1], *(1 for _ in tokens))
        return (log_probs + of_choices).logsumexp(choice).clamp(max=0)


class Decoder(Protocol):
    """A decoder, as an nn.Module."""

    width: int  # of its hidden states

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """Return the keys and values that each layer attends to; computed once for each source."""

    def start(self, source: Source) -> State:
        """Return the state of the source's rows before their first token."""

    def __call__(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *choices D"], State]:
        """Return the hidden states and the new state, as `Encoder` does, with rows that attend to `source`."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the named parameters, as `nn.Module.named_parameters` does."""


class Seq2SeqNetwork(nn.Module):
    """A source of tokens ends with </s>; the input of the decoder begins with it, or with what `begins_with` names."""

    def __init__(
        self,
        config: Seq2SeqConfig,
        source_embedding: Embedding | VectorInput,
        reader: SourceEncoder,
        embedding: Embedding,
        decoder: Decoder,
        output: FullSoftmax | HardAttentionSoftmax,
    ) -> None:
        super().__init__()
        self.config, self.output = config, output
        self.source_embedding, self.reader = source_embedding, reader
        self.embedding, self.decoder = embedding, decoder
        self.vocabulary_size = len(embedding.weight)
        self.source_vocabulary_size = 0 if isinstance(source_embedding, VectorInput) else len(source_embedding.weight)

    def read(
        self, sources: Shaped[Tensor, "M S *_"], is_token: Bool[Tensor, "M S"], weights_out: list[Tensor] | None = None
    ) -> Source:
        """Encode sources: tokens, each with its </s>, or vectors or pixels, as `VectorInput` takes them.

        is_token: False at padding. weights_out: as for `SourceEncoder`.
        """
        encoding = self.reader(self.source_embedding(sources), is_token, weights_out)
        return Source.of(is_token, *encoding, self.decoder.keys_and_values(encoding.vectors))

    def forward(
        self,
        sources: Shaped[Tensor, "M S *_"],
        is_token: Bool[Tensor, "M S"],
        inputs: Int64[Tensor, "M T"],
        weights_out: WeightLists | None = None,
    ) -> Float[Tensor, "M T *choices D"]:
        """Return hidden states for `output`. inputs: </s> or <s>, then the target. sources, is_token: as for `read`.

        weights_out: where the decoder records its attention weights.
        """
        source = replace(self.read(sources, is_token), weights_out=weights_out)
        return self.decode(self.embed(inputs), None, None, source)[0]

    def decode(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T *choices D"], State]:
        """Decode as `Decoder` does, and read the first tokens of `before_target` wherever a text begins.

        starts: None where each row is one text. A state must be new, and each row begin once.
        """
        if not self.config.before_target:
            return self.decoder(x, state, starts, source)
        first = [BEGIN if self.config.begins_with == "<s>" else END, *self.config.before_target[:-1]]
        vectors = self.embedding(torch.tensor(first, device=x.device)).to(x.dtype)
        begins = starts
        if begins is None:
            begins = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
            begins[:, 0] = True
        texts = begins.cumsum(1)
        places = torch.arange(x.shape[1], device=x.device) + len(first) * texts  # (B, T), of each vector of x
        longer = x.new_zeros(len(x), x.shape[1] + len(first) * int(texts.max()), x.shape[2])
        new_starts = torch.zeros(longer.shape[:2], dtype=torch.bool, device=x.device)
        rows = torch.arange(len(x), device=x.device)[:, None]
        longer[rows, places] = x
        row, column = begins.nonzero(as_tuple=True)
        for i, vector in enumerate(vectors):
            longer[row, places[row, column] - len(first) + i] = vector
        new_starts[row, places[row, column] - len(first)] = True
        new_starts |= torch.arange(longer.shape[1], device=x.device) > places[:, -1:]  # so that positions stay low
        hidden, state = self.decoder(longer, state, None if starts is None else new_starts, source)
        return hidden[rows, places], state

    def embed(self, inputs: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the vectors of the tokens that the decoder reads; the </s> before a target becomes <s> where targets
        begin with that, or the last token of `before_target`.

        For a hierarchical decoder, each ends with 1 where a sentence begins, else 0: (B, T, D + 1).
        """
        begin = BEGIN if self.config.begins_with == "<s>" else END
        begin = self.config.before_target[-1] if self.config.before_target else begin
        read = inputs if begin == END else torch.where(inputs == END, begin, inputs)
        vectors = cast("Tensor", self.embedding(read))
        if self.config.decoder != "hierarchical":
            return vectors
        begins = (inputs == END) | (inputs == BEGIN) | (inputs == self.config.sentence_end)  # of a sentence
        return torch.cat((vectors, begins[..., None].to(vectors.dtype)), -1)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def matrices(self) -> list[nn.Parameter]:
        """Return the hidden matrices, without tables by distance: Muon orthogonalises their gradients."""
        named = chain(self.reader.named_parameters(), self.decoder.named_parameters())
        return [weight for name, weight in named if weight.ndim == 2 and not name.startswith("bias.")]


def build_seq2seq(config: Seq2SeqConfig, source_size: int, size: int) -> Seq2SeqNetwork:
    """Return a network with initial weights, drawn from torch's random generator.

    source_size, size: the sizes of the two vocabularies; the first is not used where sources are vectors. Raises
    SettingError if they differ but share vectors.
    """
    if config.shared in ("all", "inputs") and source_size != size:
        raise SettingError(
            f"source and target cannot share vectors: their vocabularies have {source_size:,} and {size:,} tokens; "
            "use one tokenizer for both, or set shared to target or none"
        )
    for name, rows in (("before_source", source_size), ("after_source", source_size), ("before_target", size)):
        if (most := max(getattr(config, name), default=-1)) >= rows:
            raise SettingError(f"{name} has the token {most}; expected less than the vocabulary's size, {rows:,}")
    adds_positions = not {"transformer", "convolution"}.isdisjoint((config.encoder, config.decoder))
    is_scaled = config.scaled_embedding and adds_positions
    scale = math.sqrt(config.width) if is_scaled else 1.0
    embedding = Embedding(size, config.width, scale=scale)
    source_embedding = (
        VectorInput(config) if config.reads_vectors else Embedding(source_size, config.width, scale=scale)
    )
    std = config.width**-0.5 if is_scaled or config.shared != "none" else 1.0
    for vectors in (embedding, source_embedding):
        if isinstance(vectors, Embedding):
            nn.init.normal_(vectors.weight, std=std)
    if config.shared in ("all", "inputs"):
        source_embedding.weight = embedding.weight
    reader, decoder = build_reader(config), _build_decoder(config)
    for part in (reader, decoder):
        for module in part.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
    weight = embedding.weight
    if config.shared in ("inputs", "none"):
        weight = nn.Parameter(torch.empty_like(weight))
        nn.init.normal_(weight, std=config.width**-0.5)
    softmax = FullSoftmax(
        weight,
        bias=config.output_bias,
        ends=config.ends,
        banned=config.banned,
        transform=Scaled(config.width**-0.5) if config.scaled_output else None,
    )
    output = (
        HardAttentionSoftmax(softmax, is_exact=config.estimator == "exact") if config.attention == "hard" else softmax
    )
    return Seq2SeqNetwork(config, source_embedding, reader, embedding, decoder, output)


def _build_decoder(
    config: Seq2SeqConfig,
) -> TransformerDecoder | ConvolutionDecoder | RecurrentDecoder | HierarchicalDecoder:
    if config.decoder == "hierarchical":
        return HierarchicalDecoder(config)
    if config.decoder == "transformer":
        return TransformerDecoder(config)
    return ConvolutionDecoder(config) if config.decoder == "convolution" else RecurrentDecoder(config)
