"""Labels from label proportions by belief propagation on a graph of similar rows.

Rows that are near each other probably have the same label, and a bag's labels add up to about its
released count:

    P(x) proportional to exp(-c sum_ij K_ij (x_i - x_j)^2 - w sum_B (sum_{i in B} x_i - Y_B)^2)

over the edges of a nearest-neighbours graph. Sum-product messages give each row's marginal: exact
on trees, an approximation on graphs with loops. Bags are factors on counts, so memory is
O(n neighbours + largest bag squared), whatever the sizes of the bags.

How strongly neighbours are coupled is chosen by held-out bags: their counts are hidden, and
compared with what the rest says. No instance's label is looked at.

Source: Havaldar, Sharma, Sareen, Shanmugam, Raghuveer, "Learning from Label Proportions:
Bootstrapping Supervised Learners via Belief Propagation", ICLR 2024 (arXiv 2310.08056). There bags
are factors on every pair of their rows; embeddings of a network, and a second round, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privagg._jit import JIT
from privagg._validate import whole
from privagg.entropy import OS, from_seed
from privagg.errors import UsageError
from privagg.protocols.responses._graph_messages import (
    LIMIT,
    bag_messages,
    bag_messages_plain,
    edge_messages,
)
from privagg.protocols.responses._sklearn import (
    BaseEstimator,
    ClassifierMixin,
    check_classification_targets,
    check_is_fitted,
    validate_data,
)
from privagg.protocols.responses.bags import Bags
from privagg.protocols.responses.selection import fold_bags
from privagg.protocols.responses.targets import as_bags, as_responses

__all__ = ["GraphClassifier", "Graph", "marginals"]

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges between rows, each stored in both directions.

    Attributes
    ----------
    rows : int
    tail, head, back : (e,) int64 arrays
        Directed edges, and the number of each one's reverse.
    similarity : (e,) array
        K.
    scale : float
        The distance by which similarities fall by e, where they come from distances.
    """

    rows: int
    tail: Ints
    head: Ints
    back: Ints
    similarity: Reals
    scale: float = 1.0

    @classmethod
    def of(cls, rows: int, pairs: Any, similarity: Any, scale: float = 1.0) -> Graph:
        """Return the graph of undirected pairs; of a pair that comes twice the first counts.

        Parameters
        ----------
        rows : int
            How many vertices.
        pairs : (m, 2) array of integers
            Ends of the edges.
        similarity : (m,) array of floats
            Of each pair; the larger the nearer.
        scale : float
            Factor of all similarities.

        Raises
        ------
        UsageError
            If a pair is none, or a similarity is negative.
        """
        n = whole("rows", rows, 1, 2**31)
        ends = np.asarray(pairs, np.int64).reshape(-1, 2)
        values = np.asarray(similarity, np.float64)
        if ends.size and not 0 <= ends.min() <= ends.max() < n:
            raise UsageError("pairs", "a row that is none", f"0 to {n - 1}")
        if (ends[:, 0] == ends[:, 1]).any() or values.shape != ends.shape[:1]:
            raise UsageError("pairs", "a row with itself, or no similarity", "pairs of two rows")
        if not (np.isfinite(values) & (values >= 0)).all():
            raise UsageError("similarity", "negative or not finite", "0 or more")
        ends = np.sort(ends, axis=1)
        _, first = np.unique(ends[:, 0] * n + ends[:, 1], return_index=True)
        ends, values = ends[first], values[first]
        e = values.size
        return cls(
            n,
            np.concatenate([ends[:, 0], ends[:, 1]]),
            np.concatenate([ends[:, 1], ends[:, 0]]),
            np.concatenate([np.arange(e, 2 * e), np.arange(e)]),
            np.concatenate([values, values]),
            scale,
        )

    @classmethod
    def nearest(cls, x: Any, neighbors: int, metric: str = "euclidean") -> Graph:
        """Return the graph of each row's nearest neighbours.

        The similarity is ``exp(-d / l)`` of the distance d, l being the median distance.

        Parameters
        ----------
        x : (n, p) array
        neighbors : int
        metric : str
            As in scikit-learn's NearestNeighbors.

        Raises
        ------
        UsageError
            If an argument is not as described.
        """
        from sklearn.neighbors import NearestNeighbors

        rows = x.shape[0]
        k = whole("neighbors", neighbors, 1, max(1, rows - 1))
        if rows < 2:
            return cls.of(rows, np.zeros((0, 2), np.int64), np.zeros(0))
        apart, near = NearestNeighbors(n_neighbors=k, metric=metric).fit(x).kneighbors()
        scale = float(np.median(apart)) or 1.0
        pairs = np.stack([np.repeat(np.arange(rows), k), near.ravel()], axis=1)
        return cls.of(rows, pairs, np.exp(-apart.ravel() / scale), scale)


def marginals(
    graph: Graph,
    bags: Bags,
    counts: Any,
    *,
    coupling: float = 1.0,
    weight: Any = 10.0,
    iterations: int = 100,
    damping: float = 0.5,
    tolerance: float = 1e-4,
) -> tuple[Reals, int]:
    """Return P(x_i = 1) of each row by belief propagation, and the iterations it took.

    Parameters
    ----------
    graph : Graph
    bags : Bags
        Over the same rows; they may overlap.
    counts : (m,) array
        Y, as released: noise may make it any number.
    coupling : float
        c, not below 0.
    weight : float or (m,) array
        w, not below 0; of a count with Gaussian noise of variance v, ``1 / (2 v)``. 0 hides a bag.
    iterations : int
    damping : float
        The part of each message that is kept from the iteration before, from 0 to below 1.
    tolerance : float
        Messages that change by less end it.

    Raises
    ------
    UsageError
        If an argument is not as described.
    """
    y = np.asarray(counts, np.float64)
    weights = np.broadcast_to(np.asarray(weight, np.float64), y.shape).copy()
    if bags.rows != graph.rows or y.shape != (bags.count,) or not np.isfinite(y).all():
        raise UsageError("counts", f"shape {y.shape}", f"a number for each of {bags.count} bags")
    if not (np.isfinite(weights) & (weights >= 0)).all() or not coupling >= 0:
        raise UsageError("coupling, weight", "negative", "0 or more")
    if not 0 <= damping < 1:
        raise UsageError("damping", damping, "from 0 to below 1")
    members = bags.members()
    row = np.concatenate(members)
    starts = np.concatenate([[0], np.cumsum([bag.size for bag in members])]).astype(np.int64)
    strength = coupling * graph.similarity
    edge, bag = np.zeros(graph.tail.size), np.zeros(row.size)
    fresh = np.empty(row.size)
    step = bag_messages if JIT else bag_messages_plain
    n, done = graph.rows, 0
    for turn in range(whole("iterations", iterations, 1, 10**6)):
        done = turn + 1
        odds = _odds(n, graph.head, edge, row, bag)
        new = np.clip(edge_messages(odds[graph.tail] - edge[graph.back], strength), -LIMIT, LIMIT)
        step(odds[row] - bag, starts, y, weights, fresh)
        moved = max(float(np.abs(new - edge).max(initial=0.0)), float(np.abs(fresh - bag).max()))
        edge = damping * edge + (1 - damping) * new
        bag = damping * bag + (1 - damping) * fresh
        if moved < tolerance:
            break
    return 0.5 * (1 + np.tanh(0.5 * _odds(n, graph.head, edge, row, bag))), done


class GraphClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two classes from bags' shares of class 1, by belief propagation over neighbours.

    Parameters
    ----------
    neighbors : int
    couplings : sequence of float
        Candidates for c; the best by held-out bags is taken.
    weight : float
        w of every bag; of counts with Gaussian noise of variance v, ``1 / (2 v)``.
    aggregate : {"mean", "sum"}
        What the responses are.
    metric : str
        Of the neighbours. Scale the features before.
    iterations : int
    folds : int
        Of the held-out bags.
    random_state : int, optional
        Makes the folds repeatable.

    Attributes
    ----------
    marginals_ : (n,) array
        P(class 1) of the rows it was fitted to.
    coupling_ : float
    scores_ : (couplings,) array
        Of held-out bags: the mean of size times the squared error of the share.
    classes_ : (2,) array
        0 and 1, or the names of the rows' own labels.
    n_iter_, n_features_in_ : int

    Notes
    -----
    Fitting is post-processing: a release's guarantee stays. Memory O(n neighbours) and the largest
    bag squared; time of an iteration O(n neighbours + n k). The fitted rows are kept, for
    `predict` weighs the marginals of a row's neighbours among them.
    """

    def __init__(
        self,
        *,
        neighbors: int = 5,
        couplings: Sequence[float] = (0.1, 0.3, 1.0, 3.0),
        weight: float = 10.0,
        aggregate: str = "mean",
        metric: str = "euclidean",
        iterations: int = 100,
        folds: int = 3,
        random_state: int | None = None,
    ) -> None:
        self.neighbors = neighbors
        self.couplings = couplings
        self.weight = weight
        self.aggregate = aggregate
        self.metric = metric
        self.iterations = iterations
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, bags: Any, responses: Any = None) -> GraphClassifier:  # noqa: N803
        """Infer the rows' labels.

        Parameters
        ----------
        X : (n, p) array
        bags : Bags, or (n,) column of ids
            Without `responses`: the rows' own labels, each row a bag by itself.
        responses : mapping by bag id, or (m,) array in the order of the sorted ids
            Shares of class 1, or counts.

        Returns
        -------
        self

        Raises
        ------
        UsageError
            If a row has no bag, a bag no response, or there are more classes than two.
        """
        names = np.arange(2)
        if responses is None:
            x, labels = validate_data(self, X, bags, dtype=[np.float64, np.float32])
            check_classification_targets(labels)
            names, codes = np.unique(labels, return_inverse=True)
            if names.size != 2:
                # The wording is scikit-learn's, whose checks look for it.
                raise UsageError(
                    "responses",
                    f"{names.size} class" + ("es" if names.size > 1 else ""),
                    "Only binary classification is supported",
                )
            responses, bags = codes.astype(np.float64), np.arange(x.shape[0])
        else:
            x = validate_data(self, X, dtype=[np.float64, np.float32])
        found = as_bags(bags, x.shape[0])
        shares = as_responses(responses, found, self.aggregate)
        if shares.shape[1] != 1:
            raise UsageError("responses", f"{shares.shape[1]} columns", "shares of class 1")
        candidates = [float(c) for c in self.couplings]
        if not candidates:
            raise UsageError("couplings", "none", "at least one")
        counts = shares[:, 0] * found.sizes
        graph = Graph.nearest(x, min(self.neighbors, max(1, x.shape[0] - 1)), self.metric)
        self.classes_ = names
        self.scores_ = np.full(len(candidates), np.nan)
        if len(candidates) > 1:
            self.scores_ = np.array(self._scores(graph, found, counts, candidates))
            candidates = [candidates[int(np.argmin(self.scores_))]]
        self.coupling_ = candidates[0]
        self.marginals_, self.n_iter_ = marginals(
            graph,
            found,
            counts,
            coupling=self.coupling_,
            weight=self.weight,
            iterations=self.iterations,
        )
        self._rows, self._scale = x, graph.scale
        return self

    def predict_proba(self, X: Any) -> Reals:  # noqa: N803
        """Return the probabilities of both classes; (n, 2).

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.
        """
        from sklearn.neighbors import NearestNeighbors

        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        k = min(self.neighbors, self.marginals_.size)
        tree = NearestNeighbors(n_neighbors=k, metric=self.metric).fit(self._rows)
        apart, near = tree.kneighbors(x)
        near_weights = np.exp(-(apart - apart[:, :1]) / self._scale)
        one = (near_weights * self.marginals_[near]).sum(axis=1) / near_weights.sum(axis=1)
        return np.stack([1 - one, one], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the more probable class of each row.

        Parameters
        ----------
        X : (n, p) array
            Features, a row in each.

        Returns
        -------
        (n,) array
        """
        chosen = (self.predict_proba(X)[:, 1] > 0.5).astype(np.intp)
        found: NDArray[Any] = self.classes_[chosen]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _scores(
        self, graph: Graph, bags: Bags, counts: Reals, candidates: list[float]
    ) -> list[float]:
        """Return the error of each candidate on held-out bags."""
        entropy = OS if self.random_state is None else from_seed(self.random_state)
        fold = fold_bags(bags, self.folds, entropy)
        found = []
        for coupling in candidates:
            total = 0.0
            for one in range(self.folds):
                hidden = fold == one
                chance, _ = marginals(
                    graph,
                    bags,
                    counts,
                    coupling=coupling,
                    weight=np.where(hidden, 0.0, self.weight),
                    iterations=self.iterations,
                )
                apart = (bags.sums(chance) - counts)[hidden]
                total += float((apart**2 / bags.sizes[hidden]).sum())
            found.append(total / bags.count)
        return found


def _odds(rows: int, head: Ints, edge: Reals, row: Ints, bag: Reals) -> Reals:
    """Return each row's log odds: the sum of what it is told."""
    found = np.bincount(head, edge, minlength=rows) + np.bincount(row, bag, minlength=rows)
    return found.astype(np.float64)
