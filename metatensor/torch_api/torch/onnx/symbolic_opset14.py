"""Symbolic functions of PyTorch for ONNX opset 14."""

from metatensor.torch_api.torch.onnx._symbolic import attribute

__getattr__ = attribute("symbolic_opset14")
