"""Sorting, searching and statistics."""

from .harness import suite, table

CASES = table(
    "sorting",
    """
argsort | m.argsort(a) | np.argsort(a)
bucketize | m.bucketize(a, row) | np.searchsorted(row, a)
corrcoef | m.corrcoef(a) | np.corrcoef(a)
cov | m.cov(a) | np.cov(a)
cumulative_trapezoid | m.cumulative_trapezoid(a)
gradient | m.gradient(a) | np.gradient(a)
mode | m.mode(a, 1)
msort | m.msort(a) | np.sort(a, axis=0)
nanquantile | m.nanquantile(a, 0.5) | np.nanquantile(a, 0.5)
renorm | m.renorm(a, 2, 0, 1.0)
searchsorted | m.searchsorted(row, a) | np.searchsorted(row, a)
sort | m.sort(a) | np.sort(a)
topk | m.topk(a, 2)
trapezoid | m.trapezoid(a) | np.trapezoid(a)
unravel_index | m.unravel_index(i, (2, 3)) | np.unravel_index(i, (2, 3))
""",
)

Sorting = suite(CASES)
