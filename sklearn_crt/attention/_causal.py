"""Causal attention within a chunk, where each row attends to keys up to its own."""

from __future__ import annotations

import math
from functools import partial

from ..arrays.loops import (
    LogSum,
    exp_features,
    itemsize,
    least_log,
    log_sum,
    weights_from_logs,
)
from ..arrays.namespaces import (
    Array,
    constant,
    namespace_of,
    positions,
    transposed,
    values_are_known,
    without_gradient,
)
from ._features import Features

# number of chunks per group: running sums are formed within groups, then over groups
_GROUP = 8
# largest spread of exponents at which products of features keep full precision, by
# itemsize
_SAFE = {4: 30.0, 8: 300.0}


def cut(array: Array, size: int, axis: int = -2, fill: float = 0.0) -> Array:
    """Split an axis into pieces of equal size along a new axis; pad the last piece."""
    xp, before = namespace_of(array), array.shape[:axis]
    n, after = array.shape[axis], array.shape[axis:][1:]
    n_pieces = -(-n // size)
    if isinstance(n, int):
        if n_pieces * size > n:
            rest = constant((*before, n_pieces * size - n, *after), fill, array)
            array = xp.concat([array, rest], axis=axis)
        return xp.reshape(array, (*before, n_pieces, size, *after))
    # If a program is compiled for all lengths, n is symbolic, so the code cannot branch
    # on whether there is a remainder. The compiler can only prove that the number of
    # pieces divides the padded length if this number is not written as a sum.
    n_pieces = (n + 2 * size - 1) // size
    index = positions(n_pieces * size, array)
    array = xp.take(array, xp.clip(index, 0, n - 1), axis=axis)
    inside = xp.reshape(index < n, (-1, *(1 for _ in after)))
    array = xp.where(inside, array, xp.full_like(array, fill))
    return xp.reshape(array, (*before, n_pieces, size, *after))


def uncut(pieces: Array, n: int, axis: int = -2) -> Array:
    """Undo ``cut``: join the pieces and return the first n entries along the axis."""
    xp, (n_pieces, size, *after) = namespace_of(pieces), pieces.shape[axis - 1 :]
    whole = xp.reshape(pieces, (*pieces.shape[: axis - 1], n_pieces * size, *after))
    if isinstance(n, int):
        return whole[(..., slice(n), *(slice(None) for _ in after))]
    # a slice would require n to be an integer, but here it is symbolic
    return xp.take(whole, positions(n, whole), axis=axis)


def causal_block(
    before: LogSum | None, queries: Features, keys: Features, values: Array
) -> tuple[LogSum, LogSum]:
    """Return the numerators for the rows of a chunk, and the sums up to its last key.

    The numerator of a row is a sum over all keys up to that row. If the exponents of
    the keys lie close together, one matrix product of the features suffices. Otherwise
    a key may underflow relative to a later key, so the chunk is halved recursively.
    """
    # values (..., n_rows, n_values + 1)
    inside = keys.sum_over_rows(values)
    after = inside if before is None else before.plus(inside)
    if values.shape[-2] == 1:  # a single row attends to all keys
        return queries.times(after), after
    if _is_narrow(before, after, keys):
        return _one_product(before, after, queries, keys, values), after
    numerators = _numerators_by_halving(queries, keys, values)
    if before is not None:
        numerators = numerators.plus(queries.times(before))
    return numerators, after


def _one_product(before, after, queries, keys, values):
    xp, n = namespace_of(values), values.shape[-2]
    shift = transposed(after.log_scale)
    left, log_scale = weights_from_logs(queries.exponent + shift, queries.mantissa)
    right = exp_features(keys.mantissa, keys.exponent - shift)
    index = positions(n, values)
    seen = index[:, None] >= index[None, :]
    products = xp.matmul(left, transposed(right))
    products = xp.where(seen, products, xp.zeros_like(products))
    numerators = xp.matmul(products, values)
    if before is not None:
        sums = before.values * xp.exp(before.log_scale - after.log_scale)
        numerators = numerators + xp.matmul(left, sums)
    return LogSum(numerators, log_scale)


def _is_narrow(before, after, keys):
    """Return whether all keys can share the scale of the chunk without underflow."""
    if not values_are_known(keys.exponent):  # halving is correct for any exponents
        return False
    xp, exponent = namespace_of(after.values), without_gradient(keys.exponent)
    safe, shift = _SAFE[itemsize(exponent)], transposed(after.log_scale)
    hidden = exponent == -xp.inf
    within = hidden | (shift - exponent <= safe)
    try:
        if before is not None and bool(xp.any(hidden)):
            # a row whose own key is masked needs earlier keys, which must not underflow
            within = within & (shift - transposed(before.log_scale) <= safe)
        return bool(xp.all(within))
    except TypeError:  # during tracing by a compiler, there are no values to branch on
        return False


def _numerators_by_halving(queries, keys, values):
    """Return the numerators within a chunk by repeatedly halving blocks of rows.

    At each level, the second half of a block attends to all keys of its first half.
    """
    n = values.shape[-2]
    if n & (n - 1):
        raise ValueError(
            f"the number of rows in a chunk must be a power of two, got {n}."
        )
    xp = namespace_of(values)
    # every row attends to its own key
    own = queries.exponent + keys.exponent
    weights, log_scale = weights_from_logs(own, queries.mantissa)
    if keys.mantissa is not None:
        weights = weights * keys.mantissa
    weights = xp.sum(weights, axis=-1, keepdims=True)
    numerators = LogSum(weights * values, log_scale)
    size = n // 2
    while size:
        early, late = partial(_early, size=size), partial(_late, size=size)
        seen = queries.map(late).times(keys.map(early).sum_over_rows(early(values)))
        least = constant(seen.log_scale.shape, least_log(values), values)
        nothing = LogSum(xp.zeros_like(seen.values), least)
        level = LogSum(
            *(
                uncut(xp.concat([none, some], axis=-2), n)
                for none, some in zip(nothing, seen, strict=True)
            )
        )
        numerators = numerators.plus(level)
        size //= 2
    return numerators


def _early(array, size):
    """Return the first halves of blocks of 2 * size rows, (..., n_blocks, size, c)."""
    return _blocks(array, size)[..., :size, :]


def _late(array, size):
    return _blocks(array, size)[..., size:, :]


def _blocks(array, size):
    xp, (n, width) = namespace_of(array), array.shape[-2:]
    return xp.reshape(array, (*array.shape[:-2], n // (2 * size), 2 * size, width))


# ------------------------------------------------------------------ all chunks at once
# In compiled programs and on accelerators, this code branches neither on values nor on
# the number of chunks. A single compiled program therefore works for all sequence
# lengths, and no step waits for the device.
def causal_blocks(
    before: LogSum | None, queries: Features, keys: Features, values: Array, size: int
) -> tuple[LogSum, LogSum]:
    """Return the results of ``causal_block`` for all chunks at once."""
    # values (..., n_rows, n_values + 1)
    n = values.shape[-2]
    while isinstance(n, int) and size >= 2 * n:
        size //= 2
    pieces = partial(cut, size=size)
    hidden = partial(cut, size=size, fill=-math.inf)
    mantissa = None if keys.mantissa is None else pieces(keys.mantissa)
    queries, keys = queries.map(pieces), Features(mantissa, hidden(keys.exponent))
    values = pieces(values)
    earlier, after = _running_sums(keys.sum_over_rows(values))
    if before is not None:
        earlier = earlier.plus(LogSum(*(part[..., None, :, :] for part in before)))
        after = after.plus(before)
    numerators = _numerators_by_halving(queries, keys, values).plus(
        queries.times(earlier)
    )
    return LogSum(*(uncut(part, n) for part in numerators)), after


def _running_sums(sums):
    """Return the sum over the chunks before each chunk, and the sum over all chunks."""
    # sums: LogSum of arrays (..., n_chunks, m, k)
    n = sums.values.shape[-3]
    fills = 0.0, -math.inf
    pairs = zip(sums, fills, strict=True)
    groups = LogSum(*(cut(part, _GROUP, axis=-3, fill=fill) for part, fill in pairs))
    inside = _all_before(groups)
    outside = _all_before(LogSum(*(part[..., -1, :, :] for part in inside)))
    group = LogSum(*(part[..., :-1, None, :, :] for part in outside))
    within = LogSum(*(part[..., :-1, :, :] for part in inside))
    before = LogSum(*(uncut(part, n, axis=-3) for part in within.plus(group)))
    return before, LogSum(*(part[..., -1, :, :] for part in outside))


def _all_before(sums):
    """Return the sums over the first 0, 1, ..., n entries of the third-last axis."""
    # LogSum of arrays (..., n, m, k) -> (..., n + 1, m, k)
    xp, n = namespace_of(sums.values), sums.values.shape[-3]
    logs = xp.moveaxis(sums.log_scale, -3, -1)  # (..., m, 1, n)
    places = positions(n + 1, logs)
    earlier = places[:, None] > places[None, :-1]
    logs = xp.where(earlier, logs, xp.full_like(logs, -math.inf))
    found = log_sum(logs, xp.moveaxis(sums.values, -3, -2))  # (..., m, n + 1, k)
    return LogSum(*(xp.moveaxis(part, -2, -3) for part in found))
