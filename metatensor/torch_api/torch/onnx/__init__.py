"""Export to ONNX. Symbolic functions can be registered for custom operators."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Iterator
from typing import Any

from metatensor._core.absent import functions, kind
from metatensor._core.lazy import attributes

__all__ = ["ExportOptions", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode",
           "dynamo_export", "export", "is_in_onnx_export", "is_onnxrt_backend_supported", "register_custom_op_symbolic",
           "select_model_mode_for_export", "unregister_custom_op_symbolic"]  # fmt: skip

_opsets = tuple(f"symbolic_opset{version}" for version in range(7, 21))
__getattr__, __dir__ = attributes(
    __name__, ("errors", "operators", "symbolic_helper", "utils", *_opsets),
    {name: f"{__name__}._exporting:{name}" for name in ("ONNXProgram", "export")},
)  # fmt: skip

_WHY = "it belongs to PyTorch's older exporters; use onnx.export"


class OnnxExporterError(RuntimeError):
    """Base class of the exporter's errors."""


class TensorProtoDataType(enum.IntEnum):
    """The numbers that ONNX assigns to dtypes."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


class OperatorExportTypes(enum.Enum):
    """How operators that ONNX does not have are exported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(enum.Enum):
    """The mode in which a module is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


_made = functions("onnx", "dynamo_export select_model_mode_for_export", _WHY)
dynamo_export, select_model_mode_for_export = _made["dynamo_export"], _made["select_model_mode_for_export"]
ExportOptions = kind("onnx.ExportOptions", _WHY)


_now: list[bool] = []


@contextlib.contextmanager
def _exporting_now() -> Iterator[None]:
    """Let `is_in_onnx_export` return True inside."""
    _now.append(True)
    try:
        yield
    finally:
        _now.pop()


def is_in_onnx_export() -> bool:
    """Return True while `export` runs a module."""
    return bool(_now)


def is_onnxrt_backend_supported() -> bool:
    """Return False."""
    return False


_symbolics: dict[tuple[str, int], Callable[..., Any]] = {}
"""Registered functions by operator name and opset version."""


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Register the function that exports an operator, given as ``"namespace::name"``.

    `export` calls it with a graph and the operator's arguments. The graph has a method ``op("domain::Type", *inputs, name_i=..., ...)``.
    """
    if not re.fullmatch(r"[A-Za-z]\w*::[A-Za-z]\w*", symbolic_name, re.ASCII):
        raise OnnxExporterError(f'register_custom_op_symbolic: expected "namespace::name", got {symbolic_name!r}')
    _symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Remove a function registered by `register_custom_op_symbolic`."""
    _symbolics.pop((symbolic_name, opset_version), None)
