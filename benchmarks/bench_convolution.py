"""Convolutions in one to three dimensions."""

from .harness import suite, table

CASES = table(
    "convolution",
    """
F.conv1d | F.conv1d(x1, k1, g)
F.conv2d | F.conv2d(x2, k2, g)
F.conv2d padded | F.conv2d(x2, k2, g, stride=2, padding=1)
F.conv2d same | F.conv2d(x2, k2, padding="same")
F.conv3d | F.conv3d(x3, k3, g)
F.conv_transpose1d | F.conv_transpose1d(x1, k1, g)
F.conv_transpose2d | F.conv_transpose2d(x2, k2, g)
F.conv_transpose3d | F.conv_transpose3d(x3, k3, g)
""",
)

Convolution = suite(CASES)
