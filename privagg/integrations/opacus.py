"""DP-SGD on each client, its update securely aggregated, and one accountant that says the total.

Needs the extra ``torch``. :class:`PrivateClient` trains with Opacus: gradients of single examples
are clipped to ``max_grad_norm``, added up, and Gaussian noise of standard deviation
``noise_multiplier * max_grad_norm`` is added **to the sum**, before it is divided by the expected
batch. One accountant per client lives through all rounds, so that its history is all that the
client has done.

What is guaranteed (central DP-SGD with Poisson sampling: Abadi et al., CCS 2016; composition by
Opacus' accountants): two runs in which **one example of one client is added or removed** give
models of this client that are (epsilon, delta)-indistinguishable, over all rounds together, to
whoever sees all its updates. Rounding, clipping, masking and adding up come after the noise
(post-processing): the same holds for the server, the other clients, and whoever sees the model.
Examples of different clients are different: over all clients the total is the largest of theirs
(parallel composition); if a person has examples with several clients, :func:`total` adds them up.

What others' noise adds: the server sees the sum alone, in which the noise of `honest` clients is
added up; in rounds of one step its standard deviation is ``sqrt(honest)`` times one client's
(:func:`noise_in_sum`). That is why the sum leaks less than one update would. No epsilon is claimed
for it here: each client's vector is rounded and clipped by itself, so that the sum is not a
function of the Gaussian sum, and of the others' noise a client knows only what they say. Noise that
is made to be added up is discrete noise.

Opacus draws its noise as floating-point numbers, unless ``secure_mode`` is on; epsilons are those
of real-valued Gaussian noise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from privagg._validate import whole
from privagg.errors import PrivaggError, UsageError

try:
    from torch import nn, optim
    from torch.utils.data import DataLoader
except ImportError:
    raise UsageError(
        "torch", "not installed", "PyTorch", "Install it: pip install 'privagg[torch]'"
    ) from None

__all__ = ["BudgetSpent", "Prepared", "PrivateClient", "Spent", "noise_in_sum", "total"]

ACCOUNTANTS = ("rdp", "prv")
"""Opacus' accountants that give bounds; its third one is an approximation that can be too low."""


class BudgetSpent(PrivaggError):
    """Training on would spend more than the client's budget; nothing was spent.

    Parameters
    ----------
    epsilon, budget : float
        What it would come to, and what is allowed.
    """

    exit_code = 3

    def __init__(self, epsilon: float, budget: float) -> None:
        self.epsilon, self.budget = epsilon, budget
        super().__init__(f"epsilon would be {epsilon:.4g}; the budget is {budget:.4g}")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a client's updates have cost so far, over all rounds.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    steps : int
        Noisy steps in it.
    accountant : str
        Which bound gave it: ``"rdp"`` or ``"prv"``.
    adjacency : str
        Between which data sets it holds.
    clients : int
        How many clients' data it is about.
    """

    epsilon: float
    delta: float
    steps: int
    accountant: str
    adjacency: str = "one example added or removed"
    clients: int = 1

    def __str__(self) -> str:
        return (
            f"({self.epsilon:.4g}, {self.delta:.3g})-DP, {self.adjacency}, "
            f"{self.steps} steps, by {self.accountant}"
        )


class Prepared(NamedTuple):
    """What to train one round with: the loop is a plain one."""

    model: nn.Module
    optimizer: optim.Optimizer
    loader: DataLoader[Any]


class PrivateClient:
    """One client's DP-SGD, round after round, with one account.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise on the **sum** of clipped gradients, over `max_grad_norm`.
    max_grad_norm : float
        L2 norm to which the gradient of each example is clipped.
    delta : float
        Of the guarantee; below one over the number of examples.
    accountant : {"rdp", "prv"}
        Opacus' accountant: Renyi divergences, or numerically composed privacy loss (tighter, and
        slower).
    max_epsilon : float, optional
        Budget over all rounds: :meth:`check` raises before it is exceeded.
    secure_mode : bool
        Opacus' noise from a cryptographic generator, safe against floating-point attacks; needs the
        package ``torchcsprng``.

    Raises
    ------
    UsageError
        If Opacus is not installed, or an argument is out of range.
    """

    def __init__(
        self,
        *,
        noise_multiplier: float,
        max_grad_norm: float,
        delta: float,
        accountant: Literal["rdp", "prv"] = "rdp",
        max_epsilon: float | None = None,
        secure_mode: bool = False,
    ) -> None:
        self.noise_multiplier = _positive("noise_multiplier", noise_multiplier)
        self.max_grad_norm = _positive("max_grad_norm", max_grad_norm)
        self.delta = _positive("delta", delta)
        if self.delta >= 1:
            raise UsageError("delta", delta, "a number between 0 and 1")
        if accountant not in ACCOUNTANTS:
            raise UsageError("accountant", accountant, " or ".join(ACCOUNTANTS))
        self.max_epsilon = None if max_epsilon is None else _positive("max_epsilon", max_epsilon)
        if not isinstance(secure_mode, bool):
            raise UsageError("secure_mode", secure_mode, "True or False")
        self.accountant = str(accountant)
        opacus = _opacus()
        try:
            with _quiet():
                self._engine = opacus.PrivacyEngine(accountant=accountant, secure_mode=secure_mode)
        except ImportError as error:
            hint = "Install torchcsprng, or leave it out."
            raise UsageError("secure_mode", True, f"what is installed ({error})", hint) from None

    def prepare(
        self, model: nn.Module, optimizer: optim.Optimizer, loader: DataLoader[Any]
    ) -> Prepared:
        """Make one round's training private: Opacus' wrappers, with this client's account.

        Parameters
        ----------
        model : torch.nn.Module
            The round's model, not wrapped yet; it is trained in place.
        optimizer : torch.optim.Optimizer
            Of the model's parameters.
        loader : DataLoader
            The client's examples, the same in all rounds; its batches become Poisson samples of the
            same mean size.

        Returns
        -------
        Prepared
            Model, optimizer and loader for a plain loop. ``tensors`` and ``Layout`` see through the
            model's wrapper.

        Raises
        ------
        UsageError
            If the model has layers without gradients of single examples, such as batch norm, or is
            wrapped already.
        """
        if not isinstance(model, nn.Module) or hasattr(model, "_module"):
            raise UsageError("model", type(model).__name__, "a torch.nn.Module, not wrapped yet")
        faults = _opacus().validators.ModuleValidator.validate(model, strict=False)
        if faults:
            raise UsageError(
                "model",
                str(faults[0]),
                "layers with gradients of single examples",
                "Group norm does what batch norm does: opacus' ModuleValidator.fix(model).",
            )
        model.train()
        with _quiet():
            made = self._engine.make_private(
                module=model,
                optimizer=optimizer,
                data_loader=loader,
                noise_multiplier=self.noise_multiplier,
                max_grad_norm=self.max_grad_norm,
                poisson_sampling=True,
            )
        return Prepared(*made)

    def spent(self) -> Spent:
        """Return what all rounds so far have cost.

        Raises
        ------
        UsageError
            If the accountant has no answer for this noise; another one may have.
        """
        history = list(self._engine.accountant.history)
        return self._spent(history)

    def check(self, *, steps: int, sample_rate: float) -> Spent:
        """Return what it would cost in all to train on; nothing is spent by asking.

        Parameters
        ----------
        steps : int
            Steps to come.
        sample_rate : float
            Chance of each example to be in a batch: ``1 / len(loader)``.

        Raises
        ------
        BudgetSpent
            If that is beyond ``max_epsilon``.
        UsageError
            If an argument is not as described.
        """
        steps = whole("steps", steps, 1, 2**40)
        rate = _positive("sample_rate", sample_rate)
        if rate > 1:
            raise UsageError("sample_rate", sample_rate, "a fraction up to 1")
        history = list(self._engine.accountant.history)
        found = self._spent([*history, (self.noise_multiplier, rate, steps)])
        if self.max_epsilon is not None and found.epsilon > self.max_epsilon:
            raise BudgetSpent(found.epsilon, self.max_epsilon)
        return found

    def _spent(self, history: list[tuple[float, float, int]]) -> Spent:
        steps = sum(count for _, _, count in history)
        epsilon = 0.0
        if steps:
            epsilon = _epsilon(self.accountant, history, self.delta)
        return Spent(
            epsilon=epsilon, delta=self.delta, steps=int(steps), accountant=self.accountant
        )

    def state(self) -> dict[str, Any]:
        """Return the account, to be saved between rounds: plain lists and numbers."""
        return {
            "accountant": self.accountant,
            "history": [
                [float(z), float(q), int(n)] for z, q, n in self._engine.accountant.history
            ],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up an account that was saved; it takes the place of this one's.

        Parameters
        ----------
        state : dict
            What ``state()`` returned.

        Raises
        ------
        UsageError
            If it is no account, of another accountant, or forgets steps of this one.
        """
        if not isinstance(state, dict) or state.get("accountant") != self.accountant:
            raise UsageError("state", type(state).__name__, f"an account by {self.accountant}")
        try:
            rows = [
                (
                    _positive("state", z),
                    _positive("state", q),
                    whole("state", n, 1, 2**40),
                )
                for z, q, n in state["history"]
            ]
        except (KeyError, TypeError, ValueError):
            raise UsageError("state", "no account", "what state() returned") from None
        done = sum(n for _, _, n in self._engine.accountant.history)
        if sum(n for _, _, n in rows) < done:
            raise UsageError("state", "fewer steps than were taken", f"{done} steps or more")
        self._engine.accountant.history = rows

    def __repr__(self) -> str:
        return (
            f"PrivateClient(noise_multiplier={self.noise_multiplier:g}, "
            f"max_grad_norm={self.max_grad_norm:g}, delta={self.delta:g})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("an account is saved by state(), so that no copy forgets steps")


def total(accounts: Sequence[Spent], *, shared: bool = False) -> Spent:
    """Return one guarantee for the data of several clients.

    Parameters
    ----------
    accounts : sequence of Spent
        One per client.
    shared : bool
        Whether one person's example may be with several clients: epsilons and deltas then add up
        (basic composition). Else examples are of one client each, and the largest holds for all
        (parallel composition).

    Raises
    ------
    UsageError
        If there is none, they are of another adjacency, or their deltas add up to 1.
    """
    if not accounts or not all(isinstance(one, Spent) for one in accounts):
        raise UsageError("accounts", type(accounts).__name__, "a sequence of Spent, not empty")
    if not isinstance(shared, bool):
        raise UsageError("shared", shared, "True or False")
    if len({one.adjacency for one in accounts}) > 1:
        raise UsageError("accounts", "several adjacencies", "one")
    combine = sum if shared else max
    delta = float(combine(one.delta for one in accounts))
    if delta >= 1:
        raise UsageError("accounts", f"deltas that add up to {delta:g}", "less than 1")
    names = {one.accountant for one in accounts}
    return Spent(
        epsilon=float(combine(one.epsilon for one in accounts)),
        delta=delta,
        steps=int(combine(one.steps for one in accounts)),
        accountant=names.pop() if len(names) == 1 else ", ".join(sorted(names)),
        adjacency=accounts[0].adjacency
        + (", with every client at the same time" if shared else ""),
        clients=sum(one.clients for one in accounts),
    )


def noise_in_sum(noise_multiplier: float, honest: int) -> float:
    """Return the noise multiplier of a sum over `honest` clients that add noise independently.

    ``sqrt(honest) * noise_multiplier``, for rounds of one step, of clients with the same
    ``max_grad_norm`` and batch. A figure to plan with and **no guarantee**: see the module.

    Parameters
    ----------
    noise_multiplier : float
        Of one client: its standard deviation over the clip.
    honest : int
        How many.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    return math.sqrt(whole("honest", honest, 1, 2**40)) * _positive(
        "noise_multiplier", noise_multiplier
    )


def _epsilon(name: str, history: list[tuple[float, float, int]], delta: float) -> float:
    accountants = _opacus().accountants
    kinds = {"rdp": "RDPAccountant", "prv": "PRVAccountant"}
    accountant = getattr(accountants, kinds[name])()
    accountant.history = history
    try:
        with _quiet():
            found = float(accountant.get_epsilon(delta=delta))
    except (ValueError, RuntimeError, OverflowError, ArithmeticError) as error:
        found, reason = math.nan, str(error)
    else:
        reason = f"its answer was {found}"
    if not (math.isfinite(found) and found >= 0):
        raise UsageError(
            "accountant",
            name,
            f"one with an answer for this noise ({reason})",
            "Take accountant='rdp', or more noise.",
        )
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out the warnings of Opacus about what is documented here."""
    # What overflows has no finite epsilon, which is checked.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", message="Secure RNG turned off")  # see secure_mode
        # Each round has a loader of its own; prepare() says that its examples are the client's.
        warnings.filterwarnings("ignore", message="PrivacyEngine detected new dataset object")
        # Which order of Renyi divergence is best: the bound holds at every one.
        warnings.filterwarnings("ignore", message="Optimal order is the")
        yield


def _positive(name: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise UsageError(name, value, "a number above 0")
    return float(value)


def _opacus() -> Any:
    try:
        import opacus
        import opacus.accountants
        import opacus.validators
    except ImportError:
        hint = "Install it: pip install 'privagg[torch]'"
        raise UsageError("opacus", "not installed", "Opacus", hint) from None
    return opacus
