"""`verify` (checksums) and `verify_distribution`: whether a model is what it claims to be."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.errors import ModelFormatError, SettingError
from chainrule.models.any_model import check_kind
from chainrule.models.files.opening import load
from chainrule.models.model import Model
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.protocol import UNKNOWN
from chainrule.storage.hugging_face import is_hugging_face
from chainrule.storage.model_folder import CARD, verify_model
from chainrule.storage.sources import local_path
from chainrule.text.corpus.corpus import source_of

if TYPE_CHECKING:
    import os

    from chainrule.evaluation.distribution import DistributionChecks, ServedScores
    from chainrule.text.corpus.corpus import Paths, Source

_TEXTS = 1000  # that are read to verify a distribution
_DRAWN = 20  # of a model's own, where none are given


class Verified(NamedTuple):
    """A folder whose checksums are right. bytes: the size of its data files."""

    bytes: int
    has_card: bool


@shows_progress
def verify(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> Verified:
    """Read every byte of a model folder, compare the checksums, and open the model.

    Raises ModelFormatError, which names all files that differ, or says why the model cannot be opened.

    good:  chainrule.verify("lm/").bytes
    """
    folder = local_path(path, is_whole=True, progress=progress)
    if folder.is_file():
        raise ModelFormatError(
            f"{folder}: is a file; expected a model folder, which has checksums; if a file seems damaged, get it "
            "again, or check its probabilities with --distribution"
        )
    if is_hugging_face(folder):
        raise ModelFormatError(
            f"{folder}: is a Hugging Face folder, which has no checksums; convert it to a model folder"
        )
    entry = verify_model(folder, callback(progress))
    load(folder)
    return Verified(sum(file.bytes for file in entry.files.values()), (folder / CARD).exists())


@shows_progress
def verify_distribution(
    model: Model | ServedScores,
    source: Source | Paths | None = None,
    *,
    contexts: int = 20,
    seed: int = 0,
    progress: ProgressOption = None,
) -> DistributionChecks:
    """Check that a model's probabilities are a distribution, at random contexts of a text.

    model: one that continues texts, or a client of a server with OpenAI's interface. source: the text; by
    default the model draws it itself, and a server needs one. contexts: how many. Raises SettingError,
    TextError, ServerError.

    good:  assert chainrule.verify_distribution(lm, "heldout.txt").is_distribution
    """
    from chainrule.decoding.limits import Constraints
    from chainrule.decoding.sampling import sample
    from chainrule.evaluation.distribution import check_distribution, check_server
    from chainrule.models.language_models import CausalModel

    check_least("seed", seed, 0)
    check_least("contexts", contexts, 1)
    blocks = () if source is None else source_of(source).blocks(callback(progress))
    texts = list(islice((text for block in blocks for text in block.documents()), _TEXTS))
    if not isinstance(model, Model):
        if source is None:
            raise SettingError("a server draws no text to be checked on; give source, a text")
        return check_server(model, texts, contexts=contexts, seed=seed, progress=callback(progress))
    causal = check_kind(model, CausalModel)
    if source is None:
        drawn = sample(
            causal.language_model,
            [np.empty(0, np.int32)],
            constraints=Constraints(banned=(UNKNOWN,)),
            seed=seed,
            texts_per_prefix=_DRAWN,
        )
        ids = [text.tokens for text in drawn]
    else:
        ids = [causal.tokenizer.encode_texts([text]).ids[:-1] for text in texts]
    return check_distribution(causal.language_model, ids, contexts=contexts, seed=seed, progress=callback(progress))
