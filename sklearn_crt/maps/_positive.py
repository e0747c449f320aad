"""Positive features of a quadratic form, of single frequencies or of pairs w, -w."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..frequencies import Affine, Frequencies
from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._columns import PairedColumns
from ._gaussian import GaussianKernel
from ._quadratic import Quadratic
from .block_savings import positive_gap

_LARGEST = {"float32": 80.0, "float64": 700.0}  # exp of it, and of minus it, are finite
_FEW = 48  # coordinates, up to which a quotient costs more than half of the product


@dataclass(frozen=True, eq=False)
class PositiveMap(FrequencyMap):
    r"""Positive features exp(w'Aw + w'Bx + ...) of the Gaussian or softmax kernel.

    The columns are first those of all w that stand for a pair, then those of all -w,
    then those of single frequencies.

    Attributes
    ----------
    quadratic : Quadratic
        The exponent.
    columns : PairedColumns
        Which frequencies stand for w and -w.
    gaussian : GaussianKernel
        The kernel.
    """

    quadratic: Quadratic
    columns: PairedColumns
    gaussian: GaussianKernel

    @property
    def A(self) -> float | np.ndarray:
        """Coefficient of the square of the frequency, a number or a matrix."""
        return self.quadratic.coefficient

    @property
    def symmetric(self) -> bool:
        return self.quadratic.symmetric

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    @property
    def cosine(self) -> float | None:
        return super().cosine if self.quadratic.isotropic else None

    def frequency_index(self) -> np.ndarray:
        return self.columns.index

    @cached_property
    def _forms(self) -> tuple[Affine, Affine]:
        return self._form(key=False), self._form(key=True)

    def _form(self, key: bool) -> Affine:
        form = self.quadratic.form(self.frequencies, key=key)
        log_scale = np.full(self.n_frequencies, -0.5 * math.log(self.n_frequencies))
        log_scale[: self.columns.n_pairs] -= 0.5 * math.log(2)
        offsets = (form.offsets + log_scale).astype(form.frequencies.dtype)
        return Affine(form.frequencies, form.scale, offsets)

    @cached_property
    def _pair_factors(self) -> tuple[np.ndarray, np.ndarray]:
        """What features of w times those of -w are, but for the term of the row."""
        pairs = slice(None, self.columns.n_pairs)
        with np.errstate(over="ignore"):  # used in range alone
            plain, key = (np.exp(2 * form.offsets[pairs]) for form in self._forms)
        return plain, key

    @cached_property
    def _sizes(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Largest factor of the norm of a row, and largest offset."""
        plain, key = (
            (
                form.scale * math.sqrt(form.frequencies.sq_norms.max()),
                float(np.abs(form.offsets).max()),
            )
            for form in self._forms
        )
        return plain, key

    def _row_term(self, rows: UnitRows, key: bool) -> np.ndarray:
        return self.gaussian.plus_row_factor(
            self.quadratic.row_term(rows, key=key), rows
        )

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        form, row_term = self._forms[key], self._row_term(rows, key)
        rows = self.quadratic.rows(rows, key=key)
        if self._has_few(rows):
            return None, rows.affine(self._forms_of_columns[key], row_term, out)
        self._write_single(rows, form, row_term, out)
        plus, minus, _ = self.columns.split(out)
        np.subtract(2 * row_term, plus, out=minus)
        minus += 2 * form.offsets[: self.columns.n_pairs]
        return None, out

    @cached_property
    def _forms_of_columns(self) -> tuple[Affine, Affine]:
        """The forms of all columns, those of -w written out."""
        n_pairs = self.columns.n_pairs
        signs = np.ones(self.n_components, self.frequencies.dtype)
        signs[n_pairs : 2 * n_pairs] = -1
        index = self.columns.index

        def of_columns(form: Affine) -> Affine:
            weights = form.frequencies.to_dense()[:, index] * signs
            return Affine(Frequencies(weights), form.scale, form.offsets[index])

        one, other = self._forms
        return of_columns(one), of_columns(other)

    def features(self, rows: UnitRows, out: np.ndarray, *, key: bool = False) -> None:
        form, row_term = self._forms[key], self._row_term(rows, key)
        moved = self.quadratic.rows(rows, key=key)
        if self._has_few(moved):
            moved.affine(self._forms_of_columns[key], row_term, out)
            np.exp(out, out=out)
            return
        if not self._is_in_range(moved, row_term, key):
            super().features(rows, out, key=key)
            return
        self._write_single(moved, form, row_term, out)
        plus, minus, singles = self.columns.split(out)
        np.exp(plus, out=plus)
        if singles.shape[1]:
            np.exp(singles, out=singles)
        np.divide(np.exp(2 * row_term), plus, out=minus)
        minus *= self._pair_factors[key]

    def _write_single(
        self, rows: UnitRows, form: Affine, row_term: np.ndarray, out: np.ndarray
    ) -> None:
        """Write the log features of all w, one product for both of a pair."""
        plus, _, singles = self.columns.split(out)
        if singles.shape[1] in (0, out.shape[1]):
            rows.affine(form, row_term, plus if singles.shape[1] == 0 else singles)
            return
        room = np.empty((out.shape[0], self.n_frequencies), out.dtype)
        rows.affine(form, row_term, room)
        plus[:] = room[:, : self.columns.n_pairs]
        singles[:] = room[:, self.columns.n_pairs :]

    def _has_few(self, rows: UnitRows) -> bool:
        """Whether all columns come from a product with dense rows."""
        is_dense = isinstance(rows.stored[0], np.ndarray)
        return is_dense and self.columns.n_pairs > 0 and self.n_features <= _FEW

    def _is_in_range(self, rows: UnitRows, row_term: np.ndarray, key: bool) -> bool:
        """Whether features of -w may be had from one over those of w."""
        if self.columns.n_pairs == 0 or rows.shape[0] == 0:
            return False
        spread, offset = self._sizes[key]
        largest = spread * math.sqrt(rows.sq_norms.max())
        largest += 2 * offset + 2 * np.abs(row_term).max()
        return bool(largest < _LARGEST[rows.dtype.name])

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        n_pairs, n_single = self.columns.n_pairs, self.columns.n_single
        constant, spread, q = self.quadratic.pair_terms(X, Y)
        top = constant + spread  # all in units of exp(top) K^2
        total = n_single * -np.expm1(-top)
        if n_pairs:
            total = total + n_pairs * _pair_share(constant, spread, q)
        if self.n_pairs > 0 and self.cosine is not None:
            # w and -w: angles of either sign
            angles = {self.cosine, -self.cosine} if n_pairs else {self.cosine}
            gaps = [positive_gap(q, self.n_features, angle) for angle in angles]
            total = total - self.n_pairs * np.mean(gaps, axis=0) * np.exp(-top)
        log_unit = top - 2 * math.log(self.n_frequencies) - X.sq_distances(Y)
        return self.gaussian.variance(total, log_unit, X, Y)


def _pair_share(constant: float, spread: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return (exp(c + s) + exp(c - q) - 2) / 2 over exp(c + s), without cancellation.

    With mean mu and half difference delta of the exponents it is
    expm1(mu) + 2 exp(mu) sinh(delta / 2)^2, times exp(-mu - delta).
    """
    delta, mu = 0.5 * (spread + q), constant + 0.5 * (spread - q)
    near = -np.expm1(-np.clip(mu, -1, 1)) * np.exp(-delta)
    far = np.exp(-delta) - np.exp(-constant - spread)
    return 0.5 * np.expm1(-delta) ** 2 + np.where(np.abs(mu) < 1, near, far)
