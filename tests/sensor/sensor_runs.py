"""A small network, and a run in it with the protocols that are broken, too."""

from __future__ import annotations

from privagg.protocols.sensor import Deployment, simulate


def small(seed=1, nodes=80, area=150.0, range_=50.0, **changes):
    return Deployment(nodes, area, range_, seed=seed, **changes)


def run(protocol="cpda-field", deployment=None, **changes):
    return simulate(deployment or small(), protocol=protocol, allow_insecure=True, **changes)
