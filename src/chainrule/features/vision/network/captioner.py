"""Takes captioners apart for a model folder, and builds them again, as `neural/saving.py` does with other networks."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from chainrule.base.options import config_from_json
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.classify.network.build import build_classifier
from chainrule.features.classify.network.config import LABELLING, labelling_settings
from chainrule.features.seq2seq.network.config import CaptionConfig
from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.features.vision.network.config import PictureLabelling
from chainrule.features.vision.network.visual_sources import grid_of
from chainrule.neural.saving import arrays_of, check_layers, filled_network, layers_of, network_of_shapes

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.features.seq2seq.network.network import Seq2SeqNetwork
    from chainrule.features.seq2seq.network.vector_sources import VectorInput
    from chainrule.features.vision.network.body import PictureBody

    Arrays = dict[str, ndarray]


def new_body(config: PictureLabelling) -> PictureBody:
    """Return an encoder of pictures with initial weights, drawn from torch's random generator. Raises SettingError."""
    return cast("PictureBody", build_classifier(config, ["a", "b"], "picture", 0).body)


def body_of(classifier: Any) -> PictureBody:
    """Return a copy of the encoder of a classifier of pictures. Raises SettingError."""
    if getattr(classifier, "reads", None) != "picture" or classifier.unit not in ("picture", "box"):
        raise SettingError(
            "the encoder is not a classifier of whole pictures or of boxes; name one that train classifier wrote"
        )
    return cast("PictureBody", copy.deepcopy(classifier.body).eval())


def body_digest(config: PictureLabelling, body: PictureBody) -> str:
    """Return the SHA-256 of all that determines an encoder's vectors: its settings, the picture's size, its weights."""
    digest = hashlib.sha256(json.dumps(labelling_settings(config), sort_keys=True).encode())
    for name, array in sorted(arrays_of(body.layers).items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def attach_body(network: Seq2SeqNetwork, body: PictureBody) -> None:
    """Make a frozen encoder of pictures a part of a trained network."""
    cast("VectorInput", network.source_embedding).attach(body, is_tuned=False)


def attached_body(model: NeuralSeq2SeqModel) -> PictureBody | None:
    """Return the encoder of pictures of a model; None where its sources are vectors only."""
    return cast("VectorInput", model.network.source_embedding).body


def put_together_captioner(
    settings: object, encoder: object, arrays: Arrays, vocabulary_size: int
) -> tuple[NeuralSeq2SeqModel, PictureLabelling | None]:
    """Return a captioner, with the settings of its encoder of pictures, from settings and arrays.

    encoder: as `labelling_settings`; None where sources are vectors. Raises ModelFormatError.
    """
    config: CaptionConfig = config_from_json(CaptionConfig, settings)
    if not config.reads_vectors:
        raise ModelFormatError("the network's setting source_width is missing; expected the numbers of a vector")
    check_layers(config.encoder_layers + config.decoder_layers, arrays)
    pictures = None if encoder is None else picture_config(encoder)
    check_layers(layers_of(pictures), arrays)
    if pictures is not None:
        rows, columns, width = places_of(pictures)
        if (config.source_grid, config.source_width) != ((rows, columns), width):
            raise ModelFormatError(
                f"the encoder gives {rows} x {columns} vectors of {width} numbers, but the network reads "
                f"{' x '.join(map(str, config.source_grid)) or 'regions'} of {config.source_width}: the settings were "
                "changed"
            )

    def build() -> Seq2SeqNetwork:
        network = build_seq2seq(config, 0, vocabulary_size)
        if pictures is not None:
            attach_body(network, new_body(pictures))
        return network

    return NeuralSeq2SeqModel(filled_network(build, arrays)), pictures


def places_of(config: PictureLabelling) -> tuple[int, int, int]:
    """Return the rows and columns of the places that an encoder gives vectors for, and the numbers in each.

    Raises ModelFormatError where it cannot read pictures of the size that its settings say.
    """
    try:
        return grid_of(network_of_shapes(lambda: new_body(config)).to("meta"))
    except RuntimeError as error:
        height, width = config.frame.height, config.frame.width
        raise ModelFormatError(
            f"the encoder cannot read pictures of {height} x {width} pixels: its size was changed"
        ) from error


def filled_body(config: PictureLabelling, arrays: Arrays) -> PictureBody:
    """Return an encoder of pictures with weights. Raises ModelFormatError."""
    check_layers(layers_of(config), arrays)
    return filled_network(lambda: without_pool(new_body(config)), arrays).eval()


def without_pool(body: PictureBody) -> PictureBody:
    """Return the encoder of pictures itself, but giving maps only."""
    body.pool = nn.Identity()
    return body


def picture_config(settings: object) -> PictureLabelling:
    """Return the settings of an encoder of pictures. Raises ModelFormatError."""
    name = settings.get("network") if isinstance(settings, dict) else None
    kind = LABELLING.get(name) if isinstance(name, str) else None
    if not isinstance(settings, dict) or kind is None or not issubclass(kind, PictureLabelling):
        raise ModelFormatError(f"the encoder is {name!r}, which this version does not know as a network of pictures")
    values = {field: value for field, value in settings.items() if field != "network"}
    return cast("PictureLabelling", config_from_json(kind, values))
