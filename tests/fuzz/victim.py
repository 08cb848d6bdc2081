"""A process of its own that uses models that may be broken, since a crash must not end the whole campaign.

It reads a path a line from standard input, does all that can be done with a model, and answers a line: `fine`,
`refused` and what was said, or `wrong` and what it was. The first line that it writes says that it is ready.
"""

from __future__ import annotations

import json
import math
import resource
import shutil
import sys
import tempfile
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tellers import scene

import chainrule
from chainrule import kenlm
from chainrule.errors import ChainruleError

if TYPE_CHECKING:
    from collections.abc import Iterator

SLACK = 192 << 20  # bytes that any reading may take: the stacks of threads, blocks, buffers
SENTENCES = ["the cat sat", "", "日本 a"]
SCENE = scene()
TEXTS = ["a b", "", "b a c x", "the a b c d e f g h i j a b a b a b", "￭ a", "日本 a", "x" * 300]


def use(path: Path, workplace: Path) -> None:
    """Raises ChainruleError, or AssertionError where a number is none."""
    if path.parent.name == "vectors":
        use_vectors(path, workplace)
        return
    if path.parent.name == "tellers":
        use_teller(path, workplace)
        return
    if "open" in path.parts[-3:-1]:
        use_open_model(path, workplace)
        return
    use_word_by_word(path)
    model = chainrule.load(path)
    scores = model.score(TEXTS)
    assert not np.isnan(scores).any(), "a score is NaN"
    assert not (scores == np.inf).any(), "a score is infinite"
    told = model.evaluate(chainrule.Lines(TEXTS))
    json.dumps(told.as_json(), allow_nan=False)
    for token, prob in model.next("a b", top=5):
        assert 0 < prob < math.inf, f"{token!r} has the probability {prob}"
    model.generate("a", 2, limits=chainrule.Limits(max_tokens=20), seed=1)
    model.beam("a b", limits=chainrule.Limits(max_tokens=5))
    shutil.rmtree(workplace / "again", ignore_errors=True)
    model.save(workplace / "again")
    if model.family == "ngram":
        model.save(workplace / "again.arpa", overwrite=True)
    assert np.array_equal(chainrule.load(workplace / "again").score(TEXTS), scores), "a copy scores otherwise"


def use_vectors(path: Path, workplace: Path) -> None:
    """All that word vectors are asked."""
    vectors = chainrule.load_vectors(path)
    words = vectors.words[:3]
    for word in (*words, "unheard", "日本"):
        if word in vectors or vectors.vector_of(word) is not None:
            for _, cosine in vectors.nearest(word, top=3):
                assert not math.isnan(cosine), f"a cosine of {word!r} is NaN"
    if len(words) == 3:
        vectors.analogy(*words)
        vectors.odd(words)
    for suffix in ("", ".vec", ".txt", ".bin"):
        again = workplace / f"vectors-again{suffix}"
        vectors.save(again, overwrite=True)
        chainrule.load_vectors(again)


def use_open_model(path: Path, workplace: Path) -> None:
    """What a model that others trained is for."""
    again = workplace / "open-again"
    model: Any = chainrule.load(path)
    if isinstance(model, chainrule.Seq2SeqModel):
        found = model.score(chainrule.Pairs(SENTENCES, SENTENCES))
        model.write(SENTENCES, max_tokens=5)
    elif isinstance(model, chainrule.EmbeddingModel):
        found = model.embed(SENTENCES)
    else:
        found = model.score(SENTENCES)
        if model.family == "masked":
            model.fill("the [MASK] sat")
            model.embed(SENTENCES)
        else:
            model.generate("the", 2, limits=chainrule.Limits(max_tokens=5), seed=1)
    assert not np.isnan(found).any(), "a score is NaN"
    model.save(again, overwrite=True)


def use_teller(path: Path, workplace: Path) -> None:
    """What a model that captions pictures is for."""
    model = chainrule.load(path, chainrule.CaptionModel)
    picture = SCENE.picture if model.regions is None else SCENE
    [[caption]] = model.caption([picture], chainrule.BeamConfig(size=2), alignments=True, max_tokens=8)
    assert not math.isnan(caption.log_prob), "a log-probability is NaN"
    [scores] = model.score([SCENE])
    assert not np.isnan(scores).any(), "a score is NaN"
    model.sentences(picture, caption.text)
    if model.regions is not None:
        assert len(model.regions.regions(picture)) > 0
    model.save(workplace / "teller-again", overwrite=True)
    again = chainrule.load(workplace / "teller-again", chainrule.CaptionModel)
    assert np.allclose(again.score([SCENE])[0], scores, rtol=1e-4), "a copy scores otherwise"


def use_word_by_word(path: Path) -> None:
    """What KenLM's module offers; of its numbers no more is promised than that there are some."""
    try:
        model = kenlm.Model(str(path))
    except OSError:
        return
    model.perplexity("a b")
    state = kenlm.State()
    model.BeginSentenceWrite(state)
    for word in ["the", "a", "b", "c", "ka", "vi", "nin", "</s>", "ÿ", "x"]:
        assert 1 <= model.BaseFullScore(state, word, state).ngram_length <= model.order
    assert len(list(model.full_scores(" ".join(TEXTS)))) == len(" ".join(TEXTS).split()) + 1


def answer(path: Path, workplace: Path) -> str:
    try:
        use(path, workplace)
    except ChainruleError as error:
        return f"refused {error}"
    except BaseException as error:  # what nobody should have to see
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"wrong {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {error}"
    return "fine"


def warm_up(workplace: Path) -> None:
    """Loads everything that is loaded when it is first needed, so that no case pays for it."""
    chainrule.train(chainrule.Lines(TEXTS[3:]), chainrule.NGramConfig(order=2)).save(workplace / "whole")
    network = chainrule.preset("llama", layers=1, width=16, heads=1, context=16)
    pieces = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=280)
    steps = chainrule.TrainingConfig(steps=1, batch=1)
    chainrule.train(chainrule.Lines(TEXTS[3:]), network, tokenizer=pieces, training=steps, progress=False).save(
        workplace / "lm"
    )
    (workplace / "open").mkdir()
    chainrule.convert(workplace / "lm", workplace / "open" / "llama", to="hugging-face")
    use(workplace / "open" / "llama", workplace)
    vectors = chainrule.train_vectors(
        chainrule.Lines(9 * TEXTS[3:5]), chainrule.VectorsConfig(subwords="1-3", buckets=40)
    )
    (workplace / "vectors").mkdir()
    vectors.save(workplace / "vectors" / "whole")
    use(workplace / "vectors" / "whole", workplace)
    chainrule.load(workplace / "whole").compact().save(workplace / "compact", overwrite=True)
    use(workplace / "compact", workplace)
    for name in ("whole", *(f"whole.arpa{suffix}" for suffix in ("", ".gz", ".bz2", ".xz"))):
        chainrule.load(workplace / "whole").save(workplace / name, overwrite=True)
        use(workplace / name, workplace)


@contextmanager
def memory_limit(path: Path) -> Iterator[None]:
    """Four times the size of the file or folder, and SLACK."""
    size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]))
    before = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + 4 * size + SLACK, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def address_space() -> int:
    """Bytes of memory that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as workplace:
        warm_up(Path(workplace))
        print("ready", flush=True)
        for line in sys.stdin:
            path = Path(line.rstrip("\n"))
            with memory_limit(path):
                said = answer(path, Path(workplace))
            print(repr(said)[1:-1], flush=True)


if __name__ == "__main__":
    main()
