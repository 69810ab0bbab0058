"""Every mechanism of differential privacy, in rows; a test compares them with the classes."""

from __future__ import annotations

from privagg.cli._catalogue import Mechanism
from privagg.cli._catalogue_facts import facts

__all__ = ["mechanisms"]

_VALUE = "one respondent's value replaced by any other of the domain"
_PURE = "epsilon-local differential privacy of one report"
_TWICE = "epsilon of one report, and a bound over all reports of the same value"
_WORDS = "exact: integer thresholds of 64-bit words, realised epsilon at most the stated one"
_COUNTS = "exact: a table of integer counts out of 2**64"
_SUMS = "exact: integer noise by inversion of enclosed tails"

_ORACLES = {
    "grr": "grr:GRR",
    "sue": "unary:SUE",
    "oue": "unary:OUE",
    "ue": "unary:UnaryEncoding",
    "blh": "local_hashing:BLH",
    "olh": "local_hashing:OLH",
    "lh": "local_hashing:LocalHashing",
    "ss": "subset:SubsetSelection",
    "hr": "hadamard:HadamardResponse",
    "pgr": "projective:PGR",
    "cms": "count_mean_sketch:CMS",
    "hcms": "count_mean_sketch:HCMS",
    "she": "histogram_encoding:SHE",
    "the": "histogram_encoding:THE",
    "rr": "randomized_response:RandomizedResponse",
}
_REPEATED = {
    "l-grr": "longitudinal:LGRR",
    "l-osue": "longitudinal_unary:LOSUE",
    "l-sue": "longitudinal_unary:LSUE",
    "loloha": "longitudinal_hashing:LOLOHA",
    "dbitflip": "longitudinal_hashing:DBitFlip",
}
_NUMBERS = {
    "laplace": "additive:Laplace",
    "duchi": "duchi:Duchi",
    "pm": "window:Piecewise",
    "hybrid": "duchi:Hybrid",
    "sw": "square_wave:SquareWave",
}
# Where the class names none, or refers to another's.
_OTHER_SOURCES = {
    "l-osue": facts("privagg.mechanisms.longitudinal:LGRR").source,
    "l-sue": 'Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014',
    "planar-laplace": facts("privagg.mechanisms.geo").source,
    "skellam": "Agarwal, Kairouz, Liu, NeurIPS 2021",
    "sue": 'Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014',
    "rr": 'Warner, "Randomized Response", JASA 1965',
}


def mechanisms() -> list[Mechanism]:
    """Return every mechanism: for categories, numbers, places, and sums of vectors."""
    rows = [_local(name, path, "categories") for name, path in _ORACLES.items()]
    rows += [_local(name, path, "categories", _TWICE) for name, path in _REPEATED.items()]
    rows += [_local(name, path, "numbers of a range") for name, path in _NUMBERS.items()]
    delta = "(epsilon, delta)-local differential privacy of one report"
    rows.append(_local("gaussian", "additive:Gaussian", "numbers of a range", delta))
    return [*rows, *_several(), *_places(), *_sums()]


def _local(name: str, path: str, domain: str, guarantee: str = _PURE) -> Mechanism:
    return _row(
        name,
        f"privagg.mechanisms.{path}",
        domain=domain,
        guarantee=guarantee,
        adjacency=_VALUE,
        sampler=_COUNTS if name in ("laplace", "gaussian", "she", "rr") else _WORDS,
        command=f"privagg ldp init --mechanism {name}",
    )


def _row(name: str, path: str, *, described_by: str = "", **fields: str) -> Mechanism:
    found = facts(described_by or path)
    source = _OTHER_SOURCES.get(name) or found.source
    return Mechanism(name=name, summary=found.summary, path=path, source=source, **fields)


def _several() -> list[Mechanism]:
    return [
        _row(
            "attributes",
            "privagg.mechanisms.attributes:SampledAttributes",
            domain="many numbers, each of a range",
            guarantee=_PURE,
            adjacency="all numbers of one respondent replaced by any others",
            sampler=_WORDS,
            command="",
        ),
        _row(
            "exponential",
            "privagg.mechanisms.exponential:ExponentialMechanism",
            domain="candidates with utilities",
            guarantee="epsilon-differential privacy of the choice",
            adjacency="two inputs whose utilities differ by at most the sensitivity",
            sampler=_WORDS,
            command="",
        ),
        _row(
            "privset",
            "privagg.protocols.locational.privset:PrivSet",
            domain="sets of cells of a map",
            guarantee=_PURE,
            adjacency="one respondent's whole set replaced by any other",
            sampler=_WORDS,
            command="privagg simulate locational --mechanism privset",
        ),
        _row(
            "gaussian-one-hot",
            "privagg.protocols.locational.gaussian:OneHotGaussian",
            domain="cells of a map",
            guarantee="(epsilon, delta)-local differential privacy of one report",
            adjacency=_VALUE,
            sampler=_COUNTS,
            command="privagg simulate locational --mechanism gaussian",
        ),
    ]


def _places() -> list[Mechanism]:
    kinds = {"planar-laplace": "PlanarLaplace", "region-exponential": "RegionExponential"}
    return [
        _row(
            name,
            f"privagg.mechanisms.geo_mechanisms:{kind}",
            domain="cells or regions of a map",
            guarantee="geo-indistinguishability: epsilon per metre",
            adjacency="one respondent's place moved by a metre",
            sampler=_COUNTS,
            command=f"privagg simulate locational --notion geo --mechanism {name}",
        )
        for name, kind in kinds.items()
    ]


def _sums() -> list[Mechanism]:
    kinds = {
        "discrete-gaussian": ("distributed:DistributedNoise", "zero-out or replace", _SUMS),
        "skellam": ("distributed:DistributedNoise", "zero-out or replace", _SUMS),
        "poisson-binomial": (
            "poisson_binomial:PoissonBinomial",
            "zero-out",
            "exact: coins from 32-bit thresholds",
        ),
    }
    return [
        _row(
            name,
            f"privagg.mechanisms.{path}",
            described_by=f"privagg.mechanisms.{path}".partition(":")[0],
            domain="vectors of bounded L2 norm",
            guarantee="(epsilon, delta)-differential privacy of the sum over all rounds",
            adjacency=f"one client's vector: {adjacency}",
            sampler=sampler,
            command=f"privagg simulate secagg --epsilon 4 --noise {name}",
        )
        for name, (path, adjacency, sampler) in kinds.items()
    ]
