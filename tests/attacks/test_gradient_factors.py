"""A gradient that is factored again."""

from __future__ import annotations

import numpy as np

from privagg.attacks.gradient.factors import factorize
from privagg.attacks.gradient.observation import LayerGradient


def test_factoring_again_gives_the_same_and_sees_changes():
    draw = np.random.default_rng(3)
    weight = draw.normal(size=(12, 4)) @ draw.normal(size=(4, 30))
    layer = LayerGradient(weight.copy())
    first, again = factorize(layer, 4), factorize(layer, 4)
    assert np.array_equal(first.left, again.left)
    assert np.array_equal(first.rows, again.rows)
    other = factorize(LayerGradient(2 * weight), 4)
    assert np.allclose(other.singular[:4], 2 * first.singular[:4])
