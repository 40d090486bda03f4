"""The legacy location of `Variable`."""

from metatensor.autograd import Variable

__all__ = ["Variable"]
