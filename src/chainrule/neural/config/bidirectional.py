"""Settings of bidirectional networks: masked, with separate directions, and text encoders, which only embed.

They fill in gaps and embed, but do not continue texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.language_models import RecurrentConfig
from chainrule.neural.config.network import (
    MAX_CONTEXT,
    MAX_WIDTH,
    Memory,  # looked up where settings are checked
)
from chainrule.neural.config.transformer import TransformerConfig

MaskedUnit = Literal["tokens", "words", "spans"]
Loss = Literal["together", "apart"]

_SHORTEST_PAIR = 5  # tokens
_MEMORY = "document: each document is read by itself; stream: documents are read as one running text"


@dataclass(frozen=True, kw_only=True)
class Masking:
    """What is masked in training; drawn anew at each step."""

    is_bidirectional: ClassVar[bool] = True
    is_masked: ClassVar[bool] = True
    gains_from_ties: ClassVar[bool] = False
    ngrams_from: ClassVar[int | None] = None
    repeated_of_many: ClassVar[dict[float, dict[str, float]]] = {}

    masks: MaskedUnit = option(
        "words", "what is masked together: single tokens; whole words; spans of words (Joshi 2020)"
    )
    masked_share: float = option(0.3, "the share of tokens that are masked and predicted", least=0.001, below=1)
    random_share: float = option(0.1, "of these: share replaced by a random token, not the mask", least=0, below=1)
    kept_share: float = option(0.1, "of these: share left unchanged", least=0, below=1)
    memory: Memory = option("document", _MEMORY)

    def check_shares(self) -> None:
        """Raise SettingError if the shares sum to more than 1."""
        if self.random_share + self.kept_share > 1:
            raise SettingError(
                f"a share of {self.random_share} cannot become any token and {self.kept_share} stay: lower one of them"
            )


@dataclass(frozen=True, kw_only=True)
class BertSettings(TransformerConfig):
    """What BERT has around its blocks (Devlin 2019), beside what all Transformers have."""

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.masked:MaskedTransformer")
    outer_layers: ClassVar[Lazy] = Lazy("chainrule.neural.build:outer_layers_of_bert")

    input_norm: bool = option(
        False, "the sums of token and position vectors are normalised before the first block (BERT)", is_rare=True
    )
    segments: int = option(
        0,
        "rows of a table of segment vectors, the first of which is added to each token (BERT); 0: no table",
        least=0,
        below=MAX_WIDTH,
        is_rare=True,
    )
    output_transform: bool = option(
        False, "a linear layer, the activation and a norm come before the output (BERT)", is_rare=True
    )
    output_bias: bool = option(False, "the output has a bias for each token", is_rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_transform and self.output != "full":
            raise SettingError(f"output_transform needs a full output; output is {self.output}")


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(Masking, BertSettings):
    """A masked Transformer: bidirectional, and trained to fill in masked tokens.

    It is BERT (Devlin 2019) with masks that change at each step (Liu 2019).
    Texts are scored by pseudo-log-likelihood (Salazar 2020).
    """

    next_sentence: bool = option(
        False,
        "read pairs of parts of the text, and also learn whether the second follows the first (Devlin 2019): lines are "
        "sentences, and an empty line ends a document",
        is_later=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_shares()
        if self.next_sentence and self.output != "full":
            raise SettingError(f"next_sentence needs a full output, but output is {self.output}; leave one of them out")
        if self.next_sentence and self.context < _SHORTEST_PAIR:
            raise SettingError(
                f"a pair of sentences has three markers and at least one token each, but context is {self.context}; "
                f"set it to {_SHORTEST_PAIR} or more"
            )

    @property
    def predicts_next_sentence(self) -> bool:
        return self.next_sentence


def bert() -> MaskedConfig:
    """Return BERT (Devlin 2019): 15 % of tokens are masked.

    Pairs of sentences are learned with next_sentence=True, or when it is fine-tuned on pairs.
    """
    return MaskedConfig(
        norm="layer",
        norm_place="post",
        norm_gain=True,
        norm_epsilon=1e-12,
        embedding_norm=False,
        input_norm=True,
        positions="learned",
        segments=2,
        feed_forward="gelu_exact",
        query_key_norm=False,
        biases=True,
        tied=True,
        output_transform=True,
        output_bias=True,
        zero_projections=False,
        initialisation="gpt2",
        dropout=0.1,
        attention_dropout=0.1,
        masks="tokens",
        masked_share=0.15,
    )


@dataclass(frozen=True, kw_only=True)
class MaskedRecurrentConfig(Masking, RecurrentConfig):
    """A masked LSTM or GRU: each layer reads both ways, half of its width each.

    It is trained and used like the masked Transformer.
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.bidirectional:BidirectionalRecurrent")
    diagram: ClassVar[Lazy | None] = Lazy("chainrule.neural.diagrams:draw_recurrent")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_shares()
        for name in ("width", "output_width"):
            if getattr(self, name) % 2:
                raise SettingError(f"a width of {getattr(self, name)} cannot be shared by two directions; make it even")


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig(RecurrentConfig):
    """A bidirectional LSTM or GRU (ELMo, Peters 2018), the directions apart.

    In all layers, one direction reads the tokens before the one to predict,
    the other those after it, so nothing needs to be masked.
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.bidirectional:SeparateDirections")
    diagram: ClassVar[Lazy | None] = Lazy("chainrule.neural.diagrams:draw_recurrent")

    is_bidirectional: ClassVar[bool] = True
    repeated_of_many: ClassVar[dict[float, dict[str, float]]] = {}

    loss: Loss = option("together", "together: one prediction by both directions; apart: one by each, as in ELMo")
    memory: Memory = option("document", _MEMORY)

    @property
    def learns_directions_apart(self) -> bool:
        return self.loss == "apart"


TextPooling = Literal["mean", "max", "first", "last", "mean-sqrt", "weighted-mean"]
ProjectionActivation = Literal["identity", "tanh"]


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(BertSettings):
    """A bidirectional Transformer that predicts nothing: it gives vectors of texts (Reimers 2019)."""

    is_bidirectional: ClassVar[bool] = True
    has_output: ClassVar[bool] = False

    text_pooling: TextPooling = option(
        "mean",
        "how the vectors of all that is read for a text become one, its markers among them; first, last: that of the "
        "first or last; mean-sqrt: their sum, divided by the root of their number; weighted-mean: by their numbers, "
        "from 1",
    )
    projection_widths: tuple[int, ...] = option((), "linear layers that the vector of a text goes through", least=1)
    projection_biases: bool = option(True, "these layers have biases")
    projection_activation: ProjectionActivation = option("identity", "what follows each of these layers")
    unit_length: bool = option(False, "the vectors of texts have length 1")
    most_tokens: int | None = option(
        None,
        "tokens that are read for the vector of a text, its markers among them; by default the context",
        least=3,
        below=MAX_CONTEXT,
    )
