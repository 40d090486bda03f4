"""PyTorch's functions that export operators to version 12 of ONNX's."""

from metatensor.torch_api.torch.onnx._symbolic import attribute

__getattr__ = attribute("symbolic_opset12")
