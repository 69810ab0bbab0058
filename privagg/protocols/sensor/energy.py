"""What a byte costs: energy models of radios, per byte sent and received.

Figures are those of data sheets and measured boards as published simulators carry them:

- ``cc2420`` (MICAz, TelosB): 250 kbit/s, 57.42 mW sending at 0 dBm, 62 mW receiving or listening;
- ``cc1000`` (MICA2): 19.2 kbit/s, 31.2 mW at 0 dBm, 22.2 mW;
- ``mica2``: a MICA2 board measured at 3 V: 62.4 us a bit, 8.47 mA sending (power setting 0x0F),
  7.03 mA receiving;
- ``first-order``: 50 nJ a bit in the circuits and 10 pJ/bit/m2 in the air up to 87.7 m,
  0.0013 pJ/bit/m4 beyond (the model of LEACH). At 50 m it is about a third of a CC2420: use it to
  compare with papers, not to size batteries.

Cryptography and sensing are not in them: on such boards a symmetric operation is small beside a
frame, while one elliptic-curve operation costs about 20 mJ, as much as sending some 11 000 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from privagg.errors import UsageError
from privagg.protocols.sensor.params import real

__all__ = ["MODELS", "Energy", "Model", "model"]


@dataclass(frozen=True)
class Model:
    """Microjoules per byte, and the power of a radio that only listens.

    Attributes
    ----------
    name : str
        As in :data:`MODELS`.
    send, receive : float
        Microjoules per byte.
    listen : float
        Milliwatts while listening; 0 where the model has none.
    """

    name: str
    send: float
    receive: float
    listen: float


def _first_order(distance: float) -> Model:
    crossover = 87.7
    air = 1e-11 * distance**2 if distance < crossover else 1.3e-15 * distance**4
    return Model("first-order", 8e6 * (50e-9 + air), 8e6 * 50e-9, 0.0)


MODELS = {
    "cc2420": Model("cc2420", 57.42 * 0.032, 62.0 * 0.032, 62.0),
    "cc1000": Model("cc1000", 31.2 / 2.4, 22.2 / 2.4, 22.2),
    "mica2": Model("mica2", 3 * 8.47 * 0.4992, 3 * 7.03 * 0.4992, 3 * 7.03),
    "first-order": _first_order(50.0),
}
"""The models by name; ``first-order`` here for 50 m."""


def model(name: str, range: float) -> Model:
    """Return a model by name; `range` in metres matters to ``first-order`` alone.

    Raises
    ------
    UsageError
        If there is no such model.
    """
    if name not in MODELS:
        raise UsageError("energy", name, f"one of {', '.join(MODELS)}")
    return _first_order(range) if name == "first-order" else MODELS[name]


@dataclass(frozen=True, kw_only=True)
class Energy:
    """What is counted beside the frames that are meant for a node.

    Parameters
    ----------
    model : str
        One of :data:`MODELS`.
    overhearing : bool
        Whether each node also receives every frame of its neighbours that is not meant for it.
    duty_cycle : float
        Fraction of an epoch in which the radio listens to nothing.
    epoch_seconds : float
        Length of an epoch, for the idle listening.

    Raises
    ------
    UsageError
        If a field is not as described.
    """

    model: str = "cc2420"
    overhearing: bool = False
    duty_cycle: float = 0.0
    epoch_seconds: float = 10.0

    def __post_init__(self) -> None:
        model(self.model, 1.0)
        if not isinstance(self.overhearing, bool):
            raise UsageError("overhearing", self.overhearing, "True or False")
        real("duty_cycle", self.duty_cycle, 0, 1)
        real("epoch_seconds", self.epoch_seconds, 0, open=True)

    def idle(self, range: float) -> float:
        """Return the microjoules of idle listening, per node and epoch.

        Parameters
        ----------
        range : float
            How far a node is heard, in metres.
        """
        listen = model(self.model, range).listen
        return listen * 1000 * self.duty_cycle * self.epoch_seconds
