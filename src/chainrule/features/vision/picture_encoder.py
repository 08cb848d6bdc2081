"""Encoders of pictures for captions: a new network, that of a classifier, or vectors of another program."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.files import open_regular, replace_file
from chainrule.base.memory import check_fits
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.features.classify.model import ClassifierModel
from chainrule.features.classify.network.config import LABELLING, labelling_name, labelling_settings
from chainrule.features.vision.network.config import PictureLabelling
from chainrule.features.vision.pictures.picture import fit_to_frame
from chainrule.storage.model_folder import saved_family
from chainrule.storage.safetensors import open_tensors, write_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.vision.network.body import PictureBody
    from chainrule.features.vision.network.detector import BoxDetector
    from chainrule.features.vision.pictures.picture import Frame, Picture

NETWORKS = tuple(name for name, kind in LABELLING.items() if issubclass(kind, PictureLabelling))
EncoderLike = PictureLabelling | ClassifierModel | str | os.PathLike[str]


@dataclass(frozen=True)
class PictureEncoder:
    """Gives the vectors of a picture's places.

    config: the network's settings; None where only vectors are known. body: the network with its weights; None where it
    is to be trained from the start. vectors: those of all pictures, (N, rows, columns, F). detector: the network that
    proposes boxes, if the encoder belongs to one. name: for the record.
    """

    name: str
    config: PictureLabelling | None = None
    body: PictureBody | None = None
    vectors: Float32[ndarray, "N rows columns F"] | None = None
    detector: BoxDetector | None = None

    def grid(self) -> tuple[int, int, int]:
        """Return rows and columns of the places, and the numbers in a vector."""
        from chainrule.features.vision.network.captioner import new_body
        from chainrule.features.vision.network.visual_sources import grid_of

        if self.vectors is not None:
            return tuple(self.vectors.shape[1:])
        assert self.config is not None
        return grid_of(new_body(self.config) if self.body is None else self.body)

    @property
    def frame(self) -> Frame | None:
        """The size at which it reads pictures; None where only vectors are known."""
        return None if self.config is None else self.config.frame

    def record(self) -> dict[str, Any]:
        """Return its description for the record of a model, by which a run resumes only with the same encoder."""
        settings = None if self.config is None else labelling_settings(self.config)
        return {"name": self.name, "digest": self.digest(), "settings": settings}

    def digest(self) -> str | None:
        """Return the SHA-256 of settings and weights, or of the vectors; None where there are no weights yet."""
        from chainrule.features.vision.network.captioner import body_digest

        if self.vectors is not None:
            return hashlib.sha256(np.ascontiguousarray(self.vectors).data).hexdigest()
        if self.body is None or self.config is None:
            return None
        return body_digest(self.config, self.body)


def open_encoder(
    encoder: EncoderLike | PictureEncoder, progress: Progress, *, size: tuple[int, ...] | None = None
) -> PictureEncoder:
    """Return the encoder that a name, a configuration, a classifier, or a path stands for.

    A path is that of a classifier of pictures, or of a file .npy with the vectors of pictures: N x L x F, or
    N x rows x columns x F. size: height and width in pixels that pictures are brought to, if not the encoder's own: a
    ConvNet gives more places of a larger picture. Raises SettingError, ModelFormatError, TextError.
    """
    opened = _open_encoder(encoder, progress)
    if size is None:
        return opened
    if opened.config is None:
        raise SettingError(f"{opened.name}: has vectors, not a network, so that size has no effect; leave it out")
    if opened.body is None:
        return replace(opened, config=replace(opened.config, size=size))
    if opened.detector is not None:
        raise SettingError(f"{opened.name}: finds boxes in pictures of its own size only; leave size out")
    return replace(opened, **_resized(opened.config, opened.body, size))


def _resized(config: PictureLabelling, body: PictureBody, size: tuple[int, ...]) -> dict[str, Any]:
    """Return the settings and a copy of a network for pictures of another size. Raises SettingError."""
    from chainrule.features.vision.network.visual_sources import body_for_size

    larger = replace(config, size=size)
    return {"config": larger, "body": body_for_size(body, larger)}


def _open_encoder(encoder: EncoderLike | PictureEncoder, progress: Progress) -> PictureEncoder:
    if isinstance(encoder, PictureEncoder):
        return encoder
    if isinstance(encoder, PictureLabelling):
        return PictureEncoder(labelling_name(encoder), encoder)
    if isinstance(encoder, ClassifierModel):
        return _of_classifier(encoder, "a classifier")
    if not isinstance(encoder, str | os.PathLike):
        raise TypeError(f"encoder is {encoder!r}; expected a name, a configuration, a classifier, or a path")
    name = os.fspath(encoder)
    if name in NETWORKS:
        kind = LABELLING[name]
        assert issubclass(kind, PictureLabelling)
        return PictureEncoder(name, kind())
    if name.endswith(".npy"):
        return PictureEncoder(name, vectors=read_vectors(name))
    if not Path(name).exists():
        raise SettingError(
            f"there is no encoder {name!r}; expected {', '.join(NETWORKS[:-1])} or {NETWORKS[-1]}, the folder of a "
            "classifier of pictures, or a file .npy of vectors"
        )
    from chainrule.models.files.opening import load

    if saved_family(Path(name)) in (None, "classifier"):
        model = load(name, progress=progress)
        if isinstance(model, ClassifierModel):
            return _of_classifier(model, name)
    raise SettingError(
        f"{name}: is not a picture classifier, which an encoder must be; train one with train classifier "
        "--network resnet"
    )


def encode_pictures(
    encoder: PictureEncoder, pictures: Sequence[Picture], cache: str | os.PathLike[str] | None, progress: Progress
) -> Float32[ndarray, "N L F"]:
    """Return the vectors of pictures, by an encoder with weights.

    cache: a file that keeps them (.safetensors): vectors that it has are not computed again, and missing ones are
    added. Raises SettingError where it is of another encoder; ModelFormatError, OutputError, EstimationError.
    """
    from chainrule.features.vision.network.visual_sources import vectors_of_pictures

    assert encoder.body is not None
    body, (rows, columns, width) = encoder.body.eval(), encoder.grid()
    check_fits(
        len(pictures) * rows * columns * width * 4,
        f"keeping the vectors of {len(pictures):,} pictures, {rows * columns} of {width} numbers each",
    )
    known = {} if cache is None else _open_cache(Path(cache), encoder, (rows * columns, width))
    pixels = [fit_to_frame(picture, body.frame) for picture in pictures]
    digests = [hashlib.sha256(np.ascontiguousarray(one).data).digest() for one in pixels]
    fresh = {digest: i for i, digest in enumerate(digests) if digest not in known}
    known |= zip(fresh, vectors_of_pictures(body, [pixels[i] for i in fresh.values()], progress), strict=True)
    if cache is not None and fresh:
        _write_cache(Path(cache), encoder, known)
    return np.stack([known[digest] for digest in digests])


def _of_classifier(model: ClassifierModel, name: str) -> PictureEncoder:
    """Return the encoder of a classifier. Raises SettingError."""
    from chainrule.features.vision.network.captioner import body_of

    classifier: Any = model.classifier
    body, detector = body_of(classifier), classifier if classifier.unit == "box" else None
    return PictureEncoder(name, getattr(classifier, "config", None), body, detector=detector)


def read_vectors(name: str) -> Float32[ndarray, "N rows columns F"]:
    """Return the vectors of pictures in a file .npy: N x L x F, or N x rows x columns x F. Raises TextError."""
    try:
        open_regular(name).close()
        array = np.load(name, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise TextError(f"{name}: there is no such file") from error
    except (OSError, ValueError, EOFError) as error:
        raise TextError(f"{name}: is not a NumPy array, or is damaged: {' '.join(str(error).split())}") from error
    if array.ndim not in (3, 4) or array.dtype.kind != "f" or not array.size:
        raise TextError(
            f"{name}: is {array.dtype} of the shape {array.shape}; expected floats: pictures x places x numbers, or "
            "pictures x rows x columns x numbers"
        )
    vectors = np.asarray(array, np.float32)
    if not np.isfinite(vectors).all():
        raise TextError(f"{name}: has numbers that are not finite; compute the vectors again")
    if vectors.ndim == 4:
        return vectors
    pictures, places, width = vectors.shape
    side = int(places**0.5)
    return vectors.reshape((pictures, side, side, width) if side * side == places else (pictures, 1, places, width))


def _open_cache(path: Path, encoder: PictureEncoder, shape: tuple[int, int]) -> dict[bytes, Float32[ndarray, "L F"]]:
    """Return the vectors in a file, by the digest of the picture. Raises SettingError, ModelFormatError."""
    if not path.exists():
        return {}
    arrays = open_tensors(path)
    if arrays.keys() != {"vectors", "pictures", "encoder"} or arrays["vectors"].dtype != np.float32:
        raise ModelFormatError(f"{path}: holds no vectors of pictures; name another file")
    vectors, pictures = arrays["vectors"], arrays["pictures"]
    if arrays["encoder"].tobytes().hex() != encoder.digest():
        raise SettingError(
            f"{path}: has the vectors of another encoder, or of pictures of another size; delete it, or name another"
        )
    if vectors.shape != (len(pictures), *shape) or pictures.shape != (len(vectors), 32) or pictures.dtype != np.uint8:
        raise ModelFormatError(f"{path}: has vectors of the shape {vectors.shape}; it is damaged: delete it")
    return {own.tobytes(): one for own, one in zip(pictures, vectors, strict=True)}


def _write_cache(path: Path, encoder: PictureEncoder, known: dict[bytes, Float32[ndarray, "L F"]]) -> None:
    """Write the vectors of pictures to a file. Raises OutputError."""
    arrays = {
        "vectors": np.stack(list(known.values())),
        "pictures": _bytes_array(b"".join(known)).reshape(len(known), 32),
        "encoder": _bytes_array(bytes.fromhex(encoder.digest() or "")),
    }
    with replace_file(path) as file:
        write_tensors(Path(file.name), arrays)


def _bytes_array(data: bytes) -> UInt8[ndarray, " bytes"]:
    return np.frombuffer(data, np.uint8)
