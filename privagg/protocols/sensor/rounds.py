"""The whole simulation: place nodes, form the network, run epochs, compare with the truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privagg import entropy as entropies
from privagg._validate import whole
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.sensor import engines, keypool, network, sums
from privagg.protocols.sensor.air import Air, Ledger
from privagg.protocols.sensor.energy import Energy
from privagg.protocols.sensor.formation import HELLO_BYTES, STEPS, Alive, Formation, form
from privagg.protocols.sensor.params import Deployment, Keys, Params, Protocol, Radio, choice
from privagg.protocols.sensor.queries import Query, QueryKind, fixed_point
from privagg.protocols.sensor.recorder import Recorder
from privagg.protocols.sensor.result import Costs, Result, Step, paper_messages
from privagg.protocols.sensor.transcript import Transcript

__all__ = ["Deaths", "generated_readings", "run", "simulate"]

_Bools = NDArray[np.bool_]

Deaths = Mapping[int, str | tuple[int, str]]
"""Node -> the step before which it dies, in epoch 0, or (epoch, step)."""

_PAIRS_AT_ONCE = 2_000_000

_OFF = 1e-6
"""A reading off its step by more counts as rounded; a decimal's own error is less."""

_Kind = TypeVar("_Kind")


def simulate(
    deployment: Deployment,
    *,
    protocol: Protocol | str = Protocol.CPDA_FIELD,
    readings: Any = None,
    query: Query | str | None = None,
    scale: int = 1,
    bound: int | None = None,
    epochs: int = 1,
    radio: Radio | None = None,
    energy: Energy | None = None,
    deaths: Deaths | None = None,
    engine: str = "arrays",
    allow_insecure: bool = False,
    transcript: bool = False,
    **changes: Any,
) -> Result:
    """Run a protocol on a sensor network and compare what came in with the truth.

    Everything is repeatable with ``deployment.seed``, and then **insecure**. The same seed gives
    the same places and readings to every protocol, so that they can be compared.

    Parameters
    ----------
    deployment : Deployment
        Where the nodes are, who leads, who forwards the query.
    protocol : Protocol
        Which one. ``cpda-field`` is the one to use: any cluster of three or more, secure against
        ``corrupt`` members whatever they do.
    readings : (nodes,) or (epochs, nodes) array, optional
        What the nodes measure; whole numbers from 0 to 100, drawn uniformly, if not given.
    query : Query or str, optional
        What is asked; the sum if not given.
    scale : int
        Fixed-point steps per unit. What lies between two is rounded, and counted in ``rounded``.
    bound : int, optional
        Largest absolute reading in steps; the largest there is if not given.
    epochs : int
        How many. The network is formed once, and anew before and after an epoch with deaths.
    radio : Radio, optional
        Losses, retries, frames.
    energy : Energy, optional
        Model, and what is counted.
    deaths : mapping, optional
        Node -> step before which it dies, or (epoch, step); see :data:`STEPS`.
    engine : {"arrays", "parties"}
        ``arrays`` computes all clusters at once and encrypts nothing; ``parties`` lets every node
        do its own work with real keys, message by message, and checks that both agree.
    allow_insecure : bool
        Needed for ``cpda``, ``cpda-sen-efficient`` and ``cpda-sen-checked``, which are broken.
    transcript : bool
        Keep who sent what to whom: ``result.transcript``. Takes an object a message.
    changes
        Other fields of :class:`Params`: ``corrupt``, ``drops``, ``slices``, ``arithmetic``, ...

    Raises
    ------
    UsageError
        If an argument is out of its range, or a broken protocol is not allowed.
    CapacityError
        If a sum could wrap around the field.
    """
    _is_a("deployment", deployment, Deployment)
    radio = Radio() if radio is None else _is_a("radio", radio, Radio)
    energy = Energy() if energy is None else _is_a("energy", energy, Energy)
    asked = (
        query
        if isinstance(query, Query)
        else Query(kind=QueryKind.SUM if query is None else choice("query", query, QueryKind))
    )
    name = _allowed(protocol, allow_insecure)
    epochs = whole("epochs", epochs, 1, 10**7)
    if asked.bisects and epochs != 1:
        raise UsageError("epochs", epochs, f"1 with the query {asked.kind}, which takes its own")
    source = entropies.from_seed(deployment.seed).spawn("sensor")
    if readings is None:
        readings = generated_readings(deployment, epochs)
    steps, limit = fixed_point(readings, scale, bound)
    off = np.abs(np.asarray(readings, np.float64) * scale - steps)
    rounded = int(np.count_nonzero(off > _OFF))
    steps = _by_epoch(steps, deployment.nodes, epochs)
    _known(changes)
    params = Params.recommend(
        name,
        nodes=deployment.nodes,
        bound=asked.number_bound(limit),
        width=asked.width,
        **changes,
    )
    if not isinstance(transcript, bool):
        raise UsageError("transcript", transcript, "True or False")
    run = _Run(deployment, params, radio, source, engine, transcript)
    plan = _plan_deaths({} if deaths is None else deaths, deployment.nodes, epochs)
    found: list[Step] = []
    if asked.bisects:
        answer, found = run.bisect(steps, asked, limit, plan, scale)
        extreme = steps.max() if asked.kind is QueryKind.MAX else steps.min()
        answers, truths = [answer], [int(extreme) / scale]
    else:
        numbers = asked.numbers(steps, scale)
        exact = (
            np.asarray(readings, np.float64)
            if name is Protocol.CPDA
            and (params.arithmetic == "real" and asked.kind is QueryKind.SUM)
            else None
        )
        run.all(numbers, exact, scale, plan)
        answers = [
            None if total is None else asked.answer(total, count, scale)
            for total, count in zip(run.totals, run.counts, strict=True)
        ]
        truths = [
            asked.answer([int(v) for v in row], deployment.nodes, scale)
            for row in numbers.astype(object).sum(axis=1)
        ]
    unit = scale if asked.kind in (QueryKind.SUM, QueryKind.MEAN, QueryKind.VARIANCE) else 1
    assert run.formation is not None
    return Result(
        params=params,
        deployment=deployment,
        radio=run.radio,
        energy=energy,
        query=asked,
        scale=scale,
        rounded=rounded,
        formation=run.formation,
        formations=run.formations,
        sums=[None if total is None else total[0] / unit for total in run.totals],
        true_sums=[int(total) / unit for total in run.true_totals],
        answers=answers,
        true_answers=truths,
        counts=run.counts,
        covered=np.concatenate(run.covered),
        mean_degree=run.network.mean_degree,
        costs=Costs.of(
            run.forming, run.running, run.formations, 1 if asked.bisects else len(run.counts)
        ),
        messages=paper_messages(run.formation, params, run.tries, max(1, len(found))),
        bisection=found,
        key_statistics=run.key_statistics(),
        engine=engine,
        insecure_seed=source.insecure,
        transcript=run.transcript(),
    )


run = simulate
"""The name of the driver in every package of protocols."""


def generated_readings(deployment: Deployment, epochs: int = 1) -> NDArray[np.int64]:
    """Return whole numbers from 0 to 100, uniform, (epochs, nodes): readings to try things on.

    Parameters
    ----------
    deployment : Deployment
        The network.
    epochs : int
        How many rows.
    """
    source = entropies.from_seed(deployment.seed).spawn("sensor").spawn("readings")
    return _generator(source).integers(0, 101, (epochs, deployment.nodes))


def _generator(source: Entropy) -> np.random.Generator:
    """Return a generator of what is no secret: places, losses, readings to try things on."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(source.take(16), "little")))


def _is_a(name: str, value: Any, kind: type[_Kind]) -> _Kind:
    if not isinstance(value, kind):
        raise UsageError(name, type(value).__name__, f"sensor.{kind.__name__}")
    return value


def _known(changes: Mapping[str, Any]) -> None:
    """Require fields of Params that this call does not fill in itself."""
    fields = {field.name for field in dataclasses.fields(Params)} - {"protocol", "nodes", "width"}
    for name in changes:
        if name not in fields:
            raise UsageError("changes", name, f"one of {', '.join(sorted(fields - {'bound'}))}")


def _allowed(protocol: Protocol | str, allow_insecure: bool) -> Protocol:
    if not isinstance(allow_insecure, bool):
        raise UsageError("allow_insecure", allow_insecure, "True or False")
    try:
        name = Protocol(protocol)
    except ValueError:
        raise UsageError("protocol", protocol, f"one of {', '.join(Protocol)}") from None
    if name.broken and not allow_insecure:
        raise UsageError(
            "protocol",
            str(name),
            "a protocol that holds, such as cpda-field",
            "This one gives its leader every reading; allow_insecure=True runs it all the same.",
        )
    return name


def _by_epoch(steps: NDArray[np.int64], nodes: int, epochs: int) -> NDArray[np.int64]:
    if steps.shape == (nodes,):
        return np.broadcast_to(steps, (epochs, nodes))
    if steps.shape != (epochs, nodes):
        raise UsageError("readings", f"shape {steps.shape}", f"({nodes},) or ({epochs}, {nodes})")
    return steps


def _plan_deaths(deaths: Deaths, nodes: int, epochs: int) -> dict[int, dict[int, str]]:
    """Return by epoch who dies before which step."""
    plan: dict[int, dict[int, str]] = {}
    if not isinstance(deaths, Mapping):
        raise UsageError("deaths", type(deaths).__name__, "a mapping of nodes to (epoch, step)")
    for node, when in deaths.items():
        pair = (0, when) if isinstance(when, str) else when
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise UsageError("deaths", type(when).__name__, "a step, or (epoch, step)")
        epoch, step = pair
        whole("deaths", node, 0, nodes - 1)
        whole("deaths", epoch, 0, epochs - 1)
        if step not in STEPS:
            raise UsageError("deaths", step, f"one of {', '.join(STEPS)}")
        plan.setdefault(int(epoch), {})[int(node)] = step
    return plan


class _Run:
    """What a simulation carries from one epoch to the next."""

    def __init__(
        self,
        deployment: Deployment,
        params: Params,
        radio: Radio,
        source: Entropy,
        engine: str,
        transcript: bool,
    ) -> None:
        if engine not in ("arrays", "parties"):
            raise UsageError("engine", engine, "'arrays' or 'parties'")
        if engine == "parties":
            engines.check(params)
        self.deployment, self.params, self.radio, self.source = deployment, params, radio, source
        self.engine = engine
        self.recorder = Recorder(params) if transcript else None
        self.network = network.build(deployment, _generator(source.spawn("places")))
        self.air = Air(radio, _generator(source.spawn("air")))
        self.secrets = source.spawn("secrets")
        self.forming, self.running = Ledger(self.network, radio), Ledger(self.network, radio)
        self.formations = 0
        self.formation: Formation | None = None
        self.dead: set[int] = set()
        self.totals: list[list[Any] | None] = []
        self.true_totals: list[int] = []
        self.counts: list[int] = []
        self.covered: list[_Bools] = []
        self.tries: NDArray[np.float64] | None = None
        self.cast: tuple[Formation, Any] | None = None
        self.pool = keypool.draw(deployment.nodes, source) if params.keys is Keys.POOL else None

    def form(self, deaths: Mapping[int, str]) -> Formation:
        """Form the network of those that are left, of whom some die on the way."""
        present = np.ones(self.network.nodes + 1, np.bool_)
        present[list(self.dead)] = False
        alive = Alive.of(present, deaths)
        self.formation = form(
            self.network, self.deployment, self.params, alive, self.air, self.forming
        )
        self.formations += 1
        if self.recorder is not None:
            self.recorder.formed(self.formation, len(self.counts))
        self.dead |= set(deaths)
        return self.formation

    def all(
        self,
        numbers: NDArray[np.int64],
        exact: NDArray[np.float64] | None,
        scale: int,
        plan: Mapping[int, Mapping[int, str]],
    ) -> None:
        """Run all epochs, those without deaths many at once."""
        epochs = len(numbers)
        at, formed = 0, False
        while at < epochs:
            if at in plan:
                formation, stop = self.form(plan[at]), at + 1
                formed = False
            else:
                formation = self.formation if formed and self.formation else self.form({})
                formed = True
                following = [epoch for epoch in plan if epoch > at]
                room = max(1, _PAIRS_AT_ONCE // self._size(formation))
                stop = min([epochs, at + room, *following])
            part = numbers[at:stop]
            real = None
            if exact is not None:
                wide = exact if exact.ndim == 2 else np.broadcast_to(exact, (epochs, len(exact)))
                real = wide[at:stop, :, None] * scale
            self.batch(part, part if real is None else real, formation)
            at = stop

    def _size(self, formation: Formation) -> int:
        pairs = len(formation.pair.origin) * self.params.width
        return max(1, pairs + formation.network.nodes)

    def batch(self, numbers: NDArray[np.int64], exact: NDArray[Any], formation: Formation) -> None:
        """Run some epochs and keep what came of them."""
        made = sums.run(
            numbers,
            exact,
            formation,
            self.params,
            self.air,
            self.running,
            self.secrets,
            record=self.engine == "parties" or self.recorder is not None,
        )
        if self.engine == "parties":
            if self.cast is None or self.cast[0] is not formation:
                cast = engines.cast(formation, self.params, self.secrets, self.pool)
                self.cast = (formation, cast)
            for epoch in range(len(numbers)):
                self.cast[1].run(made, epoch, len(self.counts) + epoch, exact[epoch])
        if self.recorder is not None:
            for epoch in range(len(numbers)):
                self.recorder.ran(made, epoch, len(self.counts) + epoch, formation)
        self.totals += [None if row[0] is None else list(row) for row in made.totals]
        self.true_totals += [int(total) for total in numbers[..., 0].astype(object).sum(axis=1)]
        self.counts += [int(count) for count in made.covered.sum(axis=1)]
        self.covered.append(made.covered)
        if made.tried is not None and made.tried.seeds.size:
            self.tries = np.array([made.tried.seeds.mean(), made.tried.shares.mean()])

    def bisect(
        self,
        steps: NDArray[np.int64],
        query: Query,
        bound: int,
        plan: Mapping[int, Mapping[int, str]],
        scale: int,
    ) -> tuple[float | None, list[Step]]:
        """Find the maximum (minimum) by counting readings at or above (at or below) a threshold."""
        sign = 1 if query.kind is QueryKind.MAX else -1
        values = sign * steps
        formation = self.form(plan.get(0, {}))
        low, high = -bound - 1, bound
        found: list[Step] = []
        lost = False
        while low < high:
            middle = (low + high + 1) // 2
            if found:
                self.tell(formation)
            numbers = np.asarray(values >= middle, np.int64)[..., None]
            self.batch(numbers, numbers, formation)
            total = self.totals[-1]
            count = None if total is None else int(total[0])
            found.append(Step(sign * middle / scale, count, self.true_totals[-1], self.counts[-1]))
            lost = lost or count is None
            low, high = (middle, high) if count else (low, middle - 1)
        # A step that was not decoded may have sent the search either way.
        if high == -bound - 1 or lost:
            return None, found
        return sign * high / scale, found

    def tell(self, formation: Formation) -> None:
        """Count what it takes to tell another threshold: all who forwarded the query do it again.

        Nothing is lost here: who heard the query hears the thresholds.
        """
        nodes = np.flatnonzero(formation.clusters.sent_hello)
        air = HELLO_BYTES + self.radio.overhead
        self.running.send("threshold", nodes, np.ones(len(nodes)), np.full(len(nodes), air), 1.0)
        _, receivers = self.network.around(nodes)
        self.running.receive("threshold", receivers, np.full(len(receivers), air))

    def transcript(self) -> Transcript | None:
        """Return what was sent, if that was asked for."""
        if self.recorder is None:
            return None
        return Transcript(
            params=self.params,
            base_station=self.network.base_station,
            epochs=len(self.counts),
            acknowledged=self.radio.retries > 0,
            insecure_seed=self.source.insecure,
            entries=tuple(self.recorder.entries),
        )

    def key_statistics(self) -> dict[str, float]:
        """Return how many links are overheard, where keys come from a pool."""
        if self.pool is None or self.formation is None:
            return {}
        return keypool.statistics(self.pool, self.formation)
