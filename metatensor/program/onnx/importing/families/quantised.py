"""Quantised operators: a small integer q represents scale * (q - zero point)."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.dtypes import SMALL, held_dtype
from metatensor.program.onnx.importing.families.conversions import BITS, cast
from metatensor.program.onnx.importing.families.convolutions import convolved
from metatensor.program.onnx.importing.operators import CONTRIB, Node, operator
from metatensor.program.onnx.importing.values import OnnxError, Small, element_kind, plain

__all__: list[str] = []


def _spread(t: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """Return a scale or zero point so that it broadcasts against a tensor."""
    if t.ndim == 0 or t.ndim == 1 and t.shape[0] == 1:
        return t.reshape(())
    if block:
        return t.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if t.ndim == 1:
        view = [1] * x.ndim
        view[axis] = t.shape[0]
        return t.reshape(view)
    return t


def _limits(kind: int) -> tuple[int, int]:
    if kind in BITS:
        bits = BITS[kind]
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if SMALL[kind] is mt.int8 else (0, (1 << bits) - 1)
    info = mt.iinfo(held_dtype(kind))
    return info.min, info.max


def _quantised(x: Tensor, scale: Tensor, zero: Tensor | None, kind: int, saturate: bool = True) -> Any:
    """Return numbers of an element type."""
    wide = mt.float32 if x.dtype.itemsize <= 2 or not x.is_floating_point() else x.dtype
    y = x.to(wide) / scale.to(wide)
    if kind == 23 or kind not in SMALL and held_dtype(kind).is_floating_point:
        return cast(y if zero is None else y + zero.to(wide), kind, saturate)
    low, high = _limits(kind)
    rounded = mt.round(y)
    if zero is not None:
        rounded = rounded + zero.to(wide)
    made = mt.clamp(rounded, low, high).to(held_dtype(kind))
    return Small(made, kind) if kind in SMALL else made


@operator("QuantizeLinear", small=True)
@operator("QuantizeLinear", small=True, domain=CONTRIB)
def _quantize(node: Node, x: Tensor, scale: Tensor, zero: Any = None) -> Any:
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    kind = node.get("output_dtype", 0) or (2 if zero is None else element_kind(zero))
    axis = axis % x.ndim if x.ndim else 0
    precision = node.get("precision", 0)
    x = x.to(held_dtype(precision)) if precision else x
    spread = None if zero is None else _spread(plain(zero), x, axis, block)
    return _quantised(x, _spread(scale, x, axis, block), spread, kind, bool(node.get("saturate", 1)))


def _numbers(value: Any) -> Tensor:
    """Return the numbers of a quantised tensor as int32, or as float32."""
    t = plain(value)
    return t.to(mt.float32 if t.is_floating_point() else mt.int32)


@operator("DequantizeLinear", small=True)
@operator("DequantizeLinear", small=True, domain=CONTRIB)
def _dequantize(node: Node, value: Any, scale: Tensor, zero: Any = None) -> Tensor:
    x = _numbers(value)
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    axis = axis % x.ndim if x.ndim else 0
    if zero is not None:
        x = x - _spread(_numbers(zero), x, axis, block)
    dtype = held_dtype(node.get("output_dtype", 0)) if node.get("output_dtype", 0) else scale.dtype
    wide = mt.float32 if scale.dtype.itemsize < 4 else scale.dtype
    return (x.to(wide) * _spread(scale, x, axis, block).to(wide)).to(dtype)


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(node: Node, x: Tensor) -> Any:
    low, high = mt.clamp(x.min(), max=0.0), mt.clamp(x.max(), min=0.0)
    scale = (high - low) / 255.0
    zero = mt.clamp(mt.round(-low / scale), 0, 255)
    return mt.clamp(mt.round(x / scale) + zero, 0, 255).to(mt.uint8), scale, zero.to(mt.uint8)


def _centred(x: Tensor, zero: Tensor | None, columns: bool = False) -> Tensor:
    """Subtract the zero point, which may differ by row or, with `columns`, by column, in int32."""
    y = x.to(mt.int32)
    if zero is None:
        return y
    zero = zero.to(mt.int32)
    if zero.ndim == 1 and zero.shape[0] > 1 and not columns:
        zero = zero.reshape(-1, 1)
    return y - (zero.reshape(()) if zero.numel() == 1 else zero)


@operator("MatMulInteger")
def _matmul_integer(node: Node, a: Tensor, b: Tensor, a_zero: Any = None, b_zero: Any = None) -> Tensor:
    return mt.matmul(_centred(a, a_zero), _centred(b, b_zero, True))


@operator("QLinearMatMul")
def _qlinear_matmul(
    node: Node, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, scale: Tensor, zero: Tensor,
) -> Any:  # fmt: skip
    y = mt.matmul(_centred(a, a_zero), _centred(b, b_zero, True))
    rows = a_scale.reshape(-1, 1) if a_scale.ndim == 1 and a_scale.shape[0] > 1 else a_scale
    return _quantised(y.to(mt.float32) * (rows.to(mt.float32) * b_scale.to(mt.float32)), scale, zero, element_kind(zero))


@operator("ConvInteger")
def _conv_integer(node: Node, x: Tensor, w: Tensor, x_zero: Any = None, w_zero: Any = None) -> Tensor:
    x = x.to(mt.int32) if x_zero is None else x.to(mt.int32) - x_zero.to(mt.int32).reshape(())
    return convolved(node, x, _kernel(w, w_zero))


def _kernel(w: Tensor, zero: Tensor | None) -> Tensor:
    """Subtract the zero point, which may differ by output channel, from a kernel."""
    w = w.to(mt.int32)
    if zero is None:
        return w
    zero = zero.to(mt.int32)
    return w - (zero.reshape(()) if zero.numel() == 1 else zero.reshape((-1,) + (1,) * (w.ndim - 1)))


@operator("QLinearConv")
def _qlinear_conv(
    node: Node, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor, scale: Tensor, zero: Tensor,
    bias: Tensor | None = None,
) -> Any:
    y = convolved(node, x.to(mt.int32) - x_zero.to(mt.int32).reshape(()), _kernel(w, w_zero), bias)
    per = x_scale.reshape(()) * (w_scale.reshape(()) if w_scale.numel() == 1 else w_scale.reshape((-1,) + (1,) * (x.ndim - 2)))
    return _quantised(y.to(mt.float32) * per, scale.reshape(()), zero.reshape(()), element_kind(zero))


# Fused operators of onnxruntime -----------------------------------------------------------------------


def _pair(name: str, fn: Any) -> None:
    def call(
        node: Node, a: Tensor, a_scale: Tensor, a_zero: Any, b: Tensor, b_scale: Tensor, b_zero: Any, scale: Tensor, zero: Any = None,
    ) -> Any:  # fmt: skip
        def whole(x: Tensor, s: Tensor, z: Any) -> Tensor:
            return (x.to(mt.int32) if z is None else x.to(mt.int32) - z.to(mt.int32)).to(mt.float32) * s

        return _quantised(fn(whole(a, a_scale, a_zero), whole(b, b_scale, b_zero)), scale, zero, element_kind(a))

    operator(name, domain=CONTRIB)(call)


_pair("QLinearAdd", mt.add)
_pair("QLinearMul", mt.mul)


@operator("MatMulNBits", domain=CONTRIB)
def _matmul_nbits(
    node: Node, a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None, group: Any = None, bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    bits, k, n, block = node.get("bits", 4), node.need("K"), node.need("N"), node.need("block_size")
    if bits not in (4, 8) or group is not None:
        raise NotImplementedError(f"MatMulNBits of {bits} bits{' with group indices' if group is not None else ''} is not supported")
    blocks = -(-k // block)

    def unpacked(packed: Tensor, width: int) -> Tensor:
        if bits == 8:
            return packed.to(a.dtype)
        low = mt.bitwise_and(packed, 15)
        return mt.stack([low, mt.bitwise_right_shift(packed, 4)], -1).flatten(-2)[..., :width].to(a.dtype)

    w = unpacked(b.reshape(n, blocks, -1), block)
    if zeros is None:
        w = w - (1 << bits - 1)
    elif zeros.is_floating_point():
        w = w - zeros.reshape(n, blocks, 1)
    else:
        w = w - unpacked(zeros.reshape(n, -1), blocks).reshape(n, blocks, 1)
    whole = (w * scales.reshape(n, blocks, 1)).reshape(n, blocks * block)[:, :k]
    if not 0 < k:
        raise OnnxError("K must be positive")
    return mt.nn.functional.linear(a, whole, bias)


@operator("DynamicQuantizeMatMul", domain=CONTRIB)
def _dynamic_matmul(node: Node, a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Any = None, bias: Tensor | None = None) -> Tensor:
    q, scale, zero = _dynamic_quantize(node, a)
    y = mt.matmul(_centred(q, zero), _centred(b, b_zero, True)).to(a.dtype) * (scale * b_scale)
    return y if bias is None else y + bias


@operator("MatMulIntegerToFloat", domain=CONTRIB)
def _matmul_to_float(
    node: Node, a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Any = None, b_zero: Any = None, bias: Any = None,
) -> Tensor:  # fmt: skip
    y = mt.matmul(_centred(a, a_zero), _centred(b, b_zero, True)).to(a_scale.dtype) * (a_scale * b_scale)
    return y if bias is None else y + bias
