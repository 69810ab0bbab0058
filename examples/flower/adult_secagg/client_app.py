"""What a node runs. Under secure aggregation one line is another: the mod."""

from __future__ import annotations

import os
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from adult_secagg import task
from privagg import keyfiles
from privagg.integrations.flower import Policy, Ranges, Roster, secagg_mod

__all__ = ["RANGES", "app", "client_app", "roster"]

RANGES = Ranges(
    clip=1.0,
    max_weight=20_000,
    metrics={"train_loss": 10.0},
    evaluate_metrics={"accuracy": 1.0},
)


def keys_folder() -> Path:
    """Return where the roster is, and in a simulation the identities of all nodes."""
    return Path(os.environ.get("ADULT_SECAGG_KEYS", "keys"))


def roster() -> Roster:
    """Return the identities of all nodes."""
    return Roster.load(keys_folder() / "roster.json")


def identity(context: Context):
    """Return this node's identity: in a deployment from the file that its configuration names."""
    path = context.node_config.get("privagg-identity")
    name = f"{context.node_config['partition-id']}.key"
    return keyfiles.read_identity(keys_folder() / name if path is None else str(path))


def client_app(*, secure: bool = True) -> ClientApp:
    """Return the app, with secure aggregation or without."""
    mods = []
    if secure:
        policy = Policy(min_cohort=4, max_corrupt=1, roster=roster())
        mods = [secagg_mod(RANGES, policy, identity=identity)]
    made = ClientApp(mods=mods)

    @made.train()
    def train(message: Message, context: Context) -> Message:
        data = _data(context)
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        new, loss = task.train(model, data)
        arrays = ArrayRecord({name: Array(array) for name, array in new.items()})
        metrics = MetricRecord({"train_loss": loss, "num-examples": len(data[1])})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @made.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        data = _data(context)
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        metrics = MetricRecord(
            {"accuracy": task.accuracy(model, data), "num-examples": len(data[1])}
        )
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return made


def _data(context: Context) -> task.Shard:
    node, nodes = context.node_config["partition-id"], context.node_config["num-partitions"]
    return task.shard(int(node), int(nodes))


app = client_app()
"""What Flower asks for; the roster has to be there."""
