"""Pooling in one to three dimensions."""

from .harness import suite, table

CASES = table(
    "pooling",
    """
F.adaptive_avg_pool1d | F.adaptive_avg_pool1d(x1, 2)
F.adaptive_avg_pool2d | F.adaptive_avg_pool2d(x2, (1, 1))
F.adaptive_avg_pool3d | F.adaptive_avg_pool3d(x3, 2)
F.adaptive_max_pool1d | F.adaptive_max_pool1d(x1, 2)
F.adaptive_max_pool2d | F.adaptive_max_pool2d(x2, 2)
F.adaptive_max_pool3d | F.adaptive_max_pool3d(x3, 2)
F.avg_pool1d | F.avg_pool1d(x1, 2)
F.avg_pool2d | F.avg_pool2d(x2, 2)
F.avg_pool3d | F.avg_pool3d(x3, 2)
F.lp_pool2d | F.lp_pool2d(x2, 2.0, 2)
F.max_pool1d | F.max_pool1d(x1, 2)
F.max_pool2d | F.max_pool2d(x2, 3, 2, 1)
F.max_pool2d indices | F.max_pool2d(x2, 2, return_indices=True)
F.max_pool3d | F.max_pool3d(x3, 2)
F.fractional_max_pool2d | F.fractional_max_pool2d(x2, 2, output_size=(3, 3))
F.fractional_max_pool3d | F.fractional_max_pool3d(x3, 2, output_size=(3, 3, 3))
F.lp_pool1d | F.lp_pool1d(x1, 2.0, 2)
F.lp_pool3d | F.lp_pool3d(x3, 2.0, 2)
F.max_unpool2d | F.max_unpool2d(x2, spots, 2)
F.max_unpool1d | F.max_unpool1d(x1, spots1, 2)
F.max_unpool3d | F.max_unpool3d(x3, spots3, 2)
""",
)

Pooling = suite(CASES)
