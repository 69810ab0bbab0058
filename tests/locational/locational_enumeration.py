"""All reports of small surveys, one by one: P(report | cell), written out again."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np

from privagg.mechanisms import GRR, OLH, PGR, HadamardResponse, SubsetSelection, UnaryEncoding
from privagg.mechanisms._kernels.projective import decode_each
from privagg.protocols.locational import PrivSet


def report_chances(oracle, cell):
    """Return P(report | cell) of every report, as fractions, in one order for all cells."""
    k = oracle.k
    if isinstance(oracle, SubsetSelection):
        p, w = oracle.p, oracle.w
        return [
            p / comb(k - 1, w - 1) if cell in found else (1 - p) / comb(k - 1, w)
            for found in itertools.combinations(range(k), w)
        ]
    if isinstance(oracle, GRR):
        return [oracle.p if symbol == cell else oracle.q for symbol in range(k)]
    if isinstance(oracle, UnaryEncoding):
        chances = []
        for bits in itertools.product((0, 1), repeat=k):
            found = Fraction(1)
            for at, bit in enumerate(bits):
                one = oracle.p if at == cell else oracle.q
                found *= one if bit else 1 - one
            chances.append(found)
        return chances
    if isinstance(oracle, HadamardResponse):
        size, block, row = oracle.block_size, cell % oracle.blocks, cell // oracle.blocks + 1
        half = size // 2
        own = {block * size + z for z in range(size) if (row & z).bit_count() % 2 == 0}
        return [
            oracle.p / half if at in own else oracle.q / half for at in range(oracle.blocks * size)
        ]
    if isinstance(oracle, PGR):
        points = np.eye(oracle.sums_size, dtype=np.int64)
        space = oracle._space
        own = [bool(decode_each(space, point, k)[cell]) for point in points]
        return [
            oracle.p / space.plane if on else (1 - oracle.p) / (space.points - space.plane)
            for on in own
        ]
    if isinstance(oracle, OLH):
        # Some hash functions, each with all its cells; which function says nothing.
        chances = []
        for seed in range(20):
            a, b = np.random.default_rng(seed).integers(0, 2**32, (2, 1), dtype=np.uint32)
            for report in range(oracle.g):
                columns = (a, b, np.array([report], oracle.layout[2].dtype))
                kept = bool(oracle._sums(columns)[cell])
                chances.append((oracle._split.p if kept else oracle._split.q) / 20)
        assert sum(chances) == 1
        return chances
    raise AssertionError(oracle)


def set_chances(oracle: PrivSet, items):
    """Return P(report | items), with what fills up in its place."""
    filled = list(items) + [oracle.k + at for at in range(len(items), oracle.m)]
    hits = oracle.hits
    return [
        hits.share / hits.hit if set(found) & set(filled) else (1 - hits.share) / hits.miss
        for found in itertools.combinations(range(oracle.elements), oracle.w)
    ]


def largest_ratio(rows):
    """Return the largest ratio of two entries of a column."""
    return max(max(column) / min(column) for column in zip(*rows, strict=True))
