"""The old class of tensors in a graph."""

from metatensor.autograd import Variable

__all__ = ["Variable"]
