"""Tells paragraphs that were given from those that a model wrote: sentence by sentence, and how they follow each other.

Liang et al. 2017, Recurrent Topic-Transition GAN for Visual Paragraph Generation, section 3.2: one discriminator reads
the words of a sentence, another the vectors of the sentences so far.
Legend: B paragraphs, T tokens, N sentences, L tokens of a sentence, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64


class SentenceRows(NamedTuple):
    """The sentences of paragraphs. words: padded with </s>. lengths: 0 where there is no sentence. of_tokens: the
    sentence of each token of a paragraph; that of its </s> is the last one.
    """

    words: Int64[Tensor, "B N L"]
    lengths: Int64[Tensor, "B N"]
    of_tokens: Int64[Tensor, "B T"]


def sentence_rows(tokens: Int64[Tensor, "B T"], is_token: Bool[Tensor, "B T"], sentence_end: int) -> SentenceRows:
    """Cuts paragraphs after each sentence end. is_token: False after </s>."""
    is_word = is_token & (tokens != END)
    ends = (tokens == sentence_end) & is_word
    number = ends.cumsum(1) - ends.long()  # of sentences that ended before
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    begins = torch.where(ends, steps + 1, 0).cummax(1).values
    begins = torch.cat((torch.zeros_like(begins[:, :1]), begins[:, :-1]), 1)
    place = steps - begins
    sentences, longest = int((number * is_word).max()) + 1, int((place * is_word).max()) + 1
    words = tokens.new_full((len(tokens), sentences, longest), END)
    rows = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(tokens)
    words[rows[is_word], number[is_word], place[is_word]] = tokens[is_word]
    lengths = (words != END).sum(2)
    last = ((lengths > 0).sum(1) - 1).clamp(min=0)
    return SentenceRows(words, lengths, torch.minimum(number, last[:, None]))


class Discriminator(nn.Module):
    """Two LSTMs: over the words of each sentence, and over the vectors of sentences."""

    def __init__(self, vocabulary_size: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.words, self.sentences = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.of_sentence, self.of_transition = (nn.Linear(width, 1) for _ in range(2))

    def forward(self, rows: SentenceRows) -> Float[Tensor, "B N 2"]:
        """The logits that a sentence was given, by its words, and by the sentences before it."""
        (paragraphs, sentences), width = rows.lengths.shape, self.words.hidden_size
        hidden, _ = self.words(self.embedding(rows.words.flatten(0, 1)))  # (B N, L, D)
        last = (rows.lengths.flatten() - 1).clamp(min=0)
        vectors = hidden[torch.arange(len(hidden), device=hidden.device), last].view(paragraphs, sentences, width)
        followed, _ = self.sentences(vectors)
        return torch.cat((self.of_sentence(vectors), self.of_transition(followed)), 2)


def rewards(logits: Float[Tensor, "B N 2"], rows: SentenceRows) -> Float[Tensor, "B T"]:
    """Of each token, how likely its sentence was given: the mean of both probabilities. 0: there is no sentence."""
    judged = logits.detach().float().sigmoid().mean(2) * (rows.lengths > 0)
    return judged.gather(1, rows.of_tokens)
