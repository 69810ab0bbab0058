"""The kit of mechanisms: ours pass it, and a broken one fails the check that names its fault."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privagg.domain import Categorical, Floats
from privagg.entropy import OS
from privagg.errors import UsageError
from privagg.mechanisms import GRR, MECHANISMS, NumericMechanism, State, make
from privagg.protocols.locational.gaussian import OneHotGaussian
from privagg.protocols.locational.privset import PrivSet
from privagg.testing import MECHANISM_CHECKS, ConformanceError, check_mechanism

DOMAIN = Categorical(["a", "b", "c", "d"])
RANGE = Floats(-1, 1, steps=8)
SMALL = {"hashes": 8, "width": 16}
SKETCH = {"unbiased": "unbiased over hash functions, which are fixed", "intervals": "the same"}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_of_ours(name):
    numeric = issubclass(MECHANISMS[name], NumericMechanism)
    sketch = name in {"cms", "hcms"}
    found = check_mechanism(
        lambda domain, epsilon: make(name, domain, epsilon, **(SMALL if sketch else {})),
        RANGE if numeric else DOMAIN,
        1.0,
        runs=250,
        skip=SKETCH if sketch else {},
    )
    assert found.ok
    assert [one.name for one in found.checks] == list(MECHANISM_CHECKS)
    table = {"epsilon-exact", "channel"}
    assert {one.name for one in found.skipped} - set(SKETCH) in (set(), table)


@pytest.mark.parametrize("kind", [OneHotGaussian, PrivSet])
def test_mechanisms_of_statistics_by_region(kind):
    assert check_mechanism(kind, DOMAIN, 1.0, runs=200).ok


# Broken ones: each is generalised randomised response but for one fault.


class WrongTable(GRR):
    """States epsilon and draws at three times as much."""

    def __init__(self, domain, epsilon):
        super().__init__(domain, epsilon)
        self._drawn = GRR(domain, 3 * epsilon)

    def _randomize(self, codes, draws):
        return self._drawn._randomize(codes, draws)

    def probabilities(self):
        return self._drawn.probabilities()

    def _raw(self, state):
        return self._drawn._raw(state)

    def _variance(self, frequencies):
        return self._drawn._variance(frequencies)


class OtherTable(GRR):
    """Its table is of the same epsilon, and not that of what it draws."""

    def probabilities(self):
        rows = super().probabilities()
        return rows[1:] + rows[:1]


class Biased(GRR):
    def _raw(self, state):
        return super()._raw(state) + 0.04


class WrongVariance(GRR):
    def variance(self, n, frequency=0.0, *, population=False):
        found = super().variance(n, frequency, population=population)
        return found if np.ndim(frequency) else 1.5 * found


class Narrow(GRR):
    def estimate(self, state, *arguments, **options):
        found = super().estimate(state, *arguments, **options)
        middle, reach = (found.low + found.high) / 2, (found.high - found.low) / 2
        return replace(found, low=middle - 0.6 * reach, high=middle + 0.6 * reach)


class FirstWins(State):
    """Keeps the left state's digest order: adds the larger number of reports twice in sums."""

    def __add__(self, other):
        both = super().__add__(other)
        sums = both.sums.copy()
        if other.users > self.users:
            sums[0] += 1
        return FirstWins(both.digest, both.users, sums, both.insecure)


class Order(GRR):
    def aggregate(self, reports):
        found = super().aggregate(reports)
        return FirstWins(found.digest, found.users, found.sums, found.insecure)


class Anyone(State):
    def __add__(self, other):
        return State(
            self.digest,
            self.users + other.users,
            self.sums + other.sums,
            self.insecure or other.insecure,
        )


class Mixes(GRR):
    def aggregate(self, reports):
        found = super().aggregate(reports)
        return Anyone(found.digest, found.users, found.sums, found.insecure)


class Moves(State):
    def encode(self):
        sums = self.sums + np.array([1, -1, 0, 0])
        return State(self.digest, self.users, sums, self.insecure).encode()


class Lossy(GRR):
    """Saves other counts than it has."""

    def aggregate(self, reports):
        found = super().aggregate(reports)
        return Moves(found.digest, found.users, found.sums, found.insecure)


class Global(GRR):
    def randomize(self, values, entropy=OS):
        np.random.random()  # noqa: NPY002 - the fault
        return super().randomize(values, entropy)


class Fresh(GRR):
    """Draws from the system whatever entropy it is given, and says that it did not."""

    def randomize(self, values, entropy=OS):
        super().randomize(values[:1], entropy)
        return replace(super().randomize(values, OS), insecure=entropy.insecure)


class Clips(GRR):
    """Takes strangers for the first value."""

    def randomize(self, values, entropy=OS):
        held = [value if value in self.domain.labels else "a" for value in values]
        return super().randomize(held, entropy)


class Drops(GRR):
    def _randomize(self, codes, draws):
        (column,) = super()._randomize(codes, draws)
        return (column[:256],) if len(column) == 257 else (column,)


class Unmarked(GRR):
    def aggregate(self, reports):
        return replace(super().aggregate(reports), insecure=False)


class Sloppy(GRR):
    """Reads what follows the last report as if it were not there."""

    def decode_reports(self, data, **options):
        return super().decode_reports(data[: 46 + 20 * 2 // 8], **options)


class Shown(GRR):
    def aggregate(self, reports):
        found = super().aggregate(reports)
        return Loud(found.digest, found.users, found.sums, found.insecure)


class Loud(State):
    def __repr__(self):
        return f"State({self.sums.tolist()})"


class Silent(GRR):
    @property
    def guarantee(self):
        return "private"


def anything(domain, epsilon):
    return GRR(domain if isinstance(domain, Categorical) else DOMAIN, epsilon)


def any_epsilon(domain, epsilon):
    try:
        return GRR(domain, epsilon)
    except UsageError as error:
        if error.argument != "epsilon":
            raise
        return GRR(domain, 1.0)


class Same(GRR):
    """One digest whatever epsilon: reports of different ones would be added up."""

    @property
    def digest(self):
        return bytes(32)


FAULTS = {
    "bad-domain": anything,
    "bad-epsilon": any_epsilon,
    "out-of-domain": Clips,
    "report-shape": Drops,
    "guarantee": Silent,
    "channel": OtherTable,
    "unbiased": Biased,
    "variance": WrongVariance,
    "intervals": Narrow,
    "merge": Order,
    "merge-refused": Mixes,
    "save-load": Lossy,
    "encoding": Sloppy,
    "global-randomness": Global,
    "seeded-repeat": Fresh,
    "insecure-mark": Unmarked,
    "repr": Shown,
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_the_check_that_names_it(name):
    runs = 1000 if name in {"unbiased", "variance", "intervals"} else 200
    found = check_mechanism(FAULTS[name], DOMAIN, 1.0, runs=runs, raise_on_failure=False)
    assert [one.name for one in found.failed] == [name], found


def test_too_large_an_epsilon_is_found_by_enumeration_and_from_samples():
    found = check_mechanism(WrongTable, DOMAIN, 1.0, runs=200, raise_on_failure=False)
    assert [one.name for one in found.failed] == ["epsilon-exact", "epsilon-sampled"]
    assert "enumerated epsilon 3" in found["epsilon-exact"].evidence
    assert "Clopper-Pearson" in found["epsilon-sampled"].evidence


def test_one_digest_for_all_is_found_wherever_it_lets_states_mix():
    found = check_mechanism(Same, DOMAIN, 1.0, runs=200, raise_on_failure=False)
    assert [one.name for one in found.failed] == ["description", "merge-refused"]


def test_a_table_with_an_impossible_report_is_no_epsilon():
    class Impossible(GRR):
        def probabilities(self):
            rows = super().probabilities()
            rows[0][1] += rows[0][2]
            rows[0][2] = Fraction(0)
            return rows

    found = check_mechanism(Impossible, DOMAIN, 1.0, only=["epsilon-exact"], raise_on_failure=False)
    assert "impossible for one value" in found["epsilon-exact"].evidence


def test_failures_raise_and_are_listed():
    with pytest.raises(ConformanceError, match="unbiased: estimate") as caught:
        check_mechanism(Biased, DOMAIN, 1.0, only=["unbiased", "merge"])
    assert isinstance(caught.value, AssertionError)
    assert not caught.value.conformance.ok


def test_the_findings_are_a_report():
    found = check_mechanism(
        GRR(DOMAIN, 1.0), only=["merge", "repr"], skip={"repr": "shown elsewhere"}
    )
    report = found.report()
    assert report.data["ok"] is True
    assert [row["outcome"] for row in report.data["checks"]] == ["passed", "skipped"]
    assert report.tables[0].rows[1] == ("repr", "skipped", "shown elsewhere")
    assert '"subject":"grr (epsilon 1)"' in report.to_json()
    assert report.verdict == "1 passed, 0 failed, 1 skipped."
    assert "skip repr: shown elsewhere" in str(found)


@pytest.mark.parametrize(
    "options",
    [
        {"only": ["none"]},
        {"skip": {"none": "x"}},
        {"skip": {"merge": ""}},
        {"runs": 1},
        {"alpha": 0},
        {"values": ["a"]},
        {"variance_is": "near"},
        {"only": []},
        {"only": "merge"},
        {"skip": ["merge"]},
        {"seed": -1},
        {"seed": "1"},
        {"values": 3},
        {"values": [DOMAIN.labels[0]] * 2},
        {"values": [DOMAIN.labels[0], "none of it"]},
        {"epsilon": "1"},
        {"epsilon": True},
    ],
    ids=str,
)
def test_arguments_of_the_kit(options):
    with pytest.raises(UsageError):
        check_mechanism(GRR, DOMAIN, **({"epsilon": 1.0} | options))
    with pytest.raises(UsageError):
        check_mechanism(GRR)
    with pytest.raises(UsageError):
        check_mechanism(3, DOMAIN, 1.0)


@pytest.mark.parametrize("maker", [lambda *_: None, lambda *_: 1 // 0, lambda: GRR])
def test_what_makes_no_mechanism_is_the_callers_mistake(maker):
    with pytest.raises(UsageError, match="make"):
        check_mechanism(maker, DOMAIN, 1.0)
