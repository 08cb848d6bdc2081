"""Files of decoded utterances: lists for rescore, and times of words; and how many utterances failed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from chainrule.base.files import replace_file
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from chainrule.errors import ChainruleError
    from chainrule.features.speech.ctc import DecodedUtterance, HeardSegment


SUBTITLES = (".srt", ".vtt")


def subtitles(segments: Iterable[HeardSegment], frame: float, suffix: str) -> str:
    """Return segments in the form of SubRip (.srt) or WebVTT (.vtt). frame: seconds of a frame."""
    is_web = suffix == ".vtt"
    blocks = ["WEBVTT\n"] * is_web
    for number, segment in enumerate(segments, 1):
        times = [_clock(own * frame, "." if is_web else ",") for own in (segment.start, segment.stop)]
        lines = [*([] if is_web else [str(number)]), " --> ".join(times), segment.text]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _clock(seconds: float, point: str) -> str:
    """Return a time as hours, minutes, seconds and milliseconds."""
    whole, milliseconds = divmod(round(1000 * seconds), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


class UtteranceFiles:
    """Writes utterances that pass through to files, which appear at the end of the `with` block, unless it fails."""

    def __init__(
        self,
        nbest_out: Path | None,
        nbest: int,
        times: Path | None,
        frame: float,
        failure: str,
        on_error: Callable[[ChainruleError], None],
    ) -> None:
        """Prepare the files.

        nbest_out: of lists, as JSON lines, of this many texts each. times: of words, as NIST's CTM; or where its name
        ends in .srt or .vtt, of a recording's segments. frame: the seconds from one frame to the next. failure: the
        end of the message where some utterances failed. on_error: what gets the error of each.
        """
        self._paths, self._nbest, self._frame = (nbest_out, times), nbest, frame
        self._stack = ExitStack()
        self._failure, self._on_error = failure, on_error
        self._failed = self._count = 0

    def __enter__(self) -> UtteranceFiles:
        self._write_nbest, self._write_times = (
            None if path is None else self._stack.enter_context(replace_file(path)).write for path in self._paths
        )
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def report(self, error: ChainruleError) -> None:
        """Count an utterance that failed."""
        self._failed += 1
        self._on_error(error)

    def passing(self, decoded: Iterable[DecodedUtterance], nothing: str) -> Iterator[DecodedUtterance]:
        """Yield the utterances, which are written as they pass. nothing: the message if there is none.

        Raises SettingError where there is none, or all have failed.
        """
        for utterance in decoded:
            self._count += 1
            yield utterance
            if self._write_nbest is not None:
                line = json.dumps(utterance.to_dict(self._nbest), ensure_ascii=False)
                self._write_nbest(line.encode("utf-8", "surrogatepass") + b"\n")
            times = self._paths[1]
            if self._write_times is not None and times is not None and times.suffix in SUBTITLES:
                if self._count > 1:
                    raise SettingError(f"{times}: subtitles are of one recording; give a single sound")
                lines = subtitles(utterance.segments, self._frame, times.suffix)
                self._write_times(lines.encode("utf-8", "replace"))
            elif self._write_times is not None:
                for word, start, stop, confidence in utterance.nbest[0].words:
                    seconds = f"{start * self._frame:.3f} {(stop - start) * self._frame:.3f}"
                    sure = "" if confidence is None else f" {confidence:.4f}"
                    self._write_times(f"{utterance.id} 1 {seconds} {word}{sure}\n".encode("utf-8", "replace"))
        if not self._count:
            self.check()
            raise SettingError(nothing)

    def check(self) -> None:
        """Raise SettingError where some have failed."""
        if self._failed:
            raise SettingError(f"{self._failed:,} of {self._count + self._failed:,} {self._failure}; see above")
