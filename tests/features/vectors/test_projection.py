"""Vectors in a plane: known directions, and t-SNE of groups that lie apart."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from chainrule.errors import SettingError
from chainrule.features.vectors.map import project


@pytest.fixture
def groups():
    """Three groups of ten, each around a direction of its own."""
    rng = np.random.default_rng(5)
    return (np.repeat(np.eye(3, 8), 10, axis=0) + 0.05 * rng.standard_normal((30, 8))).astype(np.float32)


def test_principal_components_are_the_directions_of_most_variance() -> None:
    vectors = np.array([[3, 0, 0], [-3, 0, 0], [0, 0, 2], [0, 0, -2], [0, 1, 0], [0, -1, 0]], np.float32)
    places, about = project(vectors, "pca", 0)
    np.testing.assert_allclose(places, vectors[:, [0, 2]], atol=1e-6)
    assert about == "the two principal components, 93% of the variance"  # (9 + 4) of 9 + 4 + 1


def test_tsne_keeps_groups_together_and_gives_the_same_map_on_any_number_of_threads(groups) -> None:
    places, about = project(groups, "tsne", 3)
    assert about.startswith("t-SNE, perplexity 9.66667")
    between = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(between, np.inf)
    nearest = np.argsort(between, axis=1)[:, :3] // 10  # the groups of the three nearest
    assert (nearest == np.arange(30)[:, None] // 10).mean() > 0.95
    with threadpool_limits(2):
        assert np.array_equal(project(groups, "tsne", 3)[0], places)


@pytest.mark.parametrize("vectors", [np.ones((4, 3)), np.arange(5).reshape(5, 1) - 2.5, np.eye(3)])
def test_tsne_of_hardly_anything(vectors) -> None:
    places, _ = project(vectors.astype(np.float32), "tsne", 0)
    assert places.shape == (len(vectors), 2)
    assert np.isfinite(places).all()


def test_what_tsne_needs(groups, monkeypatch) -> None:
    with pytest.raises(SettingError, match="expected pca or tsne"):
        project(groups, "umap", 0)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "sklearn.manifold", raising=False)
    importing = builtins.__import__

    def failing(error):
        def imported(name, *rest):
            if name == "sklearn.manifold":
                raise error
            return importing(name, *rest)

        return imported

    monkeypatch.setattr(builtins, "__import__", failing(ModuleNotFoundError("No module", name="sklearn")))
    with pytest.raises(SettingError, match=r"pip install 'chainrule\[maps\]'"):
        project(groups, "tsne", 0)
    monkeypatch.setattr(builtins, "__import__", failing(ModuleNotFoundError("No module", name="scipy.sparse")))
    with pytest.raises(ModuleNotFoundError):  # a broken installation is another matter
        project(groups, "tsne", 0)
