"""The risk of an estimator for one design, averaged exactly over coefficients and noise.

For an estimator ``theta = T y`` of ``y = X theta_0 + e`` with ``theta_0`` of covariance `prior` and
noise of variance 1, the excess risk over features of covariance `sigma` is
``tr(sigma (TX - I) prior (TX - I)') + tr(sigma T T') / snr``, over ``tr(sigma prior)``. Only the
design is drawn.
"""

import numpy as np

from privagg.entropy import from_seed
from privagg.protocols.responses.bags import Bags


def projection(bags):
    """Return P = S'(SS')^+ S of bags that may overlap."""
    s = np.zeros((bags.count, bags.rows))
    for number, rows in enumerate(bags.members()):
        s[number, rows] = 1.0
    return s.T @ np.linalg.pinv(s @ s.T) @ s


def estimator(x, p, rho, ridge):
    """Return T, dense and slow: (X'[P + rho (I - P)]X + n ridge I)^-1 X'P."""
    n, features = x.shape
    matrix = x.T @ (p + rho * (np.eye(n) - p)) @ x + n * ridge * np.eye(features)
    return np.linalg.pinv(matrix, rcond=1e-11) @ x.T @ p


def fast_estimator(x, bags, rho, ridge):
    """Return T y as a matrix on the bags' scaled means, for disjoint bags, and its noise's weight.

    T = M^-1 X'P with P = S'S, S the bags' sums over the roots of their sizes: T = C S, C = M^-1
    (SX)'. As SS' = I, TT' = CC', and TX = C SX.
    """
    n, features = x.shape
    root = np.sqrt(bags.sizes)[:, None]
    sx = bags.sums(x) / root
    gram, bag_gram = x.T @ x, sx.T @ sx
    matrix = (1 - rho) * bag_gram + rho * gram + n * ridge * np.eye(features)
    return np.linalg.pinv(matrix, rcond=1e-11) @ sx.T, sx


def risk(tx, noise, snr, sigma=None, prior=None):
    """Return the risk of TX and TT'."""
    features = tx.shape[0]
    sigma = np.eye(features) if sigma is None else sigma
    prior = np.eye(features) / features if prior is None else prior
    signal = np.trace(sigma @ prior)
    off = tx - np.eye(features)
    bias = np.trace(sigma @ off @ prior @ off.T) / signal
    return bias + np.trace(sigma @ noise) / snr


def random_risk(seed, n, psi, size, snr, rho, ridge=0.0, scale=1.0):
    """Return the risk for one Gaussian design in random bags of one size; theta times `scale`."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, round(psi * n)))
    c, sx = fast_estimator(x, Bags.random(n, size, from_seed(seed)), rho, ridge)
    return risk(scale * (c @ sx), scale**2 * (c @ c.T), snr)
