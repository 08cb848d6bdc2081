"""Language models as users hold them: CausalModel continues texts and chats, MaskedModel fills gaps.

`BeamTree` is the tree of a beam search, as numbers, a drawing or a page.
"""

from __future__ import annotations

import math
import os
import secrets
import warnings
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from chainrule.base.arguments import check_least
from chainrule.base.distributions import top_of
from chainrule.base.files import check_new_file, describe_duplicate, replace_file
from chainrule.base.options import takes
from chainrule.decoding.config import Limits
from chainrule.errors import SettingError, TextError
from chainrule.kinds import rows
from chainrule.models.config import BeamOptions, ChatOptions, EvaluateOptions, GenerateOptions, StreamOptions
from chainrule.models.embedding_model import EmbeddingModel
from chainrule.models.families.table import FAMILIES
from chainrule.models.progress_line import callback, showing, shows_progress
from chainrule.models.scoring_model import ScoringModel
from chainrule.protocol import END
from chainrule.text.corpus.bad_records import collecting
from chainrule.text.tokenization.tokenizer import MASK, masked_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.decoding.beam import SearchTree
    from chainrule.decoding.chat.conversation import ChatModel
    from chainrule.decoding.completion import Completer, Completion, LastWordCorrector
    from chainrule.decoding.text_generator import SearchedTexts, Text, TextDecoder
    from chainrule.evaluation.measurement import Measurement
    from chainrule.models.drafting import Drafting
    from chainrule.models.model import Model
    from chainrule.models.model_info import ModelParts
    from chainrule.models.progress_line import ProgressOption
    from chainrule.protocol import LanguageModel
    from chainrule.text.corpus.bad_records import BadRecords
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.corpus.reading import BadRule
    from chainrule.text.tokenization.tokenizer import Tokenizer

_SUFFIXES = (".html", ".svg", ".json")


def _seed(seed: int | None) -> int:
    """Return the seed, or a random one."""
    return secrets.randbits(32) if seed is None else seed


@dataclass(frozen=True)
class BeamTree:
    """All that a beam search considered for one text."""

    title: str
    prompt: str
    tree: SearchTree
    tokenizer: Tokenizer

    def __str__(self) -> str:
        """Say where greedy search would have chosen another token."""
        return str(rows("beam tree")["greedy"].get()(self.tree, self._name))

    def __repr__(self) -> str:
        return f"<BeamTree: {len(self.tree.nodes):,} hypotheses after {self.prompt!r}>"

    def _repr_html_(self) -> str:
        return self._drawn(".svg")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a page with a slider, .html, a drawing, .svg, or .json. Raises OutputError, SettingError."""
        target = Path(path)
        check_tree_file(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(self._drawn(target.suffix.lower()).encode())

    def _drawn(self, suffix: str) -> str:
        draw = rows("beam tree")[suffix].get()
        if suffix == ".json":
            return str(draw(self.title, self.prompt, self.tree, self.tokenizer.vocabulary.token))
        if suffix == ".svg":
            return str(draw(self.title, self.prompt, self.tree, self._name))
        return str(draw(self.title, self.prompt, self.tree, self._name, self._text))

    def _name(self, token: int) -> str:
        shown = self.tokenizer.shown([token])[0]
        return shown.strip() or shown

    def _text(self, tokens: Sequence[int]) -> str:
        ended = tokens[-1] == END
        text = self.tokenizer.decode(tokens[: len(tokens) - ended])
        return f"{text} </s>" if ended else text


def check_tree_file(path: Path, *, overwrite: bool) -> None:
    """Check, before the search, that its tree may be written. Raises OutputError, SettingError."""
    check_new_file(path, overwrite=overwrite)
    if path.suffix.lower() not in _SUFFIXES:
        raise SettingError(f"{path}: the name of a tree's file must end in .json, .svg or .html")


class TextEncoder:
    """A `PromptEncoder` without control tokens, for models not trained to chat: a conversation is plain text."""

    special: Sequence[str] = ()
    added: Sequence[str] = ()

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """Implement `PromptEncoder.encode`."""
        return self._tokenizer.encode_texts([text]).ids[:-1]


def chat_model(parts: ModelParts, template: str | None = None, engine: Any = None) -> ChatModel:
    """Return the model with its chat template.

    parts: the parts of a causal model. template: Jinja, in place of the model's own. engine: in place of the model's.
    Raises SettingError if there is no template, ModelFormatError if it is damaged.
    """
    from chainrule.decoding.chat.conversation import ChatModel
    from chainrule.decoding.chat.template import ChatFormat, ChatTemplate
    from chainrule.decoding.text_generator import TextDecoder

    origin: dict[str, Any] | None = parts.record.get("hugging_face")
    decoder = TextDecoder(parts.engine if engine is None else engine, parts.tokenizer, lambda: parts.speller)
    # Networks that continue texts are PromptReaders.
    family, location = FAMILIES[parts.family], "the model"
    settings: dict[str, Any] = {"context": family.context(parts.engine), "reads_prompts": family.embeds}
    if origin is not None and family.embeds:
        from chainrule.models.files.origin import OpenPromptEncoder, template_of, variables_of

        splitter: Any = parts.tokenizer.splitter
        source = template or template_of(origin)
        if source is not None:
            written = ChatTemplate(source, variables_of(origin, splitter), location, datetime.now)
            chat_format = ChatFormat(written, OpenPromptEncoder(origin, splitter))
            return ChatModel(decoder, chat_format, begins_texts=False, **settings)
    elif template is not None:
        written = ChatTemplate(template, {}, location, datetime.now)
        return ChatModel(decoder, ChatFormat(written, TextEncoder(parts.tokenizer)), begins_texts=True, **settings)
    raise SettingError(
        "the model has no chat template, so it was not trained on conversations; let it continue texts, or give it "
        "a template, template=..., that writes a conversation as its training text had it"
    )


class CausalModel(ScoringModel):
    """A model that continues texts: it gives the probability of each token after those before it."""

    capability: ClassVar[str] = "continues texts"

    @takes(EvaluateOptions)
    def evaluate(self, options: EvaluateOptions) -> Measurement:
        """Measure the model on a text. ends: whether </s> is predicted, and counted as a token.

        Files are cut into documents as in training. frequencies: the count of each token in the training text, to
        report the cost of rare ones. Raises TextError.
        """
        from chainrule.evaluation.likelihood import measure
        from chainrule.text.corpus.corpus import source_of

        model, family = self.language_model, FAMILIES[self.family]
        source = source_of(options.source, self.document)
        # A network that was trained here has documents as in its training.
        by_lines = "reading" not in self.record and getattr(source, "documents", None) == ("line",)
        with showing(options.progress) as progress:
            measurement = measure(
                model,
                self.tokenizer,
                self.speller,
                source,
                progress,
                stream_scoring=family.stream_scoring(model),
                ends=options.ends,
                frequencies=options.frequencies,
                **family.measure_options(model),
            )
        return (
            replace(measurement, context=family.context(model))
            if by_lines and hasattr(model, "text_rows")
            else measurement
        )

    @shows_progress
    def judge_suites(
        self,
        files: Paths,
        progress: ProgressOption = None,
        *,
        word_ends: bool = True,
        bad_records: BadRule | BadRecords = "skip",
        warn: Callable[[str], None] = warnings.warn,
    ) -> Any:
        """Judges test suites of SyntaxGym, a JSON file each: in how many items the predictions hold, suite by
        suite, over which the result iterates; and item by item, its rows (`to_records`).

        Surprisals are in bits, unknown words with their spelling; </s> is in no region. A tie is counted as wrong.
        word_ends: whether a word's end is a part of its region, see `region_bits`. bad_records: whether an item that
        cannot be judged stops the reading, or is left out; or what collects such items. warn: a callback that gets what
        is wrong with these. Raises TextError, also where two files are the same suite, which would be counted twice;
        MarkerError.

        good:  model.judge_suites(["number_orc.json", "cleft.json"])
        """
        names = [os.fspath(name) for name in ([files] if isinstance(files, str | os.PathLike) else files)]
        if twice := describe_duplicate(names):
            raise TextError(f"the suites are {twice}, and would be counted twice; name each once")
        with collecting(bad_records, warn) as bad:
            return rows("judging")["suites"].get()(self, names, callback(progress), word_ends, bad)

    @property
    def is_distribution(self) -> bool:
        """Whether its probabilities sum to one; stupid backoff gives scores that do not."""
        return bool(FAMILIES[self.family].measure_options(self.language_model).get("is_distribution", True))

    def perplexity(self, source: Source | Paths) -> float:
        """Return the perplexity per token, with </s> predicted and unknown words as <unk>."""
        return self.evaluate(source).perplexity

    def next(self, prompt: str = "", top: int = 10) -> list[tuple[str, float]]:
        """Return the likeliest next tokens after a prompt with their probabilities, none of them zero.

        Raises SettingError.
        """
        check_least("top", top, 1)
        state = self.language_model.start([self.tokenizer.encode_texts([prompt]).ids[:-1]])
        [log_probs], [tokens] = self.language_model.top(state, top)
        return self._named_probs(tokens, log_probs)

    @takes(GenerateOptions)
    def generate(self, options: GenerateOptions) -> list[str]:
        """Return n sampled texts that begin with the prompt, as normalised.

        seed: the same one gives the same texts; without one, each call gives others. draft: changes no text, only the
        time that it takes. Raises SettingError.

        good:  model.generate("I visited San", 5, SamplingConfig(temperature=0.8), Limits(max_tokens=20), seed=1)
        """
        return [text.text for text in self.sample(**options.given)]

    @takes(GenerateOptions)
    def sample(self, options: GenerateOptions) -> list[Text]:
        """Return the texts of `generate`, each with its log-probability, its tokens, and why it ended."""
        with showing(options.progress) as progress:
            return self.decoder_with(options.draft).sample_each(
                [options.prompt],
                options.n,
                options.sampling,
                options.limits,
                seed=_seed(options.seed),
                progress=progress,
            )

    @takes(StreamOptions)
    def stream(self, options: StreamOptions) -> Iterator[str]:
        """Return the first text of `generate`, piece by piece while it is drawn; the first piece is the prompt."""
        decoder = self.decoder_with(options.draft)
        return decoder.stream(options.prompt, options.sampling, options.limits, seed=_seed(options.seed))

    @takes(ChatOptions)
    def chat(self, options: ChatOptions) -> str:
        """Return the answer to the last message of a conversation, by the model's chat template.

        messages: dictionaries with role (system, user or assistant) and content. warn: a callback, called if the
        earliest messages were left out because the model cannot read that many. By default, temperature is 0.7, top_p
        0.9, and an answer has at most 512 tokens. Raises SettingError, also if the model has no chat template.

        good:  model.chat([{"role": "user", "content": "What is the capital of France?"}])
        """
        return "".join(self.stream_chat(**options.given))

    @takes(ChatOptions)
    def stream_chat(self, options: ChatOptions) -> Iterator[str]:
        """Return the answer of `chat`, piece by piece while it is drawn."""
        chatting = self.chat_model if options.draft is None else self.chat_model_with(None, options.draft)
        answer = chatting.answer(options.messages, options.sampling, options.limits, seed=options.seed)
        if answer.dropped:
            options.warn(
                f"the first {answer.dropped:,} messages were left out: the conversation is longer than the context"
            )
        return iter(answer)

    @cached_property
    def chat_model(self) -> ChatModel:
        """The model with its chat template. Raises SettingError, ModelFormatError."""
        return chat_model(self.parts)

    def chat_model_with(self, template: str | None, draft: Drafting | Model | str | None = None) -> ChatModel:
        """Return the model of `chat_model`, with another template, in Jinja; None: the model's own.

        draft: as in `GenerateOptions`. Raises as `chat_model`.
        """
        return chat_model(self.parts, template, self._drafted(draft))

    def answering(self, template: str | None = None, draft: Drafting | None = None) -> ChatModel:
        """Implement `AnyModel.answering`."""
        return self.chat_model_with(template, draft)

    def _drafted(self, draft: Drafting | Model | str | None) -> LanguageModel[Any]:
        """Return the language model, with drafts if there are any.

        Raises SettingError; WrongModelError if it continues no texts.
        """
        from chainrule.models.drafting import as_drafting

        if draft is None:
            return self.language_model
        return cast("LanguageModel[Any]", as_drafting(draft).drafted_model(self.parts))

    @takes(BeamOptions)
    def beam(self, options: BeamOptions) -> list[Text]:
        """Return the likeliest texts that begin with the prompt, with their scores, best first. Raises SettingError."""
        return self._search(options).texts

    @takes(BeamOptions)
    def beam_tree(self, options: BeamOptions) -> BeamTree:
        """Return all that the search of `beam` considers, with the path of greedy search. Raises SettingError.

        good:  model.beam_tree("I visited", BeamConfig(size=2)).save("tree.html")
        """
        tree, prompt = self._search(options, keep_tree=True).tree, options.prompt
        return BeamTree(f"Beam search after “{prompt or '<s>'}”", prompt, cast("SearchTree", tree), self.tokenizer)

    def _search(self, options: BeamOptions, *, keep_tree: bool = False) -> SearchedTexts:
        with showing(options.progress) as progress:
            return self.decoder.search(
                options.prompt, options.search, options.limits, keep_tree=keep_tree, progress=progress
            )

    def complete(
        self, text: str, n: int = 5, *, corrector: LastWordCorrector | None = None, regex: str | None = None
    ) -> list[Completion]:
        """Return the likeliest completions of the last word of a text, or of its next words after a space.

        corrector: from `chainrule.corrector`; a correction of the word just typed may then come last, see `Completion`.
        regex: a regular expression that the whole text is to match in the end. Raises SettingError.
        """
        from chainrule.decoding.form import form_of

        form = None if regex is None else form_of(Limits(regex=regex), self.tokenizer, "")
        return self.completer.complete(text, n, corrector=corrector, form=form)

    @cached_property
    def completer(self) -> Completer:
        """Completes texts; the vocabulary is sorted at its first use."""
        from chainrule.decoding.completion import Completer

        family = FAMILIES[self.family]  # networks that continue texts are PromptReaders
        context = family.context(self.engine)
        return Completer(self.language_model, self.tokenizer, reads_prompts=family.embeds, context=context)

    @property
    def decoder(self) -> TextDecoder:
        """What generates text with this model: by sampling or beam search."""
        return self.decoder_with(None)

    def decoder_with(self, draft: Drafting | Model | str | None) -> TextDecoder:
        """Return the decoder of `decoder`, with drafts, as in `GenerateOptions`. Raises SettingError."""
        from chainrule.decoding.text_generator import TextDecoder

        return TextDecoder(self._drafted(draft), self.tokenizer, lambda: self.speller)


class CausalNetwork(CausalModel, EmbeddingModel):
    """A network that continues texts, and gives vectors, too."""


class MaskedModel(ScoringModel, EmbeddingModel):
    """A network that fills gaps in texts. Its scores are pseudo-log-likelihoods."""

    capability: ClassVar[str] = "fills gaps in texts"

    def fill(self, text: str, top: int = 5, *, mask: str = MASK) -> list[list[tuple[str, float]]]:
        """Return the likeliest tokens for each mask of a text, with their probabilities, best first, none of them zero.

        Raises SettingError if the text has no mask; MarkerError.

        good:  model.fill("the [MASK] bit the man")
        """
        if not isinstance(text, str) or not isinstance(mask, str):
            raise TypeError(f"this takes one text and a mask, each a str; found {text!r} and {mask!r}")
        if not isinstance(top, int) or top < 1:
            raise SettingError(f"top is {top!r}; expected 1 or more")
        log_probs, tokens = top_of(self.engine.fill(self._masked(text, mask)), top)
        return [self._named_probs(*row) for row in zip(tokens, log_probs, strict=True)]

    def _masked(self, text: str, mask: str) -> Int32[ndarray, " T"]:
        """Return the tokens of a text with <s> for each mask. The tokenizer of an opened model says what becomes of the
        spaces around its mask (`lstrip`), unless the text spells another of its special tokens, which is text here.

        Raises SettingError, MarkerError.
        """
        from chainrule.text.tokenization.subword import Subword

        origin, splitter = self.record.get("hugging_face"), self.tokenizer.splitter
        if origin is not None and isinstance(splitter, Subword) and mask.strip() and mask in text:
            from chainrule.models.files.origin import OpenPromptEncoder

            number = origin["tokens"]["begin"]
            own = next((name for name, each in splitter.numbers.items() if each == number), None)
            parts = text.split(mask)
            if own is not None and not any(name in part for name in splitter.special_tokens for part in parts):
                return OpenPromptEncoder(origin, splitter).encode(own.join(parts))
        return masked_tokens(self.tokenizer, text, mask)

    def follows(self, first: str, second: str) -> float:
        """Return P(the second sentence follows the first), by a model that was trained with `next_sentence`.

        Raises SettingError if it did not, or if one of them is empty; MarkerError.

        good:  model.follows("where is the cat ?", "it is on the mat .")
        """
        for name, text in (("first", first), ("second", second)):
            if not isinstance(text, str) or not text.strip():
                raise SettingError(f"{name} is {text!r}; expected a sentence")
        sides = [[self.tokenizer.encode_texts([text]).ids[:-1]] for text in (first, second)]
        return math.exp(self.engine.score_following(*sides)[0])
