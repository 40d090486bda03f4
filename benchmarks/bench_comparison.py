"""Comparison and logical ops, which return bool."""

from .harness import suite, table

CASES = table(
    "comparison",
    """
a == b | a == b | a == b
a < 1 | a < 1 | a < 1
k & l | k & l | k & l
~k | ~k | ~k
eq | m.eq(a, b) | np.equal(a, b)
ne | m.ne(a, b) | np.not_equal(a, b)
lt | m.lt(a, b) | np.less(a, b)
le | m.le(a, b) | np.less_equal(a, b)
gt | m.gt(a, b) | np.greater(a, b)
ge | m.ge(a, b) | np.greater_equal(a, b)
isclose | m.isclose(a, b) | np.isclose(a, b)
isfinite | m.isfinite(a) | np.isfinite(a)
isin | m.isin(i, j) | np.isin(i, j)
isinf | m.isinf(a) | np.isinf(a)
isnan | m.isnan(a) | np.isnan(a)
isneginf | m.isneginf(a) | np.isneginf(a)
isposinf | m.isposinf(a) | np.isposinf(a)
isreal | m.isreal(a) | np.isreal(a)
logical_and | m.logical_and(k, l) | np.logical_and(k, l)
logical_not | m.logical_not(k) | np.logical_not(k)
logical_or | m.logical_or(k, l) | np.logical_or(k, l)
logical_xor | m.logical_xor(k, l) | np.logical_xor(k, l)
""",
)

Comparison = suite(CASES)
