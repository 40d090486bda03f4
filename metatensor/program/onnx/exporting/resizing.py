"""Conversions of resizing and sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

import metatensor as mt
from metatensor.program.onnx.exporting.graph import Graph, Size, Var
from metatensor.program.onnx.exporting.table import CONVERSIONS, Declined, conversion, pair

__all__: list[str] = []

_LINEAR = ("linear", "bilinear", "trilinear")


@conversion("nn.functional.interpolate", "nn.functional.upsample", "nn.functional.upsample_nearest", "nn.functional.upsample_bilinear")
def _interpolate(g: Graph, a: Any, result: Any) -> Var:
    x, n = a.input, len(result.shape) - 2
    name = a.overload
    mode = "nearest" if "upsample_nearest" in name else "bilinear" if "upsample_bilinear" in name else a.mode
    aligned = True if "upsample_bilinear" in name else bool(getattr(a, "align_corners", None))
    sizes, out = x.shape[2:], result.shape[2:]
    if mode == "area":
        a.output_size, a.overload = list(out), f"nn.functional.adaptive_avg_pool{n}d"
        return CONVERSIONS[a.overload](g, a, result)  # type: ignore[no-any-return]
    factors = getattr(a, "scale_factor", None)
    given = factors is not None and not getattr(a, "recompute_scale_factor", None)
    scales = [float(f) for f in pair(factors, n)] if given else None
    if mode in ("nearest", "nearest-exact"):
        return _nearest(g, x, sizes, out, scales, mode, result)
    if getattr(a, "antialias", False):
        return _antialiased(g, x, sizes, out, scales, mode, aligned)
    options: dict[str, Any] = {"coordinate_transformation_mode": "align_corners" if aligned else "half_pixel"}
    if mode in _LINEAR:
        options["mode"] = "linear"
    elif mode == "bicubic":
        options.update(mode="cubic", cubic_coeff_a=-0.75)
    else:
        raise Declined(f"mode {mode!r}")
    within = x if x.dtype in (mt.float32, mt.float16) else g.cast(x, mt.float32)
    if scales is not None and not aligned:
        return g.op("Resize", within, None, g.constant([1.0, 1.0, *scales], mt.float32), **options)
    return g.op("Resize", within, None, None, g.ints(result.shape), **options)


def _antialiased(g: Graph, x: Var, sizes: Any, out: Any, scales: list[float] | None, mode: str, aligned: bool) -> Var:
    """Products with the matrices of the weights, one dimension after the other. Runtimes disagree about Resize with antialias."""
    if aligned or mode not in ("bilinear", "bicubic") or any(isinstance(v, Size) for v in (*sizes, *out)):
        raise Declined(f"antialias with mode {mode!r}, or sizes with names")
    rows, columns = (_weights(sizes[d], out[d], sizes[d] / out[d] if scales is None else 1 / scales[d], mode) for d in (0, 1))
    found = g.op("MatMul", x, g.constant(columns.T, x.dtype))
    return g.op("MatMul", g.constant(rows, x.dtype), found, dtype=x.dtype)


def _weights(size: int, out: int, scale: float, mode: str) -> np.ndarray:
    """Return the weights of the elements of a dimension in each element of the result."""
    radius = 1.0 if mode == "bilinear" else 2.0
    support, shrink = (radius * scale, 1 / scale) if scale >= 1 else (radius, 1.0)
    found = np.zeros((out, size))
    for i in range(out):
        center = scale * (i + 0.5)
        begin, end = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), size)
        distance = np.abs((np.arange(begin, end) - center + 0.5) * shrink)
        if mode == "bilinear":
            weights = np.maximum(1 - distance, 0)
        else:
            near = (1.5 * distance - 2.5) * distance * distance + 1
            far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
            weights = np.where(distance < 1, near, np.where(distance < 2, far, 0))
        found[i, begin:end] = weights / weights.sum()
    return found


def _nearest(g: Graph, x: Var, sizes: Any, out: Any, scales: list[float] | None, mode: str, result: Any) -> Var:
    """Use Resize for whole factors, for which rounding is the same; gather elements by index for others."""
    named = any(isinstance(v, Size) for v in (*sizes, *out))
    factors = scales if scales is not None else [o / s for o, s in zip(out, sizes)]
    if all(f == int(f) for f in factors):
        options: dict[str, Any] = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return g.op("Resize", x, None, g.constant([1.0, 1.0, *factors], mt.float32), **options)
    if named:
        raise Declined("a factor that is not whole, with named sizes")
    for d, (size, o, factor) in enumerate(zip(sizes, out, factors)):
        if size == o and scales is None:
            continue
        step = np.float32(1 / factor) if scales is not None else np.float32(size) / np.float32(o)
        places = np.arange(o, dtype=np.float32)
        places = (places + np.float32(0.5)) * step if mode == "nearest-exact" else places * step
        index = np.minimum(np.floor(places).astype(np.int64), size - 1)
        x = g.op("Gather", x, g.constant(index, mt.int64), axis=d + 2)
    return x


_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic", 0: "linear", 1: "nearest", 2: "cubic"}
_PADDINGS = {"zeros": "zeros", "border": "border", "reflection": "reflection", 0: "zeros", 1: "border", 2: "reflection"}


@conversion("nn.functional.grid_sample", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(g: Graph, a: Any, result: Any) -> Var:
    mode = _MODES[a.mode if hasattr(a, "mode") else a.interpolation_mode]
    if mode == "nearest" and _PADDINGS[a.padding_mode] == "reflection":
        raise Declined("the nearest element with reflection")
    if len(a.input.shape) != 4 and g.opset < 20:
        raise Declined("volumes before version 20 of the operators")
    if g.opset < 20:
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return g.op("GridSample", a.input, g.cast(a.grid, a.input.dtype), mode=mode, padding_mode=_PADDINGS[a.padding_mode],
                align_corners=int(bool(a.align_corners)))  # fmt: skip


@conversion("nn.functional.affine_grid", "affine_grid_generator")
def _affine_grid(g: Graph, a: Any, result: Any) -> Var:
    if g.opset < 20:
        raise Declined("affine grids before version 20 of the operators")
    return g.op("AffineGrid", a.theta, g.ints(a.size), align_corners=int(bool(a.align_corners)))
