"""Signs of monomials: whether coordinates below zero have an odd exponent in common."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from ..rows import UnitRows

_WORD = 64  # bits
_SCRATCH = 2**18  # words in flight
_MADE = {"_tables", "_of_shift_"}  # from the bits, again and again


class Parities:
    """The counts modulo 2 as bits, of which rows take exclusive ors.

    A monomial changes its sign with each odd exponent of a coordinate below zero. So
    the sign bits of a row are the exclusive or of the bits of these coordinates: exact
    for counts of any size, 64 frequencies at a time.

    Parameters
    ----------
    counts : ndarray of shape (n_features, n_frequencies)
        Integers, as floats of any type.
    """

    def __init__(self, counts: np.ndarray):
        self.n_features, self.n_frequencies = counts.shape
        words = -(-self.n_frequencies // _WORD)
        padded = np.zeros((self.n_features, words * _WORD // 8), np.uint8)
        bits = np.packbits(np.mod(counts, 2) != 0, axis=1)
        padded[:, : bits.shape[1]] = bits
        self._bits = padded.view(np.uint64)

    def __getstate__(self) -> dict[str, object]:
        """Return what cannot be made again."""
        return {k: v for k, v in self.__dict__.items() if k not in _MADE}

    def to_dense(self) -> np.ndarray:
        """Write the counts modulo 2 out.

        Returns
        -------
        odd : ndarray of uint8 of shape (n_features, n_frequencies)
            Zeros and ones.
        """
        octets = self._bits.view(np.uint8)
        return np.unpackbits(octets, axis=1, count=self.n_frequencies)

    def are_odd(self, rows: UnitRows) -> np.ndarray:
        """Return whether monomials of rows are negative, where they are not zero.

        Parameters
        ----------
        rows : UnitRows
            Rows x.

        Returns
        -------
        odd : ndarray of uint8 of shape (n_rows, n_frequencies)
            One where an odd number of changes of the sign is left.
        """
        stored, shift = rows.stored
        if isinstance(stored, np.ndarray):
            words = self._of_table(stored < 0)
        elif shift is None:
            words = self._of_entries(stored, stored.data < 0)
        else:  # those of what is not stored first, which entries undo
            less = shift[stored.indices]
            words = self._of_entries(stored, (stored.data < less) != (less > 0))
            words ^= self._of_shift(shift)
        return np.unpackbits(words.view(np.uint8), axis=1, count=self.n_frequencies)

    def _of_shift(self, shift: np.ndarray) -> np.ndarray:
        """Return the exclusive or of the row -shift, kept for the next chunk."""
        known, words = self.__dict__.get("_of_shift_", (None, None))
        if known is None or np.any(known != shift):
            words = np.bitwise_xor.reduce(self._bits[shift > 0], axis=0)
            self.__dict__["_of_shift_"] = shift.copy(), words
        return words

    @cached_property
    def _tables(self) -> np.ndarray:
        """Exclusive ors for all subsets of each eight coordinates.

        Of shape (n_eights, 256, n_words); the first coordinate is the highest bit of
        the index, as ``packbits`` has it.
        """
        n_eights = -(-self.n_features // 8)
        bits = np.zeros((n_eights * 8, self._bits.shape[1]), np.uint64)
        bits[: self.n_features] = self._bits
        tables = np.zeros((n_eights, 256, bits.shape[1]), np.uint64)
        for k in range(8):
            with_it = slice(2**k, 2 ** (k + 1))
            np.bitwise_xor(
                tables[:, : 2**k], bits[7 - k :: 8, None], out=tables[:, with_it]
            )
        return tables

    def _of_table(self, negative: np.ndarray) -> np.ndarray:
        """Return the exclusive ors over the true coordinates of each row, as words."""
        tables, index = self._tables, np.packbits(negative, axis=1)
        if len(index) == 1:
            chosen = tables[np.arange(len(tables)), index[0]]
            return np.bitwise_xor.reduce(chosen, axis=0)[None]
        total = tables[0].take(index[:, 0], axis=0)
        part = np.empty_like(total)
        for table, column in zip(tables[1:], index.T[1:], strict=True):
            table.take(column, axis=0, out=part, mode="clip")  # which needs no buffer
            np.bitwise_xor(total, part, out=total)
        return total

    def _of_entries(self, stored: sparse.csr_array, counted: np.ndarray) -> np.ndarray:
        """Return the exclusive ors over some of the entries of each row, as words."""
        indptr = np.concatenate([[0], np.cumsum(counted)])[stored.indptr]
        indices, n_words = stored.indices[counted], self._bits.shape[1]
        words = np.zeros((len(indptr) - 1, n_words), np.uint64)
        step = max(1, _SCRATCH * len(words) // max(1, indices.size * n_words))
        for start in range(0, len(words), step):
            ends = indptr[start : start + step + 1]
            sums = np.zeros((ends[-1] - ends[0] + 1, n_words), np.uint64)
            entries = indices[ends[0] : ends[-1]]
            np.take(self._bits, entries, axis=0, out=sums[1:], mode="clip")
            np.bitwise_xor.accumulate(sums, axis=0, out=sums)
            ends = ends - ends[0]
            words[start : start + step] = sums[ends[1:]] ^ sums[ends[:-1]]
        return words


def flip_signs(values: np.ndarray, odd: np.ndarray) -> None:
    """Change the sign of the values that are marked.

    Parameters
    ----------
    values : ndarray of float32 or float64
        Overwritten.
    odd : ndarray of uint8 of the same shape
        One where the sign changes, else zero.
    """
    word = np.dtype(f"u{values.itemsize}")
    bits = values.view(word)
    masks = np.left_shift(odd, 8 * values.itemsize - 1, dtype=word)
    np.bitwise_xor(bits, masks, out=bits)
