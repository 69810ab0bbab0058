"""A simulated round with distributed noise: what is before it and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from privagg.cli import _privacy_report
from privagg.cli._privacy_options import PrivacyOptions
from privagg.cli._secagg_inputs import Material
from privagg.cli._secagg_options import RoundOptions
from privagg.cli._secagg_report import simulation
from privagg.cli.inputs import ClientInputs
from privagg.entropy import Entropy
from privagg.errors import UsageError
from privagg.protocols.secagg import Params, Result
from privagg.protocols.secagg.private import Mechanism, NoisyInputs, finish
from privagg.report import Report

__all__ = ["Private", "check"]


def check(kind: str, misbehave: str | None, streamed: bool) -> None:
    """Refuse what distributed noise does not go with."""
    if kind != "bonawitz":
        raise UsageError("--protocol", kind, "bonawitz with --epsilon: its sums wrap")
    for flag, value in (("--misbehave", misbehave), ("--streamed", streamed or None)):
        if value is not None:
            raise UsageError(flag, str(value), "nothing with --epsilon")


@dataclass(frozen=True, kw_only=True)
class Private:
    """A round's noise, and the round that carries it.

    Attributes
    ----------
    options : PrivacyOptions
        As given.
    mechanism : DistributedNoise or PoissonBinomial
        The noise.
    params : Params
        The round that carries the residues.
    noisy : NoisyInputs
        The clients' residues.
    inputs : ClientInputs
        The same, as the inputs of a round.
    rotation : bytes
        The public seed of the rotation.
    """

    options: PrivacyOptions
    mechanism: Mechanism
    params: Params
    noisy: NoisyInputs
    inputs: ClientInputs
    rotation: bytes

    @classmethod
    def of(
        cls, options: PrivacyOptions, given: RoundOptions, inputs: ClientInputs, own: Entropy
    ) -> Private:
        """Calibrate the noise, and wrap the inputs."""
        mechanism, params = options.mechanism(given, clients=inputs.clients, dim=inputs.dim)
        rotation = own.spawn("rotation").take(32)
        noisy = NoisyInputs(mechanism, inputs.vectors, rotation, own.spawn("noise"))
        return cls(
            options=options,
            mechanism=mechanism,
            params=params,
            noisy=noisy,
            inputs=replace(inputs, vectors=noisy, dim=mechanism.length),
            rotation=rotation,
        )

    def report(
        self, result: Result, material: Material, leaves: Mapping[int, str], wall: float
    ) -> tuple[Result, Report]:
        """Return the round's result with sum and mean in the inputs' units, and its report."""
        private = finish(result, self.mechanism, self.noisy, self.rotation)
        shown = replace(result, sum=private.sum, mean=private.mean)
        report = simulation(shown, material, leaves, wall)
        return shown, _privacy_report.simulated(report, private, self.options)
