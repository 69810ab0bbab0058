"""Every protocol, in rows: what a test compares with the packages, enums and rounds of the code."""

from __future__ import annotations

from privagg.cli._catalogue import Protocol
from privagg.cli._catalogue_facts import facts

__all__ = ["protocols"]

_PACKAGES = "privagg.protocols"
_ALL_SIGNED = ("semi-honest", "semi-malicious", "active")
_STEPS = ("hello", "join", "roster", "shares", "answers", "report")
_TREE = ("report",)

_BONAWITZ = (
    "Bonawitz et al., CCS 2017 (complete graph); Bell et al., CCS 2020 (sparse graph of neighbours)"
)
_LSA = "So et al., LightSecAgg, MLSys 2022 (arXiv 2109.14236)"
_CPDA = "He et al., PDA, INFOCOM 2007"
_SEN = "Sen and Maitra, NordSec 2011"
_ANYBODY = "any number: a report is private by itself, whoever sees it"

# name: summary; who may collude; what the base station learns; dropouts; secure; source
_SENSOR: dict[str, tuple[str, str, str, bool, bool, str]] = {
    "tag": (
        "Sums up a tree; hides nothing",
        "none: every parent reads what its children send",
        "the sum; parents read their children",
        True,
        False,
        "Madden et al., TAG, OSDI 2002",
    ),
    "smart": (
        "Slices of a reading to neighbours, then sums up a tree",
        "a node's parent and all holders of its slices but one",
        "the sum",
        False,
        True,
        "He et al., PDA, INFOCOM 2007; slices here are field elements",
    ),
    "cpda": (
        "Polynomials over integers or reals in clusters",
        "none: a leader reads every reading off its share",
        "sums of clusters",
        False,
        False,
        _CPDA,
    ),
    "cpda-sen-efficient": (
        "Polynomials in clusters, with a huge seed of the leader",
        "none: the leader decodes every reading by design",
        "sums of clusters",
        False,
        False,
        _SEN,
    ),
    "cpda-sen-checked": (
        "Polynomials in clusters, with checks of seeds and shares",
        "none: the checks pass and the leader still reads every reading",
        "sums of clusters",
        False,
        False,
        _SEN,
    ),
    "cpda-field": (
        "Polynomials over a prime field in clusters, positions as points",
        "--corrupt members of a cluster, its leader included, and everyone outside",
        "sums of clusters",
        True,
        True,
        f"after {_CPDA}; over a field",
    ),
    "mask-cluster": (
        "Pairwise masks that cancel in a cluster",
        "--corrupt members of a cluster, its leader included, and everyone outside",
        "sums of clusters",
        False,
        True,
        "after Kursawe et al., PETS 2011",
    ),
    "cmt": (
        "A keystream shared with the base station",
        "all nodes on the way; not the base station, which has every key",
        "the sum; with what single nodes send, their readings",
        True,
        True,
        "Castelluccia, Mykletun, Tsudik, 2005",
    ),
}

_SURVEYS = {
    "spl": "Each attribute is reported with a part of epsilon",
    "smp": "One attribute, drawn at random, is reported, and the report says which",
    "rs+fd": "One attribute is reported and fakes for the others; the report hides which",
    "rs+rfd": "As rs+fd, with fakes drawn from priors",
}


def protocols() -> list[Protocol]:
    """Return every protocol, those of secure aggregation first."""
    return [*_secagg(), *_sensor(), *_ldp(), *_responses()]


def _secagg() -> list[Protocol]:
    return [
        Protocol(
            name="bonawitz",
            summary="Secure aggregation by pairwise masks; those of lost clients are rebuilt",
            path=f"{_PACKAGES}.secagg",
            threats=_ALL_SIGNED,
            collusion="the server and --corrupt of the clients; fewer than the threshold of shares",
            learns="who the survivors are, the sum of their vectors, and no more of them",
            rounds=(
                "advertise-keys",
                "commit-graph",
                "reveal-graph",
                "share-keys",
                "masked-input",
                "consistency-check",
                "unmasking",
            ),
            dropouts=True,
            command="privagg simulate secagg",
            page="docs/secagg.md",
            source=_BONAWITZ,
        ),
        Protocol(
            name="lightsecagg",
            summary="Secure aggregation by coded masks, whose sum is found in one step",
            path=f"{_PACKAGES}.lightsecagg",
            threats=("semi-honest", "active"),
            collusion="the server and T = --corrupt of the clients",
            learns="who the survivors are, the sum of their vectors, and no more of them",
            rounds=(
                "advertise-keys",
                "share-masks",
                "masked-input",
                "consistency-check",
                "unmasking",
            ),
            dropouts=True,
            command="privagg simulate secagg --protocol lightsecagg",
            page="docs/lightsecagg.md",
            source=_LSA,
        ),
        Protocol(
            name="lightsecagg-async",
            summary="Coded masks for buffered aggregation: updates of different ages in one sum",
            path=f"{_PACKAGES}.lightsecagg.async_rounds:run_async",
            threats=("semi-honest",),
            collusion="the server and T of the clients",
            learns="the weighted sum of a full buffer, who is in it and how old each update is",
            rounds=("advertise-keys", "share-mask", "masked-input", "unmasking"),
            dropouts=True,
            command="",
            page="docs/lightsecagg.md",
            source=_LSA,
        ),
        Protocol(
            name="additive",
            summary="Sums by additive sharing among several servers, one of them honest",
            path=f"{_PACKAGES}.additive",
            threats=("semi-honest",),
            collusion="the leader, all helpers but one, and corrupt clients",
            learns="who takes part, the sum of their vectors, and no more of them",
            rounds=("share-seeds", "masked-input", "sum-masks"),
            dropouts=True,
            command="",
            page="docs/additive.md",
            source="after Corrigan-Gibbs and Boneh, Prio, NSDI 2017, without its proofs",
        ),
    ]


def _sensor() -> list[Protocol]:
    clustered = {name for name in _SENSOR if "cluster" in name or name.startswith("cpda")}
    return [
        Protocol(
            name=name,
            summary=summary,
            path=f"{_PACKAGES}.sensor",
            threats=_threats(name, secure),
            collusion=collusion,
            learns=learns,
            rounds=_STEPS if name in clustered else _TREE,
            dropouts=dropouts,
            secure=secure,
            command=f"privagg simulate sensor --protocol {name}"
            + " --allow-insecure" * (name.startswith("cpda") and not secure),
            page="docs/sensor.md",
            source=source,
        )
        for name, (summary, collusion, learns, dropouts, secure, source) in _SENSOR.items()
    ]


def _threats(name: str, secure: bool) -> tuple[str, ...]:
    if not secure:
        return ()
    return ("active",) if name in ("cpda-field", "mask-cluster") else ("semi-honest",)


def _ldp() -> list[Protocol]:
    source = facts(f"{_PACKAGES}.multidim.params:Params").source
    surveys = [
        Protocol(
            name=name,
            summary=summary,
            path=f"{_PACKAGES}.multidim",
            threats=("active",),
            collusion=_ANYBODY,
            learns="one report of each respondent; estimates of frequencies",
            rounds=("report",),
            dropouts=True,
            command=f"privagg simulate multidim --protocol {name}",
            page="docs/multidim.md",
            source=source,
        )
        for name, summary in _SURVEYS.items()
    ]
    return [
        *surveys,
        Protocol(
            name="locational",
            summary="Values by region: region and value are one cell, reported once",
            path=f"{_PACKAGES}.locational",
            threats=("active",),
            collusion=_ANYBODY,
            learns="one report of each respondent; estimates for regions",
            rounds=("report",),
            dropouts=True,
            command="privagg simulate locational",
            page="docs/locational.md",
            source="after Priyanshu et al., Unified Locational Differential Privacy Framework",
        ),
        Protocol(
            name="collection",
            summary="A real survey over files: reports, states that add up, estimates",
            path=f"{_PACKAGES}.collection",
            threats=("active",),
            collusion=_ANYBODY,
            learns="the reports; estimates of frequencies or of a mean",
            rounds=("init", "randomize", "aggregate", "estimate"),
            dropouts=True,
            command="privagg ldp",
            page="docs/ldp.md",
            source="ours",
        ),
    ]


def _responses() -> list[Protocol]:
    source = "Javanmard et al., Learning from Aggregate Responses, ICLR 2024 (arXiv 2401.11081)"
    return [
        Protocol(
            name="responses",
            summary="A curator releases the bags' sums or means once, with label privacy",
            path=f"{_PACKAGES}.responses.curator:Curator",
            threats=("active",),
            collusion="any number of those who see the release; the curator is trusted",
            learns="noisy sums of bags, whose members are public",
            rounds=("release",),
            dropouts=False,
            command="privagg simulate responses",
            page="docs/responses.md",
            source=source,
        ),
        Protocol(
            name="responses-secure",
            summary="The same by secure aggregation: no curator sees a response",
            path=f"{_PACKAGES}.responses.rounds:release_securely",
            threats=_ALL_SIGNED,
            collusion="as bonawitz",
            learns="sums of bags, with the clients' noise if there is epsilon",
            rounds=("as bonawitz",),
            dropouts=True,
            command="",
            page="docs/responses.md",
            source=source,
        ),
        Protocol(
            name="ad-reports",
            summary="Noisy counts of displays and clicks by pairs of features, released at once",
            path=f"{_PACKAGES}.responses.reports",
            threats=("active",),
            collusion="any number of those who see the tables; who makes them is trusted",
            learns="noisy counts over every pair of features",
            rounds=("release",),
            dropouts=False,
            command="",
            page="docs/ad-reports.md",
            source=facts(f"{_PACKAGES}.responses.report_mrf").source,
        ),
    ]
