"""The kit of protocols: ours pass it, in every threat model."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from privagg.errors import UsageError
from privagg.protocols import lightsecagg, secagg, sensor
from privagg.testing import MECHANISM_CHECKS, PROTOCOL_CHECKS, check_protocol
from privagg.testing.adapters import LightSecAgg, SecAgg
from privagg.testing.adapters_sensor import SensorCluster

FEW = {"corrupt": 0.0, "dropout": 0.0, "min_cohort": 2, "dim": 2}
RING = {"graph": "sparse", "neighbours": 2, "sigma": 1, "eta": 1}
SECAGG = {
    "semi-honest": {"clients": 4, "threshold": 2},
    "ring": {"clients": 5, "threshold": 2, **RING},
    "active": {"clients": 4, "threshold": 3, "threat": "active"},
    "drawn": {"clients": 5, "threshold": 2, "threat": "semi-malicious", **RING},
}
LIES = {"active": ["keys-replaced", "holder-of-one-wrong-share"]}
"""All of them are told in test_secagg_kit; here they show that the kit is reached."""


def inputs(params):
    return np.random.default_rng(3).integers(0, 9, (params.clients, params.dim))


def check(protocol):
    found = check_protocol(protocol, schedules=20, mutations=250)
    assert found.ok
    assert [one.name for one in found.checks] == list(PROTOCOL_CHECKS)
    return {one.name for one in found.skipped}


@pytest.mark.parametrize("name", SECAGG)
def test_secagg(name):
    params = secagg.Params.recommend(**FEW, **SECAGG[name])
    lies = LIES.get(name, ())
    assert check(SecAgg(params, inputs(params), lies)) == (set() if lies else {"lies"})


@pytest.mark.parametrize("threat", ["semi-honest", "active"])
def test_lightsecagg(threat):
    least = {"semi-honest": 2, "active": 3}[threat]
    params = lightsecagg.Params.recommend(**FEW, clients=4, threshold=least, threat=threat)
    assert check(LightSecAgg(params, inputs(params))) == {"lies"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cpda-field", {}),
        ("cpda-field", {"drops": 1, "min_cluster": 4}),
        ("mask-cluster", {}),
    ],
)
def test_clusters_of_sensors(name, options):
    params = sensor.Params.recommend(name, nodes=1000, bound=100, **options)
    readings = dict(zip([10, 13, 16, 19, 22], [3, -1, 4, 1, 5], strict=True))
    assert check(SensorCluster(params, readings)) == {"insecure-mark", "dump-load", "lies"}
    with pytest.raises(UsageError, match="readings"):
        SensorCluster(params, {2: 1, 1: 1})


def test_arguments_of_the_kit():
    with pytest.raises(UsageError, match="protocol"):
        check_protocol(3)
    params = secagg.Params.recommend(**FEW, **SECAGG["semi-honest"])
    with pytest.raises(UsageError, match="vectors"):
        SecAgg(params, np.zeros((3, 2)))
    protocol = SecAgg(params, inputs(params))
    for options in ({"seed": -1}, {"schedules": 0}, {"mutations": True}, {"only": ["none"]}):
        with pytest.raises(UsageError):
            check_protocol(protocol, **options)


def test_the_page_has_every_check():
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
    part = page[page.index("## Mechanisms") : page.index("## Lies told")]
    named = re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)))
    assert named == [*MECHANISM_CHECKS, *PROTOCOL_CHECKS]


def test_the_commits_that_serve_as_examples_are_named_alike():
    pages = [
        (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
        for name in ("CONTRIBUTING.md", "docs/extending.md")
    ]
    subjects = [set(re.findall(r'--grep "\^(Add an? \w+: [^"]+)"', page)) for page in pages]
    assert subjects[0] == subjects[1]
    assert len(subjects[0]) == 3
