"""One round of FedAvg under secure aggregation; what came out is left in a file."""

import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from deployed.client_app import POLICY, RANGES
from privagg.integrations.flower import SecAggGrid, Settings

app = ServerApp()


@app.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    settings = Settings(
        ranges=RANGES,
        roster=POLICY.roster,
        corrupt=0.0,
        dropout=0.34,
        deadline=60.0,
        training_deadline=20.0,
    )
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
    out = Path(str(context.run_config["out"]))
    part = out.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.rename(out)
