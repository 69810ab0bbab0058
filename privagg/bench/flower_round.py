"""``privagg bench flower``: one round of Flower's legacy model, by our workflow and by its own.

Both are run whole, in one process and in turn, on the same job: clients that return given
parameters at once, the same weights, one node lost while it trains. CPU seconds are those of all
nodes and the server together; bytes are those that Flower counts in the nodes' replies.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg import keys
from privagg.bench.flower import require
from privagg.bench.rows import Step, sizes
from privagg.errors import UsageError
from privagg.protocols.secagg import Policy, Roster
from privagg.report import Column, Report, Table

__all__ = ["bench"]

_MAX_WEIGHT = 1000
_CLIP, _MAGNITUDE = 1.0, 0.5
"""Updates are uniform within half the clip."""

_VALUE_BITS = 16
_CORRUPT = 0.1
_FLOWER = "flwr SecAgg+"


@dataclass(frozen=True)
class _Outcome:
    """What one round cost and gave."""

    seconds: float
    bytes_up: int
    error: float


def bench(
    *,
    nodes: int = 20,
    dim: int = 100_000,
    dropped: int = 2,
    repeats: int = 3,
    step: Step = lambda phase, done, total: None,
) -> Report:
    """Run the same Flower round under both protocols and return what each cost.

    Parameters
    ----------
    nodes : int
        Nodes of the round; each shares its secrets with all others.
    dim : int
        Parameters of the model, float32.
    dropped : int
        Nodes lost while they train.
    repeats : int
        Repetitions, in turn, whose median is shown.
    step : callable
        Progress: phase, done, total.

    Returns
    -------
    Report
        Tables, pictures and the figures.

    Raises
    ------
    UsageError
        If Flower is not installed, or a number is out of its range.
    """
    require()
    sizes(nodes=nodes, dim=dim, repeats=repeats)
    if isinstance(dropped, bool) or not isinstance(dropped, int) or not 0 <= dropped < nodes:
        raise UsageError("dropped", dropped, f"a whole number from 0 to {nodes - 1}")
    job = _Job(nodes, dim, dropped)
    contestants: dict[str, Callable[[], _Outcome]] = {
        "privagg, active": lambda: job.ours("active"),
        "privagg, semi-honest": lambda: job.ours("semi-honest"),
        _FLOWER: job.theirs,
    }
    for run in list(contestants.values())[:2]:
        run()  # kernels are compiled, or read from their cache
    found: dict[str, list[_Outcome]] = {name: [] for name in contestants}
    for turn in range(repeats):
        for place, (name, run) in enumerate(contestants.items()):
            step("rounds", turn * len(contestants) + place, repeats * len(contestants))
            found[name].append(run())
    step("rounds", repeats * len(contestants), repeats * len(contestants))
    return _report(job, found)


def _report(job: _Job, found: dict[str, list[_Outcome]]) -> Report:
    rows: list[dict[str, Any]] = []
    for name, outcomes in found.items():
        seconds = sorted(outcome.seconds for outcome in outcomes)
        rows.append(
            {
                "who": name,
                "seconds": float(np.median(seconds)),
                "seconds_low": seconds[0],
                "seconds_high": seconds[-1],
                "bytes_up_per_node": max(o.bytes_up for o in outcomes) / job.nodes,
                "max_error": max(outcome.error for outcome in outcomes),
            }
        )
    theirs = rows[-1]
    columns: list[Column | str] = [
        "",
        Column("CPU, all parties", "s"),
        Column("up per node", "B"),
        "largest error of the mean",
        f"CPU of {_FLOWER}",
        f"bytes of {_FLOWER}",
    ]
    table = Table(
        title=f"{job.nodes} nodes, {job.dim:,} parameters, {job.dropped} lost in training",
        columns=columns,
        rows=[
            [
                row["who"],
                row["seconds"],
                row["bytes_up_per_node"],
                f"{row['max_error']:.1e}",
                f"{theirs['seconds'] / row['seconds']:.1f}x",
                f"{theirs['bytes_up_per_node'] / row['bytes_up_per_node']:.2f}x",
            ]
            for row in rows
        ],
    )
    return Report(
        title="One round in Flower",
        data={
            "nodes": job.nodes,
            "dim": job.dim,
            "dropped": job.dropped,
            "threshold": job.threshold,
            "rows": rows,
        },
        tables=[table],
        notes=[
            "CPU seconds of the process, nodes and server together; both run in one process, "
            "without a network.",
            f"Ours: updates within {_CLIP:g}, {_VALUE_BITS} bits; theirs: parameters within 8, 22 "
            f"bits. Weights up to {_MAX_WEIGHT} for both; any {job.threshold} nodes rebuild a "
            "secret.",
            "SecAgg+ trusts the server to follow the protocol, as our semi-honest rounds do.",
        ],
    )


class _Job:
    """The job that all contestants do: one fit round, and its nodes' parameters."""

    def __init__(self, nodes: int, dim: int, dropped: int) -> None:
        from privagg.integrations.flower import Ranges, Settings

        self.nodes, self.dim, self.dropped = nodes, dim, dropped
        rng = np.random.default_rng(1)
        self.start = rng.normal(size=dim).astype(np.float32)
        self.updates = [
            rng.uniform(-_MAGNITUDE, _MAGNITUDE, dim).astype(np.float32) for _ in range(nodes)
        ]
        self.weights = [100 + 700 * node // nodes for node in range(nodes)]
        self.identities = [keys.Identity.generate() for _ in range(nodes)]
        self.roster = Roster(identity.public for identity in self.identities)
        self.ranges = Ranges(clip=_CLIP, max_weight=_MAX_WEIGHT)
        self.settings = {
            threat: Settings(
                ranges=self.ranges,
                roster=self.roster if threat == "active" else None,
                threat=threat,
                corrupt=_CORRUPT,
                dropout=dropped / nodes,
                value_bits=_VALUE_BITS,
                deadline=0.01,  # who is lost is known at once in one process
                training_deadline=0.01,
                on_abort="raise",
            )
            for threat in ("active", "semi-honest")
        }
        self.threshold = self.settings["semi-honest"].params(nodes, dim).threshold

    def ours(self, threat: str) -> _Outcome:
        """Run the round by this package's mod and workflow."""
        from privagg.integrations.flower import SecAggWorkflow, secagg_mod

        params = self.settings[threat].params(self.nodes, self.dim)
        policy = Policy(
            min_cohort=params.min_cohort,
            max_corrupt=params.corrupt,
            roster=self.roster if threat == "active" else None,
        )
        mod = secagg_mod(self.ranges, policy, identity=self._identity, threat=threat)
        return self._run(mod, SecAggWorkflow(self.settings[threat]))

    def theirs(self) -> _Outcome:
        """Run it by Flower's."""
        from flwr.client.mod import secaggplus_mod
        from flwr.server.workflow import SecAggPlusWorkflow

        workflow = SecAggPlusWorkflow(1.0, self.threshold / self.nodes, max_weight=_MAX_WEIGHT)
        return self._run(secaggplus_mod, workflow)

    def _identity(self, context: Any) -> keys.Identity:
        return self.identities[int(context.node_config["partition-id"])]

    def _run(self, mod: Any, workflow: Any) -> _Outcome:
        from flwr.app import Context, RecordDict
        from flwr.common import ndarrays_to_parameters
        from flwr.server import LegacyContext, ServerConfig
        from flwr.server.strategy import FedAvg
        from flwr.server.workflow import DefaultWorkflow

        grid = _grid_of(self, mod)
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_fit_clients=self.nodes,
            min_available_clients=self.nodes,
            initial_parameters=ndarrays_to_parameters([self.start]),
        )
        empty = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
        context = LegacyContext(empty, config=ServerConfig(num_rounds=1), strategy=strategy)
        seconds = []

        def fit(grid: Any, context: Any) -> None:
            began = time.process_time()
            workflow(grid, context)
            seconds.append(time.process_time() - began)

        with _quiet():
            DefaultWorkflow(fit, lambda grid, context: None)(grid, context)
        (record,) = context.state.array_records.values()
        (after,) = (array.numpy() for array in record.values())
        return _Outcome(seconds[0], grid.bytes_up, float(np.abs(after - self._mean()).max()))

    def _mean(self) -> NDArray[np.float64]:
        """Return the plain weighted mean over the nodes that stay."""
        total = np.zeros(self.dim)
        stayed = range(self.dropped, self.nodes)
        for node in stayed:
            total += self.weights[node] * (self.start + self.updates[node]).astype(np.float64)
        return total / sum(self.weights[node] for node in stayed)


def _grid_of(job: _Job, mod: Any) -> Any:
    """Return a grid of nodes in this process: each message is answered as it is pushed."""
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.client import NumPyClient
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

    class Node(NumPyClient):
        def __init__(self, node: int) -> None:
            self.node = node

        def fit(self, parameters: Any, config: Any) -> Any:
            return [parameters[0] + job.updates[self.node]], job.weights[self.node], {}

    def client_fn(context: Context) -> Any:
        return Node(int(context.node_config["partition-id"])).to_client()

    class InProcess(Grid):
        def __init__(self) -> None:
            self.app = ClientApp(client_fn, mods=[mod])
            self.contexts = {
                100 + node: Context(
                    run_id=1,
                    node_id=100 + node,
                    node_config={"partition-id": node},
                    state=RecordDict(),
                    run_config={},
                )
                for node in range(job.nodes)
            }
            self.bytes_up = 0
            self.count = 0
            self.replies: dict[str, Message] = {}

        def set_run(self, run: Any) -> None:
            raise NotImplementedError

        @property
        def run(self) -> Any:
            return SimpleNamespace(run_id=1)

        def create_message(self, *arguments: Any, **named: Any) -> Message:
            return Message(*arguments, **named)

        def get_node_ids(self) -> Iterable[int]:
            return list(self.contexts)

        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            return [self._deliver(message) for message in messages]

        def _deliver(self, message: Message) -> str:
            self.count += 1
            name = message.metadata.__dict__["_message_id"] = str(self.count)
            node = message.metadata.dst_node_id
            # In both protocols the model comes in the round in which nodes train.
            if message.content.array_records and node < 100 + job.dropped:
                return name
            # Nodes have content of their own, as behind a network: mods change it.
            message.content = RecordDict(
                {
                    key: ConfigRecord(dict(record.items()))
                    if isinstance(record, ConfigRecord)
                    else record
                    for key, record in message.content.items()
                }
            )
            reply = self.app(message, self.contexts[node])
            if reply.has_content():
                self.bytes_up += sum(record.count_bytes() for record in reply.content.values())
            self.replies[name] = reply
            return name

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            return [self.replies.pop(name) for name in list(message_ids) if name in self.replies]

        def send_and_receive(
            self, messages: Iterable[Message], *, timeout: float | None = None
        ) -> Iterable[Message]:
            return self.pull_messages(self.push_messages(messages))

    try:
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    except ModuleNotFoundError:  # releases whose messages need none
        pass
    return InProcess()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the loggers' words on rounds and lost nodes out of what is shown."""
    loggers = [logging.getLogger(name) for name in ("flwr", "privagg.integrations.flower")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
