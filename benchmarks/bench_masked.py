"""Masked reductions and normalisations, and histograms."""

from .harness import suite, table

REDUCTIONS = "amax amin argmax argmin cumprod cumsum log_softmax logsumexp mean median prod softmax softmin std sum var".split()

CASES = table(
    "masked",
    "".join(f"masked.{name} | m.masked.{name}(a, 1, mask=k)\n" for name in REDUCTIONS)
    + """
masked.logaddexp | m.masked.logaddexp(a, b, input_mask=k, other_mask=l)
masked.norm | m.masked.norm(a, 2, 1, mask=k)
masked.normalize | m.masked.normalize(a, 2, 1, mask=k)
histc | m.histc(a, 4, 0.0, 2.0) | np.histogram(a, 4, (0.0, 2.0))
histogram | m.histogram(a, 4, range=(0.0, 2.0)) | np.histogram(a, 4, (0.0, 2.0))
histogram bins | m.histogram(a, row) | np.histogram(a, 3)
histogramdd | m.histogramdd(a, [2, 2, 2])
""",
)

Masked = suite(CASES)
