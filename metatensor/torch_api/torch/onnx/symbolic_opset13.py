"""Symbolic functions of PyTorch for ONNX opset 13."""

from metatensor.torch_api.torch.onnx._symbolic import attribute

__getattr__ = attribute("symbolic_opset13")
