"""What must not happen: other models, other ranges, peeking, texts of errors that leave a node."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra 'flower' is not installed")

import flower_local as local
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from privagg.errors import Abort, UsageError
from privagg.integrations.flower import (
    Ranges,
    SecAggGrid,
)
from privagg.integrations.flower.setup import KEY

SECRET = "4711.0815"


def strategy(**more):
    return FedAvg(**({"fraction_evaluate": 0.0} | more))


def start(inner, settings=None, chosen=None, rounds=1):
    chosen = strategy() if chosen is None else chosen
    grid = SecAggGrid(inner, chosen, local.settings() if settings is None else settings)
    result = chosen.start(grid, local.record_of(local.initial_arrays()), num_rounds=rounds)
    return grid, result


def replying(*, arrays=None, metrics=None, config=None):
    """An app whose node 1 answers something else."""

    def train(message, context):
        number = int(context.node_config["partition-id"])
        given = {k: a.numpy() for k, a in message.content["arrays"].items()}
        new = local.record_of(local.update_of(number, given, 1))
        values = {"train_loss": 1.0, "num-examples": 10}
        if number == 1 and arrays is not None:
            new = arrays(new)
        if number == 1 and metrics is not None:
            values |= metrics
        records = {"arrays": new, "metrics": MetricRecord(values)}
        if number == 1 and config is not None:
            records["config"] = ConfigRecord(config)
        return Message(RecordDict(records), reply_to=message)

    return train


def changed(name, value):
    def change(record):
        arrays = {key: array.numpy().copy() for key, array in record.items()}
        arrays[name].flat[0] = value
        return local.record_of(arrays)

    return change


def renamed(record):
    return ArrayRecord({key + "_": array for key, array in record.items()})


def shorter(record):
    arrays = {key: array.numpy() for key, array in record.items()}
    arrays["bias"] = arrays["bias"][:-1]
    return local.record_of(arrays)


@pytest.mark.parametrize(
    "wrong",
    [
        {"arrays": changed("weight", 9.0)},
        {"arrays": changed("weight", np.nan)},
        {"arrays": changed("bias", np.inf)},
        {"arrays": renamed},
        {"arrays": shorter},
        {"metrics": {"num-examples": 1001}},
        {"metrics": {"num-examples": -1}},
        {"metrics": {"num-examples": 0.5}},
        {"metrics": {"train_loss": 10.5}},
        {"metrics": {"undeclared": 0.5}},
        {"config": {"note": SECRET}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_does_not_fit_is_never_sent(wrong):
    inner = local.LocalGrid(local.message_api_app(local.mod(), train=replying(**wrong)), 5)
    grid, _ = start(inner, local.settings(training_deadline=0.2))
    (report,) = grid.reports
    assert report.count == 4
    assert report.failures == {"privagg: this node's own input or configuration does not fit": 1}
    (reply,) = [
        reply for number, at, _, reply in inner.seen if number == 1 and at == "masked-input"
    ]
    assert not reply.has_content()
    assert KEY not in inner.contexts[101].state


def test_clipping_has_to_be_said_and_is_counted_on_the_node(caplog):
    train = replying(arrays=changed("weight", 9.0))
    app = local.message_api_app(local.mod(out_of_range="clip"), train=train)
    with caplog.at_level(logging.WARNING, "privagg.integrations.flower"):
        grid, _ = start(local.LocalGrid(app, 4))
    assert grid.reports[0].count == 4
    assert "1 of 44 coordinates were clipped" in caplog.text


def test_texts_of_errors_stay_on_the_node():
    def train(message, context):
        raise RuntimeError(SECRET)

    inner = local.LocalGrid(local.message_api_app(local.mod(), train=train), 4)
    grid, _ = start(inner)
    errors = [reply.error for *_, reply in inner.seen if reply.has_error()]
    assert {error.reason for error in errors} == {"privagg: the client's own code failed"}
    assert SECRET not in str(grid.reports)
    assert "left" in grid.reports[0].error


@pytest.mark.parametrize("threat", ["active", "semi-honest"])
def test_a_node_shown_another_model_makes_the_round_fail(threat):
    """The server singles one node out: its masks do not cancel, and the sum is noise."""

    def before(number, stage, message):
        if number == 2 and stage == "masked-input":
            arrays = {k: a.numpy().copy() for k, a in message.content["arrays"].items()}
            arrays["weight"] = np.zeros_like(arrays["weight"])
            message.content["arrays"] = local.record_of(arrays)
        return message

    inner = local.LocalGrid(local.message_api_app(local.mod(threat)), 5, before=before)
    grid, result = start(inner, local.settings(threat))
    assert grid.reports[0].count == 0
    assert grid.reports[0].error
    assert len(result.arrays) == 0


def test_a_configuration_of_ones_own_counts_as_another_model():
    def before(number, stage, message):
        if number == 2 and stage == "masked-input":
            message.content["config"]["lr"] = 0.0
        return message

    inner = local.LocalGrid(local.message_api_app(local.mod()), 5, before=before)
    grid, _ = start(inner)
    assert grid.reports[0].error


@pytest.mark.parametrize("part", ["_message_type", "_group_id"])
def test_another_function_or_group_counts_as_another_model(part):
    """The app has two training functions; the server asks one node for the other one's update."""

    def before(number, stage, message):
        if number == 2:
            metadata = message.metadata.__dict__
            metadata[part] = "train.other" if part == "_message_type" else "7"
        return message

    app = local.message_api_app(local.mod())

    @app.train("other")
    def other(message, context):
        metrics = MetricRecord({"train_loss": 1.0, "num-examples": 10})
        content = RecordDict({"arrays": message.content["arrays"], "metrics": metrics})
        return Message(content, reply_to=message)

    inner = local.LocalGrid(app, 5, before=before)
    grid, _ = start(inner)
    assert grid.reports[0].survivors["masked-input"] == 5
    assert grid.reports[0].error
    assert grid.reports[0].count == 0


def test_the_server_cannot_choose_a_weaker_bound_on_the_graph(monkeypatch):
    """With a small sigma, few of the corrupt would count as any client's neighbours."""
    from privagg.integrations.flower import Settings

    params = Settings.params

    def weaker(self, clients, dim):
        return replace(params(self, clients, dim), sigma=39)

    monkeypatch.setattr(Settings, "params", weaker)
    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    grid, _ = start(inner)
    assert grid.reports[0].failures["privagg: refused what the server sent"] == 4


def test_a_mean_that_does_not_fit_its_dtype_is_not_made_infinite():
    def train(message, context):
        arrays = {k: a.numpy() for k, a in message.content["arrays"].items()}
        metrics = MetricRecord({"train_loss": 1.0, "num-examples": 10})
        new = {k: np.float64(a) + 100 for k, a in arrays.items()}
        content = RecordDict({"arrays": local.record_of(new), "metrics": metrics})
        return Message(content, reply_to=message)

    ranges = Ranges(clip=100.0, max_weight=1000, metrics={"train_loss": 10.0})
    app = local.message_api_app(local.mod(ranges=ranges), train=train)
    chosen = strategy()
    grid = SecAggGrid(local.LocalGrid(app, 4), chosen, local.settings(ranges=ranges))
    start = local.record_of({"half": np.full(3, 65500, np.float16)})
    with pytest.raises(UsageError, match="numbers that fit float16"):
        chosen.start(grid, start, num_rounds=1)


def test_different_contents_are_refused_before_anything_is_sent():
    class Single(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            messages = list(super().configure_train(server_round, arrays, config, grid))
            messages[0].content = RecordDict(
                {"arrays": arrays, "config": ConfigRecord({"lr": 0.0, "server-round": 1})}
            )
            return messages

    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    with pytest.raises(UsageError, match="different contents"):
        start(inner, chosen=Single(fraction_evaluate=0.0))
    assert inner.seen == []


class Peeking(FedAvg):
    """Looks at every reply it is given."""

    def aggregate_train(self, server_round, replies):
        self.seen = list(replies)
        return super().aggregate_train(server_round, self.seen)


def test_a_strategy_that_peeks_sees_the_mean_only():
    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    chosen = Peeking(fraction_evaluate=0.0)
    start(inner, chosen=chosen)
    (reply,) = chosen.seen
    metrics = reply.content["metrics"]
    assert metrics["num-examples"] == sum(map(local.weight_of, range(4)))
    losses, weights = zip(
        *((local.loss_of(n, 1), local.weight_of(n)) for n in range(4)), strict=True
    )
    assert metrics["train_loss"] == pytest.approx(np.average(losses, weights=weights), abs=4e-4)


def test_a_strategy_that_asks_nodes_behind_the_protocols_back_gets_nothing():
    class Behind(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            messages = list(super().configure_train(server_round, arrays, config, grid))
            grid.push_messages(messages)
            return messages

    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    with pytest.raises(UsageError, match="push_messages"):
        start(inner, chosen=Behind(fraction_evaluate=0.0))
    # Nor through Flower's own grid: the clients refuse.
    chosen = strategy()
    record = local.record_of(local.initial_arrays())
    plain = chosen.configure_train(1, record, ConfigRecord(), inner)
    replies = list(inner.send_and_receive(plain))
    assert [reply.error.reason for reply in replies] == [
        "privagg: refused what the server sent"
    ] * 4


def test_the_server_cannot_choose_less_than_the_clients_policy():
    for settings, policy in (
        (local.settings(), local.policy(min_cohort=6)),
        (local.settings(), local.policy(max_corrupt=2, min_cohort=4)),
    ):
        inner = local.LocalGrid(local.message_api_app(local.mod(policy=policy)), 5)
        grid, _ = start(inner, settings)
        assert grid.reports[0].error
        assert set(grid.reports[0].failures) <= {
            "privagg: refused what the server sent",
            "privagg: this node's own input or configuration does not fit",
        }
        assert "masked-input" not in {at for _, at, _, _ in inner.seen}


def test_ranges_that_differ_are_refused_before_training():
    other = Ranges(clip=2.0, max_weight=1000, metrics={"train_loss": 10.0})
    inner = local.LocalGrid(local.message_api_app(local.mod()), 4)
    grid, _ = start(inner, local.settings(ranges=other))
    assert grid.reports[0].failures["privagg: refused what the server sent"] == 4


def test_a_semi_honest_server_is_refused_by_clients_that_did_not_say_so():
    inner = local.LocalGrid(local.message_api_app(local.mod("active")), 4)
    grid, _ = start(inner, local.settings("semi-honest"))
    assert grid.reports[0].failures["privagg: refused what the server sent"] == 4


def test_an_identity_outside_the_roster_does_not_take_part():
    from privagg import keys

    def identity(context):
        number = int(context.node_config["partition-id"])
        return keys.Identity(b"s" * 32) if number == 0 else local.IDENTITIES[number]

    inner = local.LocalGrid(local.message_api_app(local.mod(identity=identity)), 5)
    grid, _ = start(inner)
    assert grid.reports[0].cohort == 5
    assert grid.reports[0].count == 4


@pytest.mark.parametrize("lie", ["place", "signature", "stolen"])
def test_a_node_that_claims_anothers_identity_does_not_take_part(lie):
    seen = []

    def after(number, stage, reply):
        if stage == "enrol":
            record = reply.content[KEY]
            seen.append(dict(record))
            if len(seen) == 2:
                if lie == "place":
                    record["place"] = seen[0]["place"]
                elif lie == "signature":
                    record["signature"] = bytes(64)
                else:  # answers to another nonce are worth nothing
                    reply.content[KEY] = ConfigRecord(seen[0])
        return reply

    inner = local.LocalGrid(local.message_api_app(local.mod()), 5, after=after)
    grid, _ = start(inner)
    assert grid.reports[0].failures["an identity that is not the roster's"] == 1
    assert grid.reports[0].count == 4


def test_late_and_foreign_messages_change_nothing():
    """Every message of a first round comes once more in a second; the second is not disturbed."""
    old = []

    def before(number, stage, message):
        if number == 1:
            if stage in ("share-keys", "masked-input", "survivors", "unmasking"):
                for earlier in [one for at, one in old if at == stage]:
                    context = inner.contexts[101]
                    reply = inner.app(earlier, context)
                    assert reply.has_error()
            old.append((stage, message))
        return message

    inner = local.LocalGrid(local.message_api_app(local.mod()), 4, before=before)
    grid, _ = start(inner, rounds=2)
    assert [report.count for report in grid.reports] == [4, 4]


def test_malformed_replies_leave_a_node_out():
    def after(number, stage, reply):
        if number == 3 and stage == "share-keys":
            reply.content[KEY]["data"] = b"\0" + reply.content[KEY]["data"][1:]
        return reply

    inner = local.LocalGrid(local.message_api_app(local.mod()), 5, after=after)
    grid, _ = start(inner)
    assert grid.reports[0].count == 4
    assert grid.reports[0].failures["a reply that is refused"] == 1


@pytest.mark.parametrize("stage", ["advertise-keys", "share-keys", "masked-input"])
def test_a_node_that_echoes_the_server_does_not_end_the_run(stage):
    """What it sends decodes: it is a message of the round, but not one of a client."""
    asked = {}

    def before(number, at, message):
        asked[number] = message.content[KEY].get("data")
        return message

    def after(number, at, reply):
        if (number, at) == (3, stage):
            reply.content[KEY]["data"] = asked[number]
        return reply

    inner = local.LocalGrid(local.message_api_app(local.mod()), 5, before=before, after=after)
    grid, _ = start(inner)
    assert grid.reports[0].count == 4
    assert grid.reports[0].failures["a reply that is refused"] == 1


def test_an_abort_is_raised_where_asked():
    inner = local.LocalGrid(
        local.message_api_app(local.mod()),
        4,
        before=lambda n, at, m: None if at == "masked-input" else m,
    )
    with pytest.raises(Abort):
        start(inner, local.settings(on_abort="raise", training_deadline=0.1))
