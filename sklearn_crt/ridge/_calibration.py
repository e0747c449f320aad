"""Calibration of predicted class indicators, which yields class probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import softmax

from ..life_cycle.intervals import LeftOut

# Penalties on the squares of the slope, the biases and the matrix, in units of rows.
# With three or more classes, adding a matrix to the slope and biases yields more
# correct labels, because the scores of one class contain information about the others.
_OF_SLOPE, _OF_BIASES, _OF_MATRIX = 1e-3, 0.01, 0.1
_SLOPE = 6.0  # initial slope in the search
# The minimum is found by Newton's method, for which the second derivatives by more than
# _MOST_PARAMETERS parameters would be too many. A step that changes no logit by more
# than _SMALL needs no test that the loss decreases. The last step changes the logits by
# at most _COMPARED for losses that are only compared, or else _ACCURATE: probabilities
# would otherwise visibly depend on rounding errors, such as on the number of threads.
# Since the method converges quadratically, the remaining error is much smaller.
_MOST_PARAMETERS, _MOST_STEPS = 128, 100
_SMALL, _COMPARED, _ACCURATE = 0.1, 1e-3, 1e-9
# With more parameters, Newton steps without a matrix follow a search, which stops only
# near the minimum.
_SEARCH = {"maxiter": 100, "ftol": 1e-7}
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
    loss = _PenalisedLoss(
        rows, frequencies, with_matrix=refine and len(frequencies) > 2
    )
    if start is None:
        start = np.zeros(len(loss.penalties))
        start[0] = _SLOPE
    if not loss.weights.any():
        return start, 0.0
    if len(start) > _MOST_PARAMETERS:
        found = _searched(loss, start, refine=refine)
    else:
        found = _newton(loss, start, _ACCURATE if refine else _COMPARED)
    return found, loss.value(found)


class _PenalisedLoss:
    """The penalised log loss as a function of the slope, the biases and the matrix."""

    def __init__(self, rows: LeftOut, frequencies: np.ndarray, *, with_matrix: bool):
        known = np.isfinite(rows.predictions).all(axis=1)
        n_classes = len(frequencies)
        labels = indicators(rows.targets[known]).argmax(axis=1)
        self._own = np.arange(len(labels)), labels
        self._centred = indicators(rows.predictions[known]) - frequencies
        self.weights = rows.weights[known] / max(rows.weights[known].sum(), 1e-300)
        self._logs_of_frequencies = _logarithms(frequencies)
        # of the multinomial regression whose coefficients are biases and matrix
        self._columns = np.ones((len(labels), 1))  # (n, m)
        if with_matrix:
            self._columns = np.hstack([self._columns, self._centred])
        sizes = 1, n_classes, n_classes**2 if with_matrix else 0
        self.penalties = np.repeat([_OF_SLOPE, _OF_BIASES, _OF_MATRIX], sizes)
        # relative to the effective number of rows
        self.penalties *= self.weights @ self.weights

    def changes(self, parameters: np.ndarray) -> np.ndarray:
        """Return the part of the logits that is linear in the parameters."""
        coef = parameters[1:].reshape(self._columns.shape[1], -1)
        return parameters[0] * self._centred + self._columns @ coef

    def _log_probabilities(self, parameters: np.ndarray) -> np.ndarray:
        logits = self.changes(parameters) + self._logs_of_frequencies
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def _value(self, parameters: np.ndarray, logs: np.ndarray) -> float:
        squares = self.penalties @ parameters**2
        return float(squares / 2 - self.weights @ logs[self._own])

    def value(self, parameters: np.ndarray) -> float:
        """Return the loss."""
        return self._value(parameters, self._log_probabilities(parameters))

    def _gradient(self, parameters: np.ndarray, found: np.ndarray) -> np.ndarray:
        gap = found.copy()
        gap[self._own] -= 1
        gap *= self.weights[:, None]
        of_coef = self._columns.T @ gap
        gradient = np.append(np.sum(gap * self._centred), of_coef)
        return gradient + self.penalties * parameters

    def with_gradient(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its derivatives."""
        logs = self._log_probabilities(parameters)
        gradient = self._gradient(parameters, np.exp(logs))
        return self._value(parameters, logs), gradient

    def derivatives(
        self, parameters: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the loss, its derivatives and its second derivatives."""
        logs = self._log_probabilities(parameters)
        found = np.exp(logs)  # (n, n_classes)
        n_columns, n_classes = self._columns.shape[1], found.shape[1]
        weighted = self.weights[:, None] * found
        gap = self._centred - np.sum(found * self._centred, axis=1, keepdims=True)
        second = np.diag(self.penalties)
        second[0, 0] += np.sum(weighted * gap * self._centred)
        mixed = (self._columns.T @ (weighted * gap)).ravel()
        second[0, 1:], second[1:, 0] = mixed, mixed
        products = self._columns[:, :, None] * found[:, None]
        products = products.reshape(len(found), -1)  # (n, n_columns * n_classes)
        of_coef = second[1:, 1:]
        of_coef -= (self.weights[:, None] * products).T @ products
        blocks = of_coef.reshape(n_columns, n_classes, n_columns, n_classes)
        for k, each in enumerate(weighted.T):
            blocks[:, k, :, k] += self._columns.T @ (each[:, None] * self._columns)
        gradient = self._gradient(parameters, found)
        return self._value(parameters, logs), gradient, second


def _newton(loss: _PenalisedLoss, start: np.ndarray, most_change: float) -> np.ndarray:
    """Return the parameters of the minimum at which the slope is not negative."""
    found = start
    for _ in range(_MOST_STEPS):
        value, gradient, second = loss.derivatives(found)
        step = -np.linalg.solve(second, gradient)
        if found[0] == 0 and step[0] < 0:  # the slope stays at its bound
            step = np.append(0.0, -np.linalg.solve(second[1:, 1:], gradient[1:]))
        length = 1.0
        is_bounded = found[0] + step[0] < 0
        if is_bounded:
            length = -found[0] / step[0]
        change = length * float(np.abs(loss.changes(step)).max())
        slope = gradient @ step
        while change > _SMALL and (
            loss.value(found + length * step) > value + 1e-4 * length * slope
        ):
            length, change, is_bounded = length / 2, change / 2, False
        found = found + length * step
        if is_bounded:
            found[0] = 0.0
        elif change <= most_change:
            break
    return found


def _searched(loss: _PenalisedLoss, start: np.ndarray, *, refine: bool) -> np.ndarray:
    """Return the same parameters without second derivatives."""
    found = minimize(
        loss.with_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] + [(None, None)] * (len(start) - 1),
        options=_SEARCH,
    ).x
    if not refine:
        return found
    moved = np.full(len(start), True)
    moved[0] = found[0] > 0  # if the slope is at its bound, it stays there

    def gradient(parameters: np.ndarray) -> np.ndarray:
        every = found.copy()
        every[moved] = parameters
        return loss.with_gradient(every)[1][moved]

    minimum = found.copy()
    # skipped if the minimum has been reached, for instance with a single label
    if np.abs(gradient(found[moved])).max() > _REFINEMENT["fatol"]:
        refined = root(gradient, found[moved], method="krylov", options=_REFINEMENT)
        if refined.success and not (moved[0] and refined.x[0] < 0):
            minimum[moved] = refined.x
    return minimum


def _logarithms(frequencies: np.ndarray) -> np.ndarray:
    """Return the logarithms of class frequencies, finite even for frequency zero."""
    return np.log(np.maximum(frequencies, 1e-300))


def indicators(predictions: np.ndarray) -> np.ndarray:
    """Return one indicator column per class, even if there are only two classes."""
    if predictions.shape[1] > 1:
        return predictions
    return np.concatenate([1 - predictions, 1 + predictions], axis=1) / 2
