"""The modules that users import, as the reference shows them; each has an ``__all__``."""

from __future__ import annotations

__all__ = ["MODULES"]

MODULES = {
    "Protocols": (
        "privagg.protocols.secagg",
        "privagg.protocols.secagg.private",
        "privagg.protocols.lightsecagg",
        "privagg.protocols.additive",
        "privagg.protocols.sensor",
        "privagg.protocols.multidim",
        "privagg.protocols.locational",
        "privagg.protocols.collection",
        "privagg.protocols.responses",
        "privagg.protocols.responses.bags",
        "privagg.protocols.responses.rounds",
        "privagg.protocols.responses.estimators",
        "privagg.protocols.responses.selection",
        "privagg.protocols.responses.losses",
        "privagg.protocols.responses.planner",
        "privagg.protocols.responses.theory",
        "privagg.protocols.responses.graphs",
        "privagg.protocols.responses.reports",
    ),
    "Mechanisms": ("privagg.mechanisms", "privagg.accounting", "privagg.domain"),
    "Attacks": (
        "privagg.attacks.secagg",
        "privagg.attacks.linear",
        "privagg.attacks.linear_sensor",
        "privagg.attacks.sensor",
        "privagg.attacks.ldp",
        "privagg.attacks.responses",
        "privagg.attacks.responses_audit",
        "privagg.attacks.gradient",
    ),
    "Integrations": (
        "privagg.integrations.flower",
        "privagg.integrations.torch",
        "privagg.integrations.torch_responses",
        "privagg.integrations.opacus",
        "privagg.integrations.ray",
        "privagg.integrations.gradient_views",
        "privagg.integrations.gradient_canary",
    ),
    "Core": (
        "privagg.field",
        "privagg.sharing",
        "privagg.correction",
        "privagg.prg",
        "privagg.keys",
        "privagg.keyfiles",
        "privagg.encoding",
        "privagg.trees",
        "privagg.wire",
        "privagg.report",
        "privagg.datasets",
        "privagg.errors",
        "privagg.entropy",
    ),
    "Testing": ("privagg.testing", "privagg.testing.adapters", "privagg.testing.secagg"),
}
"""By the part of the package they belong to."""
