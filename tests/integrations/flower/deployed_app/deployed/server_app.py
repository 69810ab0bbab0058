"""One round of FedAvg under secure aggregation; what came out is left in a file."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from deployed.client_app import POLICY, RANGES
from privagg.integrations.flower import SecAggGrid, Settings, transport

app = ServerApp()

DEADLINE = 120.0
ANSWERS = 3 + 3 + 3 + 2
"""Of three nodes that say who they are, two rounds, and the two that train."""


def hurry(grid, killed):
    """Once only a node that was killed is waited for, let the rest of the deadline be over."""
    came, pull = [], grid.pull_messages

    def pull_messages(message_ids):
        replies = list(pull(message_ids))
        came.extend(reply.metadata.reply_to_message_id for reply in replies)
        return replies

    def monotonic():
        over = len(came) >= ANSWERS and killed.exists()
        return time.monotonic() + (DEADLINE if over else 0)

    grid.pull_messages = pull_messages
    transport.time = SimpleNamespace(sleep=time.sleep, monotonic=monotonic)


@app.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    settings = Settings(
        ranges=RANGES,
        roster=POLICY.roster,
        corrupt=0.0,
        dropout=0.34,
        deadline=60.0,
        training_deadline=DEADLINE,
    )
    out = Path(str(context.run_config["out"]))
    hurry(grid, out.with_name("killed"))
    secure = SecAggGrid(grid, strategy, settings)
    initial = ArrayRecord({"w": Array(np.linspace(-1, 1, 50, dtype=np.float32))})
    result = strategy.start(secure, initial, num_rounds=1)
    report = secure.reports[0]
    found = {
        "w": result.arrays["w"].numpy().tolist(),
        "loss": result.train_metrics_clientapp[1]["loss"],
        "count": report.count,
        "survivors": report.survivors,
        "failures": report.failures,
        "error": report.error,
    }
    part = out.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.rename(out)
