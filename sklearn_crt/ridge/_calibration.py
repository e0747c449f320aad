"""Calibration of predicted class indicators, which yields class probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import fmin_l_bfgs_b, root
from scipy.special import log_softmax, softmax

from ..life_cycle.intervals import LeftOut

# Penalties on the squares of the slope, the biases and the matrix, in units of rows.
# With three or more classes, adding a matrix to the slope and biases yields more
# correct labels, because the scores of one class contain information about the others.
_OF_SLOPE, _OF_BIASES, _OF_MATRIX = 1e-3, 0.01, 0.1
_SLOPE = 6.0  # initial slope in the search
_SEARCH = {"maxiter": 100, "factr": 1e-7 / np.finfo(float).eps}
# Options of the Newton steps that follow the search when the final model is fitted.
# The search stops only near the minimum. Without these steps, probabilities would
# visibly depend on rounding errors, for instance on the number of threads.
_REFINEMENT = {"maxiter": 20, "fatol": 1e-13}
# When candidates are compared, only a slope and biases are fitted, using about
# _COMPARED_ENTRIES entries of the predictions.
_COMPARED_ENTRIES, _LEAST_COMPARED = 2**16, 256


@dataclass(frozen=True, eq=False)
class Link:
    """Multinomial logistic regression of the labels on the predicted indicators.

    The probabilities are ``softmax(indicators @ coef + intercept)``, mixed with a small
    proportion of the class frequencies, so that no probability is 0 or 1.
    """

    coef: np.ndarray  # (n_classes, n_classes)
    intercept: np.ndarray  # (n_classes,)
    frequencies: np.ndarray  # (n_classes,)
    proportion: float

    @classmethod
    def of(cls, rows: LeftOut, frequencies: np.ndarray, n_rows: float) -> Link:
        """Return the link that fits the labels best, given leave-one-out predictions.

        ``frequencies`` are the class frequencies, (n_classes,), among ``n_rows`` rows.
        """
        n_classes = len(frequencies)
        if n_classes == 1:
            return cls(np.zeros((1, 1)), np.zeros(1), frequencies, 0.0)
        proportion = 1 / (1 + n_rows)  # as if the label of one more row were unknown
        found = _minimum(rows, frequencies, None, refine=True)[0]
        biases, matrix = found[1 : 1 + n_classes], found[1 + n_classes :]
        coef = found[0] * np.eye(n_classes)
        if matrix.size:
            coef += matrix.reshape(n_classes, n_classes)
        intercept = _logarithms(frequencies) + biases - frequencies @ coef
        frequencies = frequencies + proportion * (1 / n_classes - frequencies)
        return cls(coef, intercept, frequencies, proportion)

    def probabilities(self, predictions: np.ndarray) -> np.ndarray:
        """Return the class probabilities, (n, n_classes)."""
        if len(self.frequencies) == 1:
            return np.ones((len(predictions), 1))
        found = softmax(indicators(predictions) @ self.coef + self.intercept, axis=1)
        return found + self.proportion * (self.frequencies - found)


@dataclass(frozen=True, eq=False)
class ClippedIndicators:
    """Predicted indicators as class probabilities, without calibration."""

    frequencies: np.ndarray  # (n_classes,)

    def probabilities(self, predictions: np.ndarray) -> np.ndarray:
        """Return the indicators, between 0 and 1 and with sum 1, (n, n_classes)."""
        if len(self.frequencies) == 1:
            return np.ones((len(predictions), 1))
        found = np.clip(indicators(predictions), 0, 1)
        sums = found.sum(axis=1, keepdims=True)
        # if no indicator is positive, the class is unknown
        return np.where(sums > 0, found / np.where(sums > 0, sums, 1), self.frequencies)


class LogLoss:
    """The log loss of probabilities that are calibrated on the same rows.

    Each call starts from the parameters that the previous call found. They are close to
    the minimum if candidates are compared in the order of their penalties.
    """

    def __init__(self, frequencies: np.ndarray):
        self.frequencies = frequencies
        self._start: np.ndarray | None = None
        wanted = _COMPARED_ENTRIES // len(frequencies)
        self.n_rows = max(_LEAST_COMPARED, wanted)  # more rows would not help

    def __call__(self, rows: LeftOut) -> float:
        if len(self.frequencies) == 1:
            return 0.0
        found, loss = _minimum(rows, self.frequencies, self._start, refine=False)
        self._start = found
        return loss


def _minimum(
    rows: LeftOut,
    frequencies: np.ndarray,
    start: np.ndarray | None,
    *,
    refine: bool,
) -> tuple[np.ndarray, float]:
    """Return the parameters with the smallest penalised log loss, and this loss.

    The parameters are a slope and the biases. With ``refine``, the minimum is accurate
    up to rounding errors, and for three or more classes the parameters also contain the
    entries of a matrix.
    """
    known = np.isfinite(rows.predictions).all(axis=1)
    labels = indicators(rows.targets[known]).argmax(axis=1)
    centred = indicators(rows.predictions[known]) - frequencies
    weights = rows.weights[known] / max(rows.weights[known].sum(), 1e-300)
    each, n_classes = np.arange(len(labels)), len(frequencies)
    logs_of_frequencies = _logarithms(frequencies)
    with_matrix = refine and n_classes > 2
    sizes = 1, n_classes, n_classes**2 if with_matrix else 0
    penalties = np.repeat([_OF_SLOPE, _OF_BIASES, _OF_MATRIX], sizes)
    penalties *= weights @ weights  # relative to the effective number of rows

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slope, biases = parameters[0], parameters[1 : 1 + n_classes]
        logits = slope * centred + biases + logs_of_frequencies
        if with_matrix:
            logits += centred @ parameters[1 + n_classes :].reshape(n_classes, -1)
        logs = log_softmax(logits, axis=1)
        gap = np.exp(logs)
        gap[each, labels] -= 1
        gap *= weights[:, None]
        gradient = [np.array([np.sum(gap * centred)]), gap.sum(axis=0)]
        if with_matrix:
            gradient.append((centred.T @ gap).ravel())
        value = -weights @ logs[each, labels] + penalties @ parameters**2 / 2
        return float(value), np.concatenate(gradient) + penalties * parameters

    if start is None:
        start = np.zeros(len(penalties))
        start[0] = _SLOPE
    # ``minimize`` calls the same code, but its preparations take time with few rows
    bounds = [(0, None)] + [(None, None)] * (len(start) - 1)
    found, least, _ = fmin_l_bfgs_b(loss, start, bounds=bounds, **_SEARCH)
    if not refine:
        return found, float(least)
    moved = np.full(len(start), True)
    moved[0] = found[0] > 0  # if the slope is at its bound, it stays there

    def gradient(parameters: np.ndarray) -> np.ndarray:
        every = found.copy()
        every[moved] = parameters
        return loss(every)[1][moved]

    minimum = found.copy()
    # skipped if the minimum has been reached, for instance with a single label
    if np.abs(gradient(found[moved])).max() > _REFINEMENT["fatol"]:
        refined = root(gradient, found[moved], method="krylov", options=_REFINEMENT)
        if refined.success and not (moved[0] and refined.x[0] < 0):
            minimum[moved] = refined.x
    return minimum, loss(minimum)[0]


def _logarithms(frequencies: np.ndarray) -> np.ndarray:
    """Return the logarithms of class frequencies, finite even for frequency zero."""
    return np.log(np.maximum(frequencies, 1e-300))


def indicators(predictions: np.ndarray) -> np.ndarray:
    """Return one indicator column per class, even if there are only two classes."""
    if predictions.shape[1] > 1:
        return predictions
    return np.concatenate([1 - predictions, 1 + predictions], axis=1) / 2
