"""The server side: all rounds of the protocol for one batch of a strategy's messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from privagg import keys
from privagg.encoding import Aggregate
from privagg.entropy import OS
from privagg.errors import Abort, PeerError, UsageError
from privagg.integrations.flower import contents, setup
from privagg.integrations.flower.ranges import Job
from privagg.integrations.flower.settings import RoundReport, Settings
from privagg.integrations.flower.setup import KEY, SubRoster
from privagg.integrations.flower.transport import Post
from privagg.protocols.secagg import Directory, Params, Phase, Server, Threat, messages

__all__ = ["Enrolled", "run_round"]

_log = logging.getLogger("privagg.integrations.flower")


@dataclass
class Enrolled:
    """Which member of the roster a node has shown to be; remembered over rounds."""

    places: dict[int, int] = field(default_factory=dict)

    def add(self, node: int, place: int) -> None:
        """Note a node; a member that appears as another node has moved there."""
        self.places = {other: at for other, at in self.places.items() if at != place}
        self.places[node] = place


def run_round(
    post: Post,
    settings: Settings,
    job: Job,
    nodes: Sequence[int],
    given: RecordDict,
    enrolled: Enrolled,
) -> tuple[RecordDict | None, RoundReport]:
    """Run the protocol once over `nodes`, all of which are given the same content.

    Parameters
    ----------
    post : Post
        Carries the messages.
    settings : Settings
        The server's choices.
    job : {"train", "evaluate"}
        What is aggregated.
    nodes : sequence of int
        Distinct node ids.
    given : RecordDict
        The strategy's content: the model and a configuration.
    enrolled : Enrolled
        Nodes that have shown their identity in earlier rounds; added to.

    Returns
    -------
    RecordDict or None
        One content with the weighted mean, as from a single client; None if the round aborted.
    RoundReport

    Raises
    ------
    UsageError, CapacityError
        If the settings do not fit: too few nodes for the threshold, metrics that are not declared.
    Abort, PeerError
        If the round aborted and ``settings.on_abort`` is ``raise``.
    """
    began = time.monotonic()
    play = _Round(post, settings, job, given)
    content, error = None, ""
    try:
        aggregate = play.run(nodes, enrolled)
        content = contents.mean_reply(
            aggregate.mean,
            aggregate.weight_total,
            play.model,
            job,
            settings.ranges,
            legacy=contents.is_legacy(given, job),
        )
    except (Abort, PeerError) as problem:
        if settings.on_abort == "raise":
            raise
        aggregate, error = None, str(problem)
        _log.warning("%s round aborted, the model stays as it is: %s", job, error)
    for reason, count in post.failures.items():
        _log.warning("%s: %d of %d nodes: %s", job, count, len(nodes), reason)
    report = RoundReport(
        job=job,
        cohort=len(nodes),
        params=play.params,
        survivors=play.survivors(),
        count=0 if aggregate is None else aggregate.count,
        weight_total=0 if aggregate is None else aggregate.weight_total,
        bytes_up=play.up,
        bytes_down=play.down,
        seconds=time.monotonic() - began,
        failures=dict(post.failures),
        error=error,
    )
    return content, report


class _Round:
    """One run: the figure in :meth:`run`, the bookkeeping below it."""

    def __init__(self, post: Post, settings: Settings, job: Job, given: RecordDict) -> None:
        self.post, self.settings, self.job, self.given = post, settings, job, given
        self.model: dict[str, NDArray[Any]] = contents.model_of(given, job)
        self.params: Params | None = None
        self.server: Server | None = None
        self.up: dict[str, int] = {}
        self.down: dict[str, int] = {}

    def run(self, nodes: Sequence[int], enrolled: Enrolled) -> Aggregate:
        """Play the round to its end, and return what the sum says."""
        settings = self.settings
        dim = settings.ranges.dim(self.job, self.model)
        if dim == 0:
            raise UsageError(
                "evaluate_metrics", "none", "the metrics that clients evaluate", "See Ranges."
            )
        signed = settings.threat is not Threat.SEMI_HONEST
        places = self._enrol(nodes, enrolled) if signed else {node: 0 for node in nodes}
        cohort = sorted(places, key=lambda node: places[node])  # stable: the strategy's order
        if len(cohort) < 2:
            raise Abort("nodes of the round", len(cohort), 2)
        params = self.params = self._params(len(cohort), len(nodes), dim)
        members = [places[node] for node in cohort] if signed else []
        told = setup.write(self.job, settings.ranges, params, members)
        given = contents.content_digest(self.given)
        model = setup.bound_model(told, given, self.post.message_type, self.post.group_id)
        roster = SubRoster(cast(Directory, settings.roster), members) if signed else None
        server = self.server = Server(params, roster=roster, model=model)
        while server.phase is not Phase.DONE:
            self._phase(server, params, cohort, told)
        return server.result()

    def survivors(self) -> dict[str, int]:
        """Return how many nodes answered each closed round."""
        if self.server is None:
            return {}
        return {name: len(who) for name, who in self.server.survivors().items()}

    def _params(self, cohort: int, asked: int, dim: int) -> Params:
        """Return the parameters of the round; too few that have shown who they are is no misuse."""
        try:
            return self.settings.params(cohort, dim)
        except UsageError as error:
            if cohort == asked:
                raise
            raise Abort(
                f"nodes that have shown who they are ({error.argument})", cohort, asked
            ) from None

    def _phase(self, server: Server, params: Params, cohort: list[int], told: bytes) -> None:
        phase = server.phase
        index_of = {node: index for index, node in enumerate(cohort)}
        alive = set(map(int, server.alive()))
        out: dict[int, RecordDict] = {}
        sent = 0
        for node, index in index_of.items():
            if index not in alive:
                continue
            record = ConfigRecord({"data": server.message_for(index).encode()})
            if phase is Phase.ADVERTISE_KEYS:
                record["setup"] = told
                sent += len(told)
            sent += len(cast(bytes, record["data"]))
            base = self.given if phase is Phase.MASKED_INPUT else RecordDict()
            out[node] = contents.with_record(base, KEY, record)
        self.down[phase.title] = self.down.get(phase.title, 0) + sent
        training = phase is Phase.MASKED_INPUT
        seconds = self.settings.training_deadline if training else self.settings.deadline
        for node, record in self.post.exchange(out, seconds):
            data = record.get("data")
            if not isinstance(data, bytes):
                self.post.failures["a reply that is not the protocol's"] += 1
                continue
            self.up[phase.title] = self.up.get(phase.title, 0) + len(data)
            try:
                message = messages.decode(data, params, peer=index_of[node])
                server.receive(index_of[node], message)
            except PeerError as error:
                self.post.failures["a reply that is refused"] += 1
                _log.warning("%s", error)
        try:
            server.close()
        except UsageError as error:
            # Every weight was zero: no one's fault, and no mean.
            raise Abort(f"weights above zero ({error.argument})", 0, 1) from None

    def _enrol(self, nodes: Sequence[int], enrolled: Enrolled) -> dict[int, int]:
        """Ask nodes not seen before who they are; return the place of each that has shown it."""
        roster = cast(Directory, self.settings.roster)
        nonces = {node: OS.take(keys.KEY_BYTES) for node in nodes if node not in enrolled.places}
        out = {
            node: RecordDict({KEY: ConfigRecord({"nonce": nonce})})
            for node, nonce in nonces.items()
        }
        for node, record in self.post.exchange(out, self.settings.deadline) if out else ():
            place, signature = record.get("place"), record.get("signature")
            if (
                isinstance(place, int)
                and isinstance(signature, bytes)
                and 0 <= place < len(roster)
                and roster.verify(place, setup.enrol_statement(nonces[node], place), signature)
            ):
                enrolled.add(node, place)
            else:
                self.post.failures["an identity that is not the roster's"] += 1
        return {node: enrolled.places[node] for node in nodes if node in enrolled.places}


def same_content(received: Mapping[int, RecordDict]) -> RecordDict:
    """Return the one content that all nodes are to be given.

    Raises
    ------
    UsageError
        If they differ: masks are bound to the content, and would not cancel.
    """
    distinct = list({id(content): content for content in received.values()}.values())
    if len(distinct) > 1 and len(set(map(contents.content_digest, distinct))) > 1:
        raise UsageError(
            "messages",
            "different contents for different nodes",
            "the same model and configuration for all",
            "Masks are bound to them, so that no node can be singled out.",
        )
    return distinct[0]
