"""What the server runs. Under secure aggregation one line is another: the grid."""

from __future__ import annotations

from typing import Any

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from adult_secagg import task
from adult_secagg.client_app import RANGES, roster
from privagg.integrations.flower import SecAggGrid, Settings

__all__ = ["app", "federate", "server_app"]


def federate(grid: Grid, *, secure: bool, nodes: int, rounds: int) -> dict[str, Any]:
    """Train, and return the model, its accuracy after each round and what the nodes sent."""
    strategy = FedAvg(min_train_nodes=nodes, min_evaluate_nodes=nodes, min_available_nodes=nodes)
    used: Any = grid
    if secure:
        # One node may collude with the server: the clients' policy insists on it.
        settings = Settings(
            ranges=RANGES,
            roster=roster(),
            corrupt=1 / nodes,
            dropout=0.25,
            deadline=300.0,  # a simulation's first answers wait for its engine
        )
        used = SecAggGrid(grid, strategy, settings)
    start = ArrayRecord({name: Array(array) for name, array in task.initial().items()})
    accuracies: list[float] = []

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model = {name: array.numpy() for name, array in arrays.items()}
        accuracies.append(task.accuracy(model, task.held_out()))
        return MetricRecord({"accuracy": accuracies[-1]})

    result = strategy.start(used, start, num_rounds=rounds, evaluate_fn=evaluate)
    size = sum(len(array.data) for array in start.values())
    up, failures = float(size * rounds), [""]
    if secure:
        failures = [report.error or str(report.failures) for report in used.reports]
        trained = [report for report in used.reports if report.job == "train"]
        up = sum(sum(report.bytes_up.values()) / report.cohort for report in trained)
    return {
        "model": {name: array.numpy() for name, array in result.arrays.items()},
        "accuracy": accuracies,
        "on nodes": [
            float(metrics["accuracy"]) for metrics in result.evaluate_metrics_clientapp.values()
        ],
        "bytes up per node and round": up / rounds,
        "failures": [failure for failure in failures if failure.strip("{}")],
    }


def server_app(**choices: Any) -> tuple[ServerApp, dict[str, Any]]:
    """Return the app and a dict that holds what came out when it has run."""
    made, found = ServerApp(), {}

    @made.main()
    def main(grid: Grid, context: Context) -> None:
        found.update(federate(grid, **choices))

    return made, found


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run under ``flwr run``, with secure aggregation."""
    found = federate(
        grid,
        secure=True,
        nodes=int(context.run_config["nodes"]),
        rounds=int(context.run_config["rounds"]),
    )
    print("accuracy after each round:", *(f"{value:.4f}" for value in found["accuracy"]))
