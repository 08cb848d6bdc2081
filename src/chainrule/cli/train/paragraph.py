"""chainrule train paragraph: trains a model that writes paragraphs about pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.shared.arguments import (
    DEFAULT_TOKENIZER,
    FILE,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TokenizerOptions,
)
from chainrule.cli.train.captioner_run import CaptionerRun, ReaderChoice, RegionChoice, Valid, train_captioner
from chainrule.cli.train.flags import flags_of_any, given_settings
from chainrule.cli.train.neural import DEFAULT_TRAINING, Resume, TrainingFlags
from chainrule.neural.config.seq2seq import CaptionConfig

if TYPE_CHECKING:

    class ParagraphFlags:
        """All fields are optional."""
else:
    ParagraphFlags = flags_of_any([CaptionConfig], without=("decoder",))

DEFAULT_PARAGRAPH = ParagraphFlags()


def paragraph(
    *,
    pictures: Annotated[
        str,
        FILE,
        Parameter(
            help='JSON lines: {"image": "1.jpg", "captions": ["a dog runs . it is brown ."], "boxes": [{"box": [10, '
            '20, 60, 90], "phrase": "a brown dog"}]}; paths count from their folder.'
        ),
    ],
    encoder: Annotated[
        str,
        Parameter(help="What finds regions and gives their vectors: the folder of a classifier, see --regions."),
    ],
    regions: RegionChoice = "proposed",
    phrases: Annotated[
        bool | None,
        Parameter(
            help="Learn a phrase for each region first, and attend to it, too; by default where there are regions.",
            show_default=False,
        ),
    ] = None,
    reader: ReaderChoice = None,
    discriminator: Annotated[
        float,
        Parameter(
            help="Weight of the rewards, in a second phase of a quarter of the budget, for sentences that a "
            "discriminator takes for given ones, by their words and after those before them (Liang 2017); 0: no such "
            "phase."
        ),
    ] = 0.0,
    valid: Valid = None,
    output: Output,
    resume: Resume = False,
    training: TrainingFlags = DEFAULT_TRAINING,
    network: ParagraphFlags = DEFAULT_PARAGRAPH,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A model that writes paragraphs about pictures, from regions and a phrase for each.

        $ chainrule train paragraph --pictures scenes.jsonl --encoder detector/ -o teller/ --minutes 5

    First, what writes a phrase for a region is learned. Then a Transformer reads
    regions and their phrases; an LSTM gives each sentence a topic, and another
    writes its words, with attention to what was read (Krause 2017). After each
    sentence it goes on, or ends.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    train_captioner(
        CaptionerRun(
            pictures=pictures,
            valid=valid,
            encoder=encoder,
            regions=regions,
            phrases=regions != "grid" if phrases is None else phrases,
            discriminator=discriminator,
            output=output,
            config=CaptionConfig(
                **given_settings(network),
                decoder="hierarchical",
                encoder=reader or ("none" if regions == "grid" else "transformer"),
            ),
            training=given_settings(training),
            tokenizer=tokenizer.config(),
            markers=markers,
            resume=resume,
            overwrite=overwrite,
            json=json,
        )
    )
