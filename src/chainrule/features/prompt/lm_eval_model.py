"""A model for lm-evaluation-harness. Importing this needs its package lm_eval, and registers the model `chainrule`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from chainrule.errors import SettingError
from chainrule.evaluation.continuations import Pair
from chainrule.features.prompt.lm_eval_answers import Answers, Request, open_answering

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.model import Model

_IGNORED = ("batch_size", "max_batch_size", "device")  # the harness gives them to every model; ours batch by themselves
_ARGUMENTS = ("pretrained", "tokenizer", "markers", "ends", "seed")


@register_model("chainrule")
class ChainruleLM(LM):  # type: ignore[misc]  # lm_eval has no types
    """Answers requests of the harness; see `Answers`."""

    def __init__(self, model: Model | Seq2SeqModel, *, ends: bool = False, seed: int = 0) -> None:
        super().__init__()
        self.answers = Answers(model, ends=ends, seed=seed)
        for warning in self.answers.warnings:
            logging.getLogger(__name__).warning(warning)

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> ChainruleLM:
        """Open the model that model_args names. Raises SettingError, ModelFormatError."""
        settings = {name: value for name, value in arg_dict.items() if name not in _IGNORED}
        unknown = next((name for name in settings if name not in _ARGUMENTS), None)
        if unknown is not None or "pretrained" not in settings:
            problem = f"have no {unknown}" if unknown is not None else "need pretrained, the path of the model"
            raise SettingError(f"model_args {problem}; expected pretrained=lm/, and any of {', '.join(_ARGUMENTS[1:])}")
        path, tokenizer = str(settings["pretrained"]), settings.get("tokenizer")
        model = open_answering(
            path, tokenizer=None if tokenizer is None else str(tokenizer), markers=settings.get("markers")
        )
        ends, seed = settings.get("ends", False), settings.get("seed", 0)
        if not isinstance(ends, bool) or not isinstance(seed, int):
            raise SettingError(
                f"model_args have ends={ends} and seed={seed}; expected true or false, and a whole number"
            )
        return cls(model, ends=ends, seed=seed)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict[str, Any] | None = None) -> ChainruleLM:
        """Open the model as `create_from_arg_obj` does, from "pretrained=lm/,ends=true"."""
        from lm_eval.utils import simple_parse_args_string

        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        answers = self.answers.continuations([Pair(*request.args) for request in requests])
        return self._cache("loglikelihood", requests, answers)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        answers = self.answers.documents([request.args[0] for request in requests])
        return self._cache("loglikelihood_rolling", requests, answers)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        answers = self.answers.texts([Request(*request.args) for request in requests])
        return self._cache("generate_until", requests, answers)

    def get_model_info(self) -> dict[str, Any]:
        return {f"model_{name}" if name == "seed" else name: value for name, value in self.answers.info.items()}

    def _cache(self, kind: str, requests: list[Instance], answers: list[Any]) -> list[Any]:
        """Add the answers to the cache of the harness; return them."""
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(kind, request.args, answer)
        return answers
