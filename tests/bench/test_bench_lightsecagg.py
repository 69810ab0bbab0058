"""The benchmark's cases of LightSecAgg: what is compared, and that it is the same work."""

from __future__ import annotations

import json

import numpy as np

from privagg import entropy, field
from privagg.bench import field as bench_field
from privagg.bench import lightsecagg
from privagg.protocols.lightsecagg import Params


def test_cases_have_their_contestants():
    works = lightsecagg.works(clients=20, dim=200, dropped=0.2, repeats=2)
    encoded, decoded = [work() for work in works]
    assert [row.who for row in encoded.rows] == ["privagg LightSecAgg"]
    assert encoded.amount == 20 * 16 * 14  # N U ceil(d / (U - T))
    assert [row.who for row in decoded.rows] == [
        "privagg LightSecAgg",
        "NumPy, object arrays",
        "Bonawitz et al.: masks taken off",
    ]
    assert "16 masks" in decoded.name
    assert "4 of 20 clients gone" in decoded.name
    assert [bool(row.extrapolated) for row in decoded.rows] == [False, True, True]
    assert f"{16 + 4 * 16} masks" in decoded.rows[2].extrapolated
    assert all(row.timing.median > 0 for row in (*encoded.rows, *decoded.rows))


def test_the_command_shows_them():
    report = bench_field.bench(parts=["lightsecagg"], clients=20, repeats=2)
    cases = json.loads(report.to_json())["cases"]
    assert [case["name"].split(" ")[0] for case in cases] == ["a", "sum"]


def test_the_object_product_is_the_decoders():
    params = Params.recommend(clients=12, dim=30, dropout=0.2)
    code, holders = params.code, np.arange(params.threshold)
    sums = field.uniform(entropy.OS, (params.threshold, params.piece), params.field)
    weights = code.weights(holders, code.nodes()[: code.pieces])
    product = lightsecagg._object_product(
        weights.astype(object), sums.astype(object), params.field.modulus
    )
    decoded = code.join(sums, holders, params.length)
    assert product.reshape(-1)[: params.length].tolist() == decoded.tolist()
