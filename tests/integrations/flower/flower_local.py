"""Flower without a network: apps are called in place, each message with the state it left behind.

The state of a node is taken apart and put together between messages, as in a new process.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from privagg import keys
from privagg.integrations.flower import Policy, Ranges, Roster, Settings, secagg_mod
from privagg.integrations.flower.setup import KEY
from privagg.protocols.secagg import messages

RANGES = Ranges(
    clip=1.0, max_weight=1000, metrics={"train_loss": 10.0}, evaluate_metrics={"accuracy": 1.0}
)
IDENTITIES = tuple(
    keys.Identity(hashlib.sha256(b"node %d" % number).digest()) for number in range(20)
)
ROSTER = Roster(identity.public for identity in IDENTITIES)

_KINDS = {
    kind.kind: kind.round
    for kind in (
        messages.Start,
        messages.GraphRequest,
        messages.GraphChallenge,
        messages.KeyRoster,
        messages.ShareBundle,
        messages.SignatureSet,
    )
}


def identity_of(context):
    return IDENTITIES[int(context.node_config["partition-id"])]


def settings(threat="active", **more):
    chosen = {
        "ranges": RANGES,
        "roster": None if threat == "semi-honest" else ROSTER,
        "threat": threat,
        "dropout": 0.34,
        "corrupt": 0.0,
        "min_cohort": 3,
        "deadline": 5.0,
        "training_deadline": 5.0,
    }
    return Settings(**(chosen | more))


def policy(threat="active", **more):
    roster = None if threat == "semi-honest" else ROSTER
    return Policy(**({"min_cohort": 3, "max_corrupt": 0, "roster": roster} | more))


def mod(threat="active", **more):
    chosen = {"ranges": RANGES, "policy": policy(threat), "threat": threat} | more
    if threat != "semi-honest":
        chosen.setdefault("identity", identity_of)
    return secagg_mod(**chosen)


def weight_of(number):
    return 10 * number + 5


def update_of(number, arrays, server_round):
    """What node `number` makes of the parameters: known to the tests, too."""
    rng = np.random.default_rng([number, server_round])
    return {
        name: np.asarray(array + rng.uniform(-0.5, 0.5, array.shape), array.dtype)
        for name, array in arrays.items()
    }


def loss_of(number, server_round):
    return 0.1 * number + server_round


def message_api_app(*mods, train=None):
    app = ClientApp(mods=list(mods))

    def default(message, context):
        number = int(context.node_config["partition-id"])
        server_round = message.content["config"]["server-round"]
        arrays = {k: a.numpy() for k, a in message.content["arrays"].items()}
        new = update_of(number, arrays, server_round)
        record = ArrayRecord({k: Array(a) for k, a in new.items()})
        metrics = MetricRecord(
            {"train_loss": loss_of(number, server_round), "num-examples": weight_of(number)}
        )
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    app.train()(default if train is None else train)

    @app.evaluate()
    def evaluate(message, context):
        number = int(context.node_config["partition-id"])
        metrics = MetricRecord({"accuracy": 0.05 * number, "num-examples": weight_of(number)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def initial_arrays():
    rng = np.random.default_rng(7)
    return {
        "weight": rng.normal(size=(5, 7)).astype(np.float32),
        "bias": rng.normal(size=7),
        "scale": np.array(0.5, np.float32),
    }


def record_of(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def stage_of(message: Message) -> str:
    """The protocol's round that a message of the server opens."""
    record = message.content.config_records.get(KEY)
    if record is None:
        return "plain"
    if "nonce" in record:
        return "enrol"
    kind = record["data"][1]
    if kind == messages.SurvivorSet.kind:
        return "survivors"
    return _KINDS[kind]


Hook = Callable[[int, str, Message], Message | None]


class LocalGrid(Grid):
    """Nodes 100, 101, ... in this process.

    ``before(number, stage, message)`` may replace a message on its way to a node, or lose it
    (None); ``after`` the same with the reply.
    """

    def __init__(self, app, nodes, *, before: Hook | None = None, after: Hook | None = None):
        with contextlib.suppress(ModuleNotFoundError):  # releases whose messages need none
            from flwr.supercore.task_identity import TaskIdentity

            # Flower's messages ask whose process they are made in.
            TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.app = app
        self.before, self.after = before, after
        self.contexts = {
            100 + number: Context(
                run_id=1,
                node_id=100 + number,
                node_config={"partition-id": number},
                state=RecordDict(),
                run_config={},
            )
            for number in range(nodes)
        }
        self.seen: list[tuple[int, str, Message, Message | None]] = []
        self._replies: dict[str, Message] = {}
        self._count = 0

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        return SimpleNamespace(run_id=1)

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            self._count += 1
            message.metadata.__dict__["_message_id"] = str(self._count)
            ids.append(str(self._count))
            reply = self._deliver(copy.deepcopy(message))
            if reply is not None:
                self._replies[reply.metadata.reply_to_message_id] = reply
        return ids

    def _deliver(self, message):
        node = message.metadata.dst_node_id
        number, stage = node - 100, stage_of(message)
        if self.before is not None:
            message = self.before(number, stage, message)
            if message is None:
                return None
        context = copy.deepcopy(self.contexts[node])
        reply = self.app(copy.deepcopy(message), context)
        self.contexts[node] = context
        if self.after is not None:
            reply = self.after(number, stage, reply)
        self.seen.append((number, stage, message, reply))
        return reply

    def pull_messages(self, message_ids):
        return [self._replies.pop(name) for name in list(message_ids) if name in self._replies]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


def lose(number, stage, *, reply=False):
    """A hook that loses what one node is sent, or answers, in one round and all later ones."""
    gone = set()

    def hook(who, at, message):
        if who == number and at == stage:
            gone.add(who)
        return None if who in gone else message

    return hook
