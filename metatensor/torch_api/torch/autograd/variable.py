"""The old class of tensors in a graph."""

from metatensor.torch_api.torch.autograd import Variable

__all__ = ["Variable"]
