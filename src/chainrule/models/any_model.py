"""AnyModel: what models of all kinds have. What one can do beyond that, its class says by its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from chainrule.errors import WrongModelError
from chainrule.kinds import rows

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from typing import Self

    from chainrule.base.progress import Progress
    from chainrule.decoding.chat.conversation import Answering
    from chainrule.drawing.drawn import Drawn
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions
    from chainrule.models.progress_line import ProgressOption


class AnyModel:
    """A model of any kind. `record` holds its data, settings, versions and times; `family` is a row of the registry."""

    family: str
    record: dict[str, Any]
    capability: ClassVar[str] = "is a model"  # what models of a class do, for the error where another one was given
    attention_files: ClassVar[tuple[str, ...]] = (".html", ".svg")  # that its attention is written as
    # The options of `load` that it takes; None: all.
    open_options: ClassVar[frozenset[str] | None] = frozenset({"allow_pickle", "revision", "file", "progress"})

    @classmethod
    def open(cls, path: Path, options: OpenOptions, progress: Progress) -> Self:
        """Open a model folder of ours. Raises ModelFormatError, SettingError."""
        raise NotImplementedError

    def apply(self, options: OpenOptions) -> None:
        """Set how the model reads texts, once it is open. Raises SettingError."""

    def does(self) -> str:
        """Return what this model does, in words."""
        return self.capability

    def besides(self) -> str:
        """Return what it does beside that, in words, for messages that say what it does not."""
        return ""

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Return what is known of the model. size: its bytes on disk, where they are known."""
        raise NotImplementedError

    def attention(self, source: Any, target: str | None = None) -> Drawn:
        """Return where the model attends while it reads a source, and writes a target where it does that.

        Raises SettingError.
        """
        draw = rows("attention").get(self.family)
        if draw is None:
            raise self._lacks("attention to show")
        drawn: Drawn = draw.get()(self, source, target)
        return drawn

    def answering(self, template: str | None = None, draft: Any = None) -> Answering:
        """Return what answers the messages of a conversation. template: in Jinja, in place of the model's own.
        draft: a `Drafting`.

        Raises SettingError.
        """
        raise self._lacks("answers to messages")

    def drawn_network(self) -> Any:
        """Return the network, with the configuration that `draw` draws; None where there is none."""
        return None

    def inspect_pictures(self, pictures: Any, **options: Any) -> Drawn:
        """Return the inside of a network while it reads pictures; as `chainrule.inspect`. Raises SettingError."""
        raise self._lacks("layers that read pictures")

    def _lacks(self, what: str) -> WrongModelError:
        return WrongModelError(f"a model of family {self.family!r} has no {what}; it {self.does()}")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder. Raises OutputError."""
        raise NotImplementedError


AnyKind = TypeVar("AnyKind", bound=AnyModel)


def check_model(model: object, *kinds: type) -> None:
    """Raise TypeError if this is not a model of these kinds: usually it is a path."""
    if not isinstance(model, kinds or AnyModel):
        raise TypeError(f"this takes a model, as chainrule.load gives one; found {model!r}")


def check_kind(model: AnyModel, kind: type[AnyKind]) -> AnyKind:
    """Return the model, if it is one of a kind. Raises WrongModelError if it is another, TypeError if it is none."""
    check_model(model)
    if not isinstance(model, kind):
        raise WrongModelError(describe_wrong_kind(model.family, model.does(), kind.capability) + model.besides())
    return model


def describe_wrong_kind(family: str, does: str, wanted: str) -> str:
    """Return what to say where a model of a family does one thing, and another is wanted."""
    return f"a model of family {family!r} {does}; this takes one that {wanted}"
