"""PyTorch networks that learn from the class shares of bags. Needs the extra ``torch``.

:func:`aggregate_loss` is the loss for a training loop of one's own, :class:`AggregateModule` wraps
a network with a loop. The proportion loss compares a bag's share with the mean probability of its
rows: the logarithm of a mean. The mean of logarithms, which is easily taken for it, is the loss of
single rows, up to a constant.

What is learnt from a release has the guarantee of the release: training is post-processing.

Source: Javanmard et al., ICLR 2024 (arXiv 2401.11081), for losses and interpolation; Busa-Fekete et
al., NeurIPS 2023 (arXiv 2302.03115), for EasyLLP.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._validate import whole
from privagg.errors import UsageError
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.losses import Grouped
from privagg.protocols.responses.targets import as_bags, as_responses

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise UsageError(
        "torch", "not installed", "PyTorch", "Install it: pip install 'privagg[torch]'"
    ) from None

__all__ = ["LOSSES", "AggregateModule", "aggregate_loss", "bag_log_means"]

LOSSES = ("bag", "instance", "interpolate", "easyllp")


def bag_log_means(log_probabilities: Tensor, bag: Tensor, sizes: Tensor) -> Tensor:
    """Return the logarithms of the mean probabilities of bags, without underflow.

    Parameters
    ----------
    log_probabilities : (n, c) tensor
    bag : (n,) int64 tensor
        From 0 to m - 1.
    sizes : (m,) tensor
        Rows of each bag.

    Returns
    -------
    (m, c) tensor
    """
    index = bag[:, None].expand_as(log_probabilities)
    top = torch.full(
        (sizes.shape[0], log_probabilities.shape[1]),
        -torch.inf,
        dtype=log_probabilities.dtype,
        device=log_probabilities.device,
    ).scatter_reduce(0, index, log_probabilities.detach(), "amax")
    total = torch.zeros_like(top).index_add(0, bag, torch.exp(log_probabilities - top[bag]))
    return top + torch.log(total) - torch.log(sizes.to(top.dtype))[:, None]


def aggregate_loss(
    logits: Tensor,
    bag: Tensor,
    shares: Tensor,
    *,
    loss: str = "bag",
    rho: float = 0.1,
    prior: Tensor | None = None,
) -> Tensor:
    """Return a loss on the class shares of whole bags, per row.

    Parameters
    ----------
    logits : (n, c) tensor
        Of all rows of some bags; c from 2. A single logit z of class 1 is ``[0, z]``.
    bag : (n,) int64 tensor
        Each row's bag, from 0 to m - 1, none empty.
    shares : (m, c) tensor
    loss : {"bag", "instance", "interpolate", "easyllp"}
        Cross-entropy with the mean probability of the bag, with each row's, ``1 - rho`` of the one
        plus ``rho`` of the other, or with each row's debiased target. The debiased targets may be
        negative: then the loss of a network has no lower bound, and needs weight decay.
    rho : float
    prior : (c,) tensor, optional
        For ``easyllp``: the classes' shares in all rows.

    Raises
    ------
    UsageError
        If shapes disagree, or `prior` is missing.
    """
    if loss not in LOSSES:
        raise UsageError("loss", loss, f"one of {', '.join(LOSSES)}")
    if logits.ndim != 2 or shares.ndim != 2 or logits.shape[1] != shares.shape[1]:
        found = f"{tuple(logits.shape)} and {tuple(shares.shape)}"
        raise UsageError("logits, shares", found, "(n, c) and (m, c)")
    rows = torch.log_softmax(logits, dim=1)
    sizes = torch.bincount(bag, minlength=shares.shape[0])
    total = logits.new_zeros(())
    if loss in ("bag", "interpolate"):
        means = bag_log_means(rows, bag, sizes)
        weight = sizes.to(rows.dtype)[:, None] / rows.shape[0]
        part = 1.0 if loss == "bag" else 1 - rho
        total = total - part * (weight * shares * means).sum()
    if loss in ("instance", "interpolate"):
        part = 1.0 if loss == "instance" else rho
        total = total - part * (shares[bag] * rows).sum() / rows.shape[0]
    if loss == "easyllp":
        if prior is None:
            raise UsageError("prior", None, "the classes' shares in all rows")
        targets = sizes.to(rows.dtype)[:, None] * (shares - prior) + prior
        total = total - (targets[bag] * rows).sum() / rows.shape[0]
    return total


class AggregateModule(nn.Module):
    """Any network, trained on the class shares of bags.

    Parameters
    ----------
    network : nn.Module
        From a batch of features to (n, c) logits, or (n, 1) of class 1.
    loss : str
        As of :func:`aggregate_loss`.
    rho : float
        Not below 0; for ``interpolate``.
    prior : sequence of float, optional
        For ``easyllp``; from the released shares unless given.

    Raises
    ------
    UsageError
        If an argument is not allowed.
    """

    def __init__(
        self, network: nn.Module, *, loss: str = "bag", rho: float = 0.1, prior: Any = None
    ) -> None:
        super().__init__()
        if loss not in LOSSES:
            raise UsageError("loss", loss, f"one of {', '.join(LOSSES)}")
        if isinstance(rho, bool) or not isinstance(rho, int | float) or not 0 <= rho < np.inf:
            raise UsageError("rho", rho, "a finite number, not below 0")
        self.network = network
        self.loss = loss
        self.rho = float(rho)
        self.prior = prior

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, c) logits, two columns where the network has one.

        Parameters
        ----------
        x : (n, ...) tensor
            Features, a row in each.
        """
        logits: Tensor = self.network(x)
        if logits.ndim == 1:
            logits = logits[:, None]
        if logits.shape[1] == 1:
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        return logits

    def fit(
        self,
        x: Any,
        bags: Any,
        responses: Any,
        *,
        aggregate: str = "mean",
        epochs: int = 60,
        bags_per_step: int = 16,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-2,
        seed: int | None = None,
    ) -> AggregateModule:
        """Train with AdamW on batches of whole bags, the learning rate falling as a cosine.

        Parameters
        ----------
        x : (n, ...) array or tensor
        bags : Bags, or (n,) column of ids
        responses : mapping by bag id, or (m,) or (m, c) array
            Shares of class 1, or of each class, from 0 to 1 (at bag level); with ``sum`` counts.
        aggregate : {"mean", "sum"}
        epochs, bags_per_step : int
        learning_rate, weight_decay : float
        seed : int, optional
            Of the order of bags.

        Returns
        -------
        self

        Raises
        ------
        UsageError
            If bags and responses do not fit, shares lie outside [0, 1] at bag level, or EasyLLP
            has no weight decay.
        """
        whole("epochs", epochs, 1, 10**6)
        whole("bags_per_step", bags_per_step, 1, 10**9)
        features = torch.as_tensor(x)
        if not features.is_floating_point():
            features = features.to(torch.get_default_dtype())
        found = as_bags(bags, features.shape[0])
        shares = self._shares(as_responses(responses, found, aggregate), features)
        prior = self._prior(found, shares)
        if self.loss == "easyllp" and not weight_decay > 0:
            raise UsageError(
                "weight_decay", weight_decay, "above 0 with EasyLLP", "Its loss has no lower bound."
            )
        grouped = Grouped(found)
        optimizer = torch.optim.AdamW(
            self.parameters(), lr=learning_rate, weight_decay=weight_decay
        )
        steps = -(-found.count // bags_per_step)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
        generator = np.random.default_rng(seed)
        self.train()
        for _ in range(epochs):
            order = generator.permutation(found.count)
            for start in range(0, order.size, bags_per_step):
                chosen = order[start : start + bags_per_step]
                rows, bag = _rows(grouped, chosen)
                optimizer.zero_grad(set_to_none=True)
                value = aggregate_loss(
                    self(features[rows]),
                    bag.to(features.device),
                    shares[torch.from_numpy(chosen)],
                    loss=self.loss,
                    rho=self.rho,
                    prior=prior,
                )
                value.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
        self.eval()
        return self

    @torch.no_grad()
    def predict_proba(self, x: Any) -> NDArray[Any]:
        """Return the probabilities of the classes; (n, c).

        Parameters
        ----------
        x : (n, ...) array or tensor
            Features, a row in each.
        """
        features = torch.as_tensor(x)
        if not features.is_floating_point():
            features = features.to(torch.get_default_dtype())
        was = self.training
        self.eval()
        found = torch.softmax(self(features), dim=1).cpu().numpy()
        self.train(was)
        return np.asarray(found)

    def predict(self, x: Any) -> NDArray[np.int64]:
        """Return the likeliest class of each row.

        Parameters
        ----------
        x : (n, ...) array or tensor
            Features, a row in each.

        Returns
        -------
        (n,) int64 array
        """
        return np.asarray(self.predict_proba(x).argmax(axis=1), np.int64)

    def _shares(self, table: NDArray[np.float64], features: Tensor) -> Tensor:
        outside = (table < 0) | (table > 1)
        if outside.any() and self.loss in ("bag", "interpolate"):
            raise UsageError(
                "responses",
                f"{int(outside.any(axis=1).sum())} bags with a share outside [0, 1]",
                "shares from 0 to 1 at bag level",
                "Clip noisy ones yourself, or take loss='instance' or 'easyllp'.",
            )
        if table.shape[1] == 1:
            table = np.hstack([1 - table, table])
        if np.abs(table.sum(axis=1) - 1).max() > 1e-6 and self.loss != "easyllp":
            raise UsageError("responses", "shares that do not add up to 1", "1 in every bag")
        return torch.as_tensor(table, dtype=features.dtype, device=features.device)

    def _prior(self, bags: Bags, shares: Tensor) -> Tensor:
        if self.prior is not None:
            given = torch.as_tensor(self.prior, dtype=shares.dtype, device=shares.device)
            if given.shape != (shares.shape[1],):
                raise UsageError("prior", tuple(given.shape), f"{shares.shape[1]} shares")
            return given
        weights = torch.as_tensor(bags.sizes, dtype=shares.dtype, device=shares.device)
        return (weights @ shares) / weights.sum()


def _rows(grouped: Grouped, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return the rows of some bags, and which of them each row is in."""
    sizes = grouped.sizes[chosen]
    ends = np.cumsum(sizes)
    at = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    rows = grouped.rows[np.repeat(grouped.starts[chosen], sizes) + at]
    bag = np.repeat(np.arange(chosen.size), sizes)
    return torch.from_numpy(rows), torch.from_numpy(bag)
