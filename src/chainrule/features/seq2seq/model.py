"""Seq2SeqModel: generates a text from a text, with the tokenizers of both sides; `PairChat` chats with one.

    model = chainrule.train_pairs(chainrule.Pairs(["ein Hund"], ["a dog"]))
    model.write(["ein Hund"])
    model.save("mt/")

In a chat, the history of the conversation is the source.
"""

from __future__ import annotations

import json
import secrets
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from chainrule.base.arguments import as_path, as_texts
from chainrule.base.options import takes
from chainrule.decoding.chat.conversation import CHAT_LIMITS, Answer
from chainrule.decoding.chat.messages import Message, as_messages, exchanges, split_system, with_system_role
from chainrule.decoding.options import CHAT_SAMPLING
from chainrule.decoding.text_generator import TextDecoder
from chainrule.errors import SettingError, opening_folder
from chainrule.features.seq2seq.generation import GeneratedText, Seq2SeqGenerator, score_targets
from chainrule.features.seq2seq.languages import is_language, language_token
from chainrule.features.seq2seq.measurement import PairMeasurement, measure_pairs
from chainrule.features.seq2seq.options import MeasureOptions, SampleOptions, WriteOptions, WriteTreeOptions
from chainrule.models.any_model import AnyModel
from chainrule.models.config import ChatOptions
from chainrule.models.files.model_card import model_card
from chainrule.models.files.origin import TokenIdMap
from chainrule.models.files.tokenizers import tokenizer_entry, tokenizer_from
from chainrule.models.files.writing import writer_of
from chainrule.models.language_models import BeamTree, CausalModel
from chainrule.models.model_info import info_of_network, size_of
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.neural.config import settings_of
from chainrule.protocol import BEGIN, END
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import (
    SOURCE_TOKENIZER,
    TOKENIZER,
    VOCABULARY_ARRAYS,
    open_model,
    save_model,
)
from chainrule.text.parallel import source_of_turns
from chainrule.text.tokenization.subword import Subword
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.decoding.config import Limits, SamplingConfig
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.models.drafting import Drafting
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions
    from chainrule.text.parallel import Pairs
    from chainrule.text.tokenization.tokenizer import Tokenizer

_NOTHING = np.empty(0, np.int32)


class PairChat:
    """A `ChatModel` on a seq2seq model. It reads as many of the last messages as it can, at least the last."""

    def __init__(self, generator: Seq2SeqGenerator) -> None:
        self.generator = generator
        self.longest = generator.model.network.config.most_source_tokens

    def answer(
        self,
        messages: Iterable[Mapping[str, Any] | Message],
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        number: int = 0,
    ) -> Answer:
        """Return the answer, as `ChatModel.answer` does; if the last message is too long, only its end is read."""
        seed = secrets.randbits(32) if seed is None else seed
        limits = limits or CHAT_LIMITS
        if limits.begin:
            raise SettingError("an answer cannot begin with given words; leave begin out")
        source, dropped = self.source(messages)
        decoder = TextDecoder(self.generator.model.given([source]), self.generator.target, _no_speller)
        state = decoder.model.start([_NOTHING])
        pieces = decoder.stream_from(state, _NOTHING, sampling or CHAT_SAMPLING, limits, seed=seed, number=number)
        return Answer(pieces, dropped)

    def source(self, messages: Iterable[Mapping[str, Any] | Message]) -> tuple[Int32[ndarray, " T"], int]:
        """Return the ids that the model reads of a conversation, and how many of its first messages it does not read.

        A system message is kept as long as the last message leaves room for it. Raises SettingError as `as_messages`.
        """
        given = with_system_role(as_messages(messages))
        system, turns = split_system(given)
        for first in exchanges(turns):
            [tokens] = self.generator.encode_whole([source_of_turns([*system, *turns[first:]])])
            if len(tokens) <= self.longest:
                return tokens, first
        return tokens[len(tokens) - self.longest :], first


def _no_speller() -> NoReturn:
    raise SettingError("a seq2seq model does not spell unknown words; leave <unk> banned")


FAMILY = "conditional"
SOURCE = "source."  # before the names of the source vocabulary's arrays


class Seq2SeqModel(AnyModel):
    """P(target text | source text)."""

    family = FAMILY
    capability: ClassVar[str] = "writes texts given others (chainrule translate, or chainrule.load(path).write)"

    def __init__(
        self, model: NeuralSeq2SeqModel, source: Tokenizer, target: Tokenizer, record: dict[str, Any] | None = None
    ) -> None:
        """Store the model and its tokenizers.

        source, target: the tokenizers of both sides; the same one if it was learned on both.
        """
        self.model, self.source, self.target, self.record = model, source, target, record or {}

    @classmethod
    def open(cls, path: Path, options: OpenOptions, progress: Progress) -> Self:
        """Implement `AnyModel.open`."""
        from chainrule.features.seq2seq.network.saving import put_together_pair

        entry, arrays, texts, _ = open_model(path)
        with opening_folder(path, ValueError):
            target = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, texts.get(TOKENIZER))
            source = target
            if entry.settings.get("source_tokenizer") is not None:
                described = TokenizerEntry.model_validate_json(json.dumps(entry.settings["source_tokenizer"]))
                own = texts.get(SOURCE_TOKENIZER)
                source = tokenizer_from(described, arrays, SOURCE + VOCABULARY_ARRAYS, own)
            weights = {name: array for name, array in arrays.items() if VOCABULARY_ARRAYS not in name}
            sizes = (source.vocabulary_size, target.vocabulary_size)
            model = put_together_pair(entry.settings.get("network"), weights, sizes)
        return cls(model, source, target, entry.record)

    def answering(self, template: str | None = None, draft: Drafting | None = None) -> PairChat:
        """Implement `AnyModel.answering`; the history of the conversation is the source."""
        for name, value in (("template", template), ("draft", draft)):
            if value is not None:
                raise SettingError(f"{name} is for models that continue texts; this one reads conversations")
        return PairChat(self.generator)

    def drawn_network(self) -> Any:
        """Implement `AnyModel.drawn_network`."""
        return self.model.network

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Implement `AnyModel.info`."""
        name = self.target.name if self.source is self.target else f"{self.target.name}, of sources {self.source.name}"
        return info_of_network(FAMILY, name, self.target.vocabulary_size, self.record, size=size)

    def __repr__(self) -> str:
        target, size = self.target, size_of(self.record)
        return f"<Seq2SeqModel: {target.name} tokenizer, {target.vocabulary_size:,} tokens{size}>"

    def _repr_html_(self) -> str:
        return self.info()._repr_html_()

    def given(self, source: str) -> CausalModel:
        """Return P(text | source) as a language model, which can be used like any other.

        Raises MarkerError; SettingError if the source is too long.
        """
        if not isinstance(source, str):
            raise TypeError(f"given takes one text, not {type(source).__name__}")
        return CausalModel(FAMILY, self.model.given(self.sources([source])), self.target, self.record)

    def sources(self, texts: Sequence[str]) -> list[Int32[ndarray, " tokens"]]:
        """Return the ids of source texts; none for white space alone. Raises MarkerError."""
        return self.generator.encode(texts)

    def with_languages(self, source: str | None = None, target: str | None = None) -> Seq2SeqModel:
        """Return the same model, reading and writing these languages: mBART, M2M-100 and NLLB have a token for each.

        source, target: a token, such as fra_Latn, or its beginning, fra; None leaves that side unchanged. Raises
        SettingError.

        good:  model.with_languages("fr", "en").write(["le chien"])
        """
        config, network = self.model.network.config, copy(self.model.network)
        if source is not None:
            language = self._language(source, self.source, "source_tokens")
            before, after = (
                tuple(language if self._is_language(token, "source_tokens") else token for token in tokens)
                for tokens in (config.before_source, config.after_source)
            )
            if language not in before + after:
                raise SettingError("the model reads no language before or after a source; leave out that of the source")
            config = replace(config, before_source=before, after_source=after)
        if target is not None:
            language = self._language(target, self.target, "tokens")
            if config.begins_with == "<s>" and self._is_language(BEGIN, "tokens"):
                if language != BEGIN:
                    raise SettingError(
                        f"the model's targets begin with one language, which is not {target!r}; change "
                        "decoder_start_token_id in the folder that it was opened from"
                    )
            else:
                kept = [token for token in config.before_target if not self._is_language(token, "tokens")]
                config = replace(config, before_target=(*kept, language))
        network.config = config
        return Seq2SeqModel(type(self.model)(network), self.source, self.target, self.record)

    @property
    def needs_language(self) -> bool:
        """Whether the model writes several languages, and none is chosen."""
        config, special = self.model.network.config, getattr(self.target.splitter, "special_tokens", ())
        chosen = (*config.before_target, BEGIN if config.begins_with == "<s>" else END)
        return any(map(is_language, special)) and not any(self._is_language(token, "tokens") for token in chosen)

    def _language(self, code: str, tokenizer: Tokenizer, side: str) -> int:
        """Return the id of a language's token. side: the name of the numbering. Raises SettingError."""
        token = language_token(code, getattr(tokenizer.splitter, "special_tokens", ()))
        assert isinstance(tokenizer.splitter, Subword)
        return int(self._numbering(side).ours()[tokenizer.splitter.numbers[token]])

    def _is_language(self, token: int, side: str) -> bool:
        """Return whether a token of ours is that of a language."""
        splitter = self.target.splitter if side == "tokens" else self.source.splitter
        if "hugging_face" not in self.record or not isinstance(splitter, Subword):
            return False
        theirs = self._numbering(side).theirs()[token]
        return any(is_language(name) for name in splitter.special_tokens if splitter.numbers[name] == theirs)

    def _numbering(self, side: str) -> TokenIdMap:
        return TokenIdMap(**self.record["hugging_face"][side])

    @property
    def has_attention(self) -> bool:
        """Whether targets attend to their sources."""
        return self.model.network.config.attention != "none"

    @property
    def generator(self) -> Seq2SeqGenerator:
        """What generates texts with this model: by beam search or sampling."""
        return Seq2SeqGenerator(self.model, self.source, self.target)

    @shows_progress
    def score(self, pairs: Pairs, *, progress: ProgressOption = None) -> Float64[ndarray, " pairs"]:
        """Return log P of each target with its </s>, given its source, in nats. Raises as `given`."""
        progress = callback(progress)
        sources, targets = self.sources(pairs.sources), documents_of(self.target.encode_texts(pairs.targets).ids)
        return score_targets(self.model, sources, targets, progress)

    @takes(WriteOptions)
    def write(self, texts: Sequence[str], options: WriteOptions) -> list[list[GeneratedText]]:
        """Return the likeliest texts for each source, best first; none for a source without tokens.

        The options are those of `WriteOptions`. Raises MarkerError; SettingError if a source is too long, or the
        vocabulary lacks a word of `begin`.

        good:  [texts] = model.write(["ein Hund"], begin="the"); texts[0].text
        """
        with showing(options.progress) as progress:
            return self.generator.search(as_texts(texts), options, progress)

    @takes(WriteTreeOptions)
    def beam_tree(self, text: str, options: WriteTreeOptions) -> BeamTree:
        """Return all that the search of `write` considers for a source, with the path of greedy search.

        Raises as `write`.

        good:  model.beam_tree("ein Hund", BeamConfig(size=2)).save("tree.html")
        """
        tree = self.generator.search_tree(text, options)
        return BeamTree(f"Beam search given “{text}”", text, tree, self.target)

    @takes(SampleOptions)
    def sample(self, texts: Sequence[str], options: SampleOptions) -> list[list[GeneratedText]]:
        """Return n sampled texts for each source; none for a source without tokens.

        seed: the same one gives the same texts; without one, each call gives others. first: the index of the first
        source among all sources of several calls: a text depends only on the seed, its source, the source's index and
        its own among the n. begin, max_tokens and errors: as in `write`.

        good:  model.sample(["ein Hund"], 5, chainrule.SamplingConfig(temperature=0.7, top_p=0.9), seed=1)
        """
        with showing(options.progress) as progress:
            return self.generator.sample(as_texts(texts), options, progress)

    @takes(ChatOptions)
    def chat(self, options: ChatOptions) -> str:
        """Return the answer of a model that was trained on conversations, as `CausalModel.chat`.

        good:  model.chat([{"role": "user", "content": "my name is Ann"}])
        """
        chat = PairChat(self.generator)
        answer = chat.answer(options.messages, options.sampling, options.limits, seed=options.seed)
        if answer.dropped:
            options.warn(
                f"the first {answer.dropped:,} messages were left out: the conversation is longer than max_source"
            )
        return "".join(answer)

    @takes(MeasureOptions)
    def evaluate(self, pairs: Pairs, options: MeasureOptions) -> PairMeasurement:
        """Return perplexity and bits per byte of the targets; BLEU, chrF, length ratio and ROUGE of the texts it
        writes.

        The options are those of `MeasureOptions`. Raises as `given`; SettingError if sacrebleu is not installed.
        """
        with showing(options.progress) as progress:
            log_probs = self.score(pairs, progress=progress)
            written = self.write(pairs.sources, options.beam, max_tokens=options.max_tokens, progress=progress)
        texts = [several[0].text if several else "" for several in written]
        return measure_pairs(pairs.targets, log_probs, texts, self.target)

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder; or a file for llama.cpp, of a T5, where the name ends in .gguf. Raises OutputError;
        SettingError for other models with such a name.
        """
        progress, path = callback(progress), as_path(path)
        if (writer := writer_of(path)) is not None and writer.packs:
            writer.write.get()(self, path, None, overwrite=overwrite, progress=progress)
            return
        from chainrule.neural.saving import arrays_of

        arrays = arrays_of(self.model.network)
        arrays |= {VOCABULARY_ARRAYS + name: array for name, array in self.target.vocabulary.arrays().items()}
        is_joint = self.source is self.target
        if not is_joint:
            source_arrays = self.source.vocabulary.arrays()
            arrays |= {SOURCE + VOCABULARY_ARRAYS + name: array for name, array in source_arrays.items()}
        definitions = {TOKENIZER: self.target.splitter.definition}
        if not is_joint:
            definitions[SOURCE_TOKENIZER] = self.source.splitter.definition
        texts = {name: definition for name, definition in definitions.items() if definition is not None}
        size = sum(array.nbytes for array in arrays.values()) + sum(map(len, texts.values()))
        save_model(
            path,
            family=FAMILY,
            settings={
                "network": settings_of(self.model.network.config),
                "source_tokenizer": None if is_joint else tokenizer_entry(self.source).model_dump(),
            },
            tokenizer=tokenizer_entry(self.target),
            arrays=arrays,
            record=self.record,
            card=model_card(self.info(size=size).rows()),
            texts=texts,
            overwrite=overwrite,
            progress=progress,
        )
