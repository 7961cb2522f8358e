"""Instances of the published tables, as (features, theta)."""

import numpy as np


def soare(d: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The unit vectors, and one more that is close to the first, the best."""
    extra = np.zeros(d)
    extra[:2] = np.cos(angle), np.sin(angle)
    return np.vstack([np.eye(d), extra]), 2.0 * np.eye(d)[0]


def sphere(number: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random unit vectors; theta is one of the closest pair, a hundredth towards the other."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((number, d))
    arms /= np.linalg.norm(arms, axis=1)[:, np.newaxis]
    closeness = arms @ arms.T
    np.fill_diagonal(closeness, -2.0)
    i, j = sorted(divmod(int(closeness.argmax()), number))
    return arms, arms[i] + 0.01 * (arms[j] - arms[i])


def mab(number: int, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Arms that give no information about each other."""
    return np.eye(number), gap * np.eye(number)[0]
