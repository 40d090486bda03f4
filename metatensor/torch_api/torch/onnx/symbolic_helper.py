"""Helpers for symbolic functions. The decorators return the function unchanged, because it is never called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.torch_api.torch.onnx import TensorProtoDataType
from metatensor.torch_api.torch.onnx._symbolic import attribute

__all__ = ["cast_pytorch_to_onnx", "parse_args", "quantized_args"]

cast_pytorch_to_onnx = {
    "Byte": TensorProtoDataType.UINT8, "Char": TensorProtoDataType.INT8, "Double": TensorProtoDataType.DOUBLE,
    "Float": TensorProtoDataType.FLOAT, "Half": TensorProtoDataType.FLOAT16, "Int": TensorProtoDataType.INT32,
    "Long": TensorProtoDataType.INT64, "Short": TensorProtoDataType.INT16, "Bool": TensorProtoDataType.BOOL,
    "ComplexFloat": TensorProtoDataType.COMPLEX64, "ComplexDouble": TensorProtoDataType.COMPLEX128,
    "BFloat16": TensorProtoDataType.BFLOAT16, "Undefined": TensorProtoDataType.UNDEFINED,
}  # fmt: skip


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda fn: fn


def quantized_args(*arg_q_descriptors: bool, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda fn: fn


__getattr__ = attribute("symbolic_helper", "_get_const _get_tensor_rank _get_tensor_sizes _is_none _maybe_get_const _unimplemented")
