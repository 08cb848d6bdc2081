"""Texts in a form: JSON by a schema, a regular expression, a grammar, or one of some choices.

The library llguidance walks the form with each text; at every step it says which tokens may follow. A vocabulary of any
kind will do: a token stands for the bytes that it adds to a text, which for tokens between spaces depend on the token
before them, so that each of those is listed twice, with its space and without it.

Each step draws from P(token) / m, where m is the mass of the tokens that may follow. So a text s is drawn with
probability P(s) / (m1 m2 ...), not with P(s) / P(form), which forgets what the steps leave out. But the mean of
m1 m2 ... over drawn texts, 0 for those that were cut, estimates P(form) without bias (`form_probability`).
"""

from __future__ import annotations

import json
import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.decoding.config import FORMS, MAX_FORM_BYTES
from chainrule.decoding.form_errors import gbnf_refusal, plain, refusal
from chainrule.errors import SettingError, installing
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from jaxtyping import Bool, Int64
    from numpy import ndarray

    from chainrule.decoding.config import Limits
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Vocabulary

_HEADER = '%llguidance {"no_forcing": true}\n'  # so that a mask has all tokens that fit, not only the longest
_OWN_HEADER = re.compile(r"\s*%llguidance\s*\{[^{}]*\}")
_OPTIONS, _DEEPEST = "x-guidance", 100
_WHITE = r"(\n[ \t]{0,40}|[ ]{0,2})"  # in JSON; models that know no better would go on with it
_BEFORE = b"a"  # a token before others, to see what they add to it


class FormTokens:
    """The bytes that a vocabulary's tokens add to a text, as llguidance reads them.

    after_space: for each token, the number of what it adds where no space goes before it: at the beginning of a text,
    and after a token that joins the next one. joins: whether a token does so.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = tokenizer.vocabulary.tokens()
        added = _restored(tokenizer, _BEFORE + b" ", tokens, len(_BEFORE))
        special = set(getattr(tokenizer.splitter, "special_tokens", ()))
        special_ids = {0, 1, 2, *(i for i, token in enumerate(tokens) if token.decode("utf-8", "replace") in special)}
        special_ids |= {i for i, text in enumerate(added) if not text}
        spaced = [i for i, text in enumerate(added) if text[:1] == b" " and len(text) > 1 and i not in special_ids]
        self.size = len(tokens)
        self.after_space: Int64[ndarray, " V"] = np.arange(self.size)
        self.after_space[spaced] = self.size + np.arange(len(spaced))
        self.separates = tokenizer.restore(_BEFORE + b" " + _BEFORE) != _BEFORE + _BEFORE
        self.joins: Bool[ndarray, " V"] = np.zeros(self.size, np.bool_)
        if self.separates:
            followed = _restored(tokenizer, b"", [token + b" " + _BEFORE for token in tokens], 0)
            self.joins = np.array([not text.endswith(b" " + _BEFORE) for text in followed], np.bool_)
        self._texts = [b"" if i in special_ids else text for i, text in enumerate(added)]
        self._texts += [added[i][1:] for i in spaced]
        self._texts[END] = b"</s>"
        self._special = sorted(special_ids)
        self.spells_everything = tokenizer.spells_everything

    def text_of(self, numbers: Iterable[int]) -> str:
        """Return the text of numbers that llguidance has for tokens."""
        return b"".join(self._texts[number] for number in numbers).decode("utf-8", "replace")

    @cached_property
    def library(self) -> Any:
        """The tokenizer of llguidance."""
        wrapped = _llguidance().TokenizerWrapper(_Readable(self._texts, self._special))
        return _llguidance().LLTokenizer(wrapped, n_vocab=len(self._texts))


class _Readable:
    """What llguidance asks of a tokenizer. It encodes nothing: texts are walked by the tokens that were drawn."""

    eos_token_id, bos_token_id = END, None

    def __init__(self, tokens: list[bytes], special: list[int]) -> None:
        self.tokens, self.special_token_ids = tokens, special

    def __call__(self, text: bytes | str) -> list[int]:
        return []


_TOKENS: WeakKeyDictionary[Vocabulary, FormTokens] = WeakKeyDictionary()


def _tokens_of(tokenizer: Tokenizer) -> FormTokens:
    if tokenizer.vocabulary not in _TOKENS:
        _TOKENS[tokenizer.vocabulary] = FormTokens(tokenizer)
    return _TOKENS[tokenizer.vocabulary]


def _restored(tokenizer: Tokenizer, before: bytes, tokens: list[bytes], cut: int) -> list[bytes]:
    """Return the bytes that each token becomes after another one, without the first `cut` bytes."""
    lines = tokenizer.restore(b"".join(before + token + b"\n" for token in tokens)).split(b"\n")[:-1]
    if len(lines) != len(tokens):  # some token stands for a newline
        lines = [tokenizer.restore(before + token) for token in tokens]
    return [line[cut:] for line in lines]


class Form:
    """A form that texts of a vocabulary have; `begin` gives the state of a new text.

    Raises SettingError where the form cannot be enforced, or no token can begin it.
    """

    def __init__(
        self, grammar: str, tokenizer: Tokenizer, *, name: str, follows_space: bool, value: Any = None
    ) -> None:
        """Compile the grammar.

        grammar: as llguidance writes it. name: of the option, for errors. follows_space: whether the text before ends
        with white space, so that a space at the form's beginning belongs to the form. value: of the option; by default
        the grammar.
        """
        self._tokens, self.name = _tokens_of(tokenizer), name
        matcher = _llguidance().LLMatcher

        def try_schema(schema: Mapping[str, Any]) -> str:
            return str(matcher.validate_grammar(_grammar("json_schema", schema), self._tokens.library))

        said = matcher.validate_grammar(grammar, self._tokens.library)
        if not said:
            self._matcher = matcher(self._tokens.library, grammar, log_level=0)
            said = self._matcher.get_error()
        if said:
            raise SettingError(refusal(name, grammar if value is None else value, said, try_schema))
        self._glued = self._tokens.separates or not follows_space
        if not self.begin().mask().any():
            raise SettingError(f"no token of the vocabulary can begin a text that fits {name}; choose another form")

    def after(self, tokens: Iterable[int]) -> FormState | None:
        """Return the state after tokens of a text; None if it does not have the form."""
        state = self.begin()
        for token in tokens:
            if not state.mask()[token]:
                return None
            state.add(token)
        return state

    def begin(self) -> FormState:
        return FormState(self._tokens, self._matcher.deep_copy(), glued=self._glued)


class FormState:
    """A text that grows in a form.

    log_masses: log m of each step, once the step has been taken: the model's probability of all that might follow; -inf
    where a token had been drawn from which no text in the form goes on, and from there on.
    """

    def __init__(self, tokens: FormTokens, matcher: Any, *, glued: bool) -> None:
        """Begin an empty text. glued: whether the next token's space, if it has one, is not part of the form."""
        self._tokens, self._matcher, self._glued = tokens, matcher, glued
        self._mask: Bool[ndarray, " V"] | None = None
        self._log_mass, self._is_stuck = 0.0, False
        self.log_masses: list[float] = []
        self._added: list[int] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return self._tokens.text_of(self._added)

    def note_mass(self, mass: float) -> None:
        """Record the model's probability of all tokens that may follow, by which the next step is divided."""
        self._log_mass = math.log(mass) if mass > 0 and not self._is_stuck else -math.inf

    def mask(self) -> Bool[ndarray, " V"]:
        """Return which tokens may follow; </s> where the text may end."""
        if self._mask is None:
            packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            bits = np.unpackbits(packed, bitorder="little").astype(np.bool_)
            whole = bits[: self._tokens.size]
            self._mask = np.take(bits, self._tokens.after_space) if self._glued else whole.copy()
            if self._glued and not self._tokens.separates:
                self._mask |= whole  # a token without a space will do, too
            self._mask[END] = self._matcher.is_accepting()  # the library allows it where nothing else goes on, too
        return self._mask

    def add(self, token: int) -> None:
        """Add a token that may follow."""
        self.log_masses.append(self._log_mass)
        if token == END:
            return
        number = token
        if self._glued:
            is_whole = not self._tokens.separates and self._matcher.validate_tokens([token]) == 1
            number = token if is_whole else int(self._tokens.after_space[token])
        if not self._matcher.consume_token(number):
            raise SettingError(f"token {token} does not fit the form: {plain(self._matcher.get_error())}")
        self._added.append(number)
        self._glued = self._tokens.separates and bool(self._tokens.joins[token])
        self._mask = None

    def try_add(self, token: int) -> bool:
        """Add a token if some text in the form continues with it; otherwise the token is banned here from now on.

        Words cannot spell every text. A text that got stuck counts as one outside the form: the mass of
        this step is 0.
        """
        mask, glued, matcher = self.mask(), self._glued, self._matcher
        if token != END and not self._tokens.spells_everything:
            self._matcher = matcher.deep_copy()  # one that is stuck cannot be rolled back
        self.add(token)
        if token == END or self._tokens.spells_everything or self.mask().any():
            return True
        self._matcher = matcher
        self.log_masses.pop()
        self._added.pop()
        self._mask, self._glued, self._is_stuck = mask, glued, True
        mask[token] = False
        return False

    def copy(self) -> FormState:
        """Return the same text, to be continued in another way."""
        copied = FormState(self._tokens, self._matcher.deep_copy(), glued=self._glued)
        copied.log_masses, copied._is_stuck = [*self.log_masses], self._is_stuck
        copied._added = [*self._added]
        return copied


def form_of(limits: Limits, tokenizer: Tokenizer, prompt: str) -> Form | None:
    """Return the form that the limits name, after a prompt. Raises SettingError."""
    follows_space = not prompt or prompt[-1].isspace()
    for name in FORMS:
        value = getattr(limits, name)
        if value is None:
            continue
        if name == "choices":
            _check_choices(value, tokenizer)
        return Form(_grammar(name, value), tokenizer, name=name, follows_space=follows_space, value=value)
    return None


def rule_of(limits: Limits) -> str | None:
    """Return the form that the limits name, as the right-hand side of a rule of Lark; None for grammars, which have
    named rules.

    Raises SettingError.
    """
    name = next(name for name in FORMS if getattr(limits, name) is not None)
    return None if name == "grammar" else _rule(name, getattr(limits, name))


def form_of_grammar(grammar: str, tokenizer: Tokenizer, name: str) -> Form:
    """Return the form of a grammar of Lark. name: what names it, for errors. Raises SettingError."""
    return Form(_HEADER + grammar, tokenizer, name=name, follows_space=True)


def _grammar(name: str, value: Any) -> str:
    """Return the form in Lark, as llguidance reads it. Raises SettingError."""
    library = _llguidance()
    if name != "grammar":
        return f"{_HEADER}start: {_rule(name, value)}\n"
    if "::=" not in _bounded(value):
        return _HEADER + _OWN_HEADER.sub("", value)
    try:
        return _HEADER + _OWN_HEADER.sub("", str(library.gbnf_to_lark.any_to_lark(value)))
    except Exception as error:  # of any kind
        raise SettingError(gbnf_refusal(str(error))) from None


def _rule(name: str, value: Any) -> str:
    """Return the right-hand side of a rule for a form that is no grammar. Raises SettingError."""
    if name == "json_schema":
        return f"%json {_bounded(_checked_schema(value))}"
    if name == "choices":
        return _bounded(f"CHOICE\nCHOICE: {' | '.join(map(json.dumps, value))}")  # a terminal: rules have fewer parts
    return f"/{_llguidance().regex_to_lark(_bounded(value))}/"


def _bounded(text: str) -> str:
    if len(text) > MAX_FORM_BYTES:
        raise SettingError(f"the form has {len(text):,} characters; expected at most {MAX_FORM_BYTES:,}")
    return text


def _checked_schema(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema with little white space around what it describes. Raises SettingError.

    Refuses what llguidance would ignore, or what a text could evade: its own options, and numbers of properties where
    keys are open, since a key may be written twice.
    """
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            raise SettingError(f"json_schema is nested more than {_DEEPEST} deep; make it flatter, with $defs and $ref")
        if isinstance(node, dict):
            if _OPTIONS in node:
                raise SettingError(f"json_schema cannot be enforced: {_OPTIONS} is no keyword of JSON Schema")
            is_open = node.get("additionalProperties") is not False or "patternProperties" in node
            if is_open and (counted := [key for key in ("minProperties", "maxProperties") if key in node]):
                raise SettingError(f"json_schema cannot be enforced: {counted[0]} where keys are open")
        parts = node.values() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ()
        waiting += [(part, depth + 1) for part in parts]
    try:
        return json.dumps({**schema, _OPTIONS: {"whitespace_pattern": _WHITE}})
    except (TypeError, ValueError) as error:
        raise SettingError(f"json_schema is not JSON: {error}") from None


def _check_choices(choices: Iterable[str], tokenizer: Tokenizer) -> None:
    for choice in choices:
        if UNKNOWN in tokenizer.encode_texts([choice]).ids:
            raise SettingError(f"the choice {choice!r} has a word that the vocabulary lacks; leave it out")


def _llguidance() -> ModuleType:
    try:
        import llguidance
    except ImportError:
        raise SettingError(f"forms need the library llguidance, which is not installed: {installing('form')}") from None
    return llguidance
