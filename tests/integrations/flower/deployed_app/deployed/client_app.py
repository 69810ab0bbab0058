"""Adds a number to each parameter; one node stalls instead, until it is killed."""

import os
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from privagg.integrations.flower import Policy, Ranges, Roster, secagg_mod

RANGES = Ranges(clip=1.0, max_weight=100, metrics={"loss": 10.0})
POLICY = Policy(min_cohort=2, max_corrupt=0, roster=Roster.load(os.environ["DEPLOYED_ROSTER"]))

app = ClientApp(mods=[secagg_mod(RANGES, POLICY)])


@app.train()
def train(message, context):
    number = int(context.node_config["number"])
    stall = str(context.node_config["stall"])
    if stall:
        Path(stall).touch()
        time.sleep(600)
    arrays = {k: Array(a.numpy() + 0.1 * number) for k, a in message.content["arrays"].items()}
    metrics = MetricRecord({"loss": 1.0 * number, "num-examples": 10 + number})
    return Message(
        RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message
    )
