"""When each character of a text is said in a sound: the alignment over the spectrogram, as a picture or a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.files import replace_file
from chainrule.base.tables import count_of
from chainrule.drawing.pages import render
from chainrule.drawing.plots import check_picture_target, svg_of, write_plot
from chainrule.errors import SettingError
from chainrule.features.speech.alignment_page import alignment_figure

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure

    from chainrule.features.speech.model import AlignedText, SpeechModel
    from chainrule.features.speech.sounds.sound import Sound


@dataclass(frozen=True)
class SoundAlignment:
    """A text over the spectrogram of a sound, and what the network heard. step: the seconds of a step."""

    heading: str
    aligned: AlignedText
    labels: tuple[str, ...]
    step: float
    rate: int

    @property
    def contents(self) -> str:
        """What there is, in words."""
        return f"{count_of(len(self.aligned.characters), 'character')}: {self.aligned.text}"

    def __repr__(self) -> str:
        return f"<SoundAlignment: {len(self.aligned.characters)} characters of {self.heading!r}>"

    def _repr_html_(self) -> str:
        return svg_of(self.figure)

    @property
    def figure(self) -> Figure:
        """The picture, by matplotlib. Raises SettingError where that is missing."""
        aligned = self.aligned
        characters = [(own, start * self.step, stop * self.step) for own, start, stop in aligned.characters]
        title = f"{self.heading}: {aligned.text}"
        return alignment_figure(title, aligned.frames, aligned.log_probs, characters, self.labels, self.step, self.rate)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a self-contained page, .html, or a picture, .svg or .png. Raises OutputError, SettingError."""
        target = Path(path)
        check_picture_target(target, overwrite=overwrite)
        if target.suffix.lower() != ".html":
            write_plot(self.figure, target)
            return
        from markupsafe import Markup

        rows = [
            (own, f"{start * self.step:.2f}", f"{stop * self.step:.2f}") for own, start, stop in self.aligned.characters
        ]
        page = render(
            "alignment.html.j2",
            title=self.heading,
            text=self.aligned.text,
            figure=Markup(svg_of(self.figure)),
            log_prob=f"{self.aligned.log_prob:.2f}",
            rows=rows,
        )
        with replace_file(target) as file:
            file.write(page.encode())


def attend_sound(model: SpeechModel, sound: Sound | str | os.PathLike[str], text: str | None = None) -> SoundAlignment:
    """Return when a speech model hears each character of a text, by the likeliest alignment.

    sound: a file, or a `Sound`. text: by default what the model writes. Raises TextError where the text has a character
    that the model never writes, or more of them than the sound has steps; SettingError where nothing was heard.
    """
    aligned = model.align(sound, text)
    if not aligned.characters:
        raise SettingError("the model hears nothing in this sound; give the text that is said in it")
    read = model.sound(sound)
    return SoundAlignment(Path(read.name).name, aligned, model.labels, model.step_seconds, read.rate)
