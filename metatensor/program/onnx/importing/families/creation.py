"""Creation of tensors: constants, ranges, sizes and random numbers."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import Known, OnnxError, Small, plain

__all__: list[str] = []


@operator("ConstantOfShape", host=(0,))
def _constant_of_shape(node: Node, shape: Any) -> Any:
    sizes = node.ints(shape, "the shape")
    value = node.get("value")
    if value is None:
        return mt.zeros(sizes, dtype=mt.float32, device=node.device)
    held = plain(value.host)
    made = mt.full(sizes, held.reshape(()).to(mt.float32).item() if held.dtype.itemsize == 1 and held.is_floating_point() else held.item(),
                   dtype=held.dtype, device=node.device)  # fmt: skip
    return Small(made, value.host.kind) if isinstance(value.host, Small) else made


@operator("Range", host=(0, 1, 2))
def _range(node: Node, start: Any, limit: Any, delta: Any) -> Tensor:
    ends = [node.number(value, what) for value, what in ((start, "the start"), (limit, "the end"), (delta, "the step"))]
    if ends[2] == 0:
        raise OnnxError("the step of a range is 0")
    dtype = plain(start.host if isinstance(start, Known) else start).dtype
    wide = mt.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype
    if (ends[1] - ends[0]) / ends[2] <= 0:
        return mt.zeros(0, dtype=dtype, device=node.device)
    return mt.arange(*ends, dtype=wide, device=node.device).to(dtype)


@operator("EyeLike")
def _eye_like(node: Node, x: Tensor) -> Tensor:
    dtype = node.dtype("dtype") if node.get("dtype") else x.dtype
    rows, columns = x.shape
    k = node.get("k", 0)
    return mt.eye(rows, columns + abs(k), dtype=dtype, device=node.device)[:, max(-k, 0) : max(-k, 0) + columns] if k <= 0 else (
        mt.eye(rows + k, columns, dtype=dtype, device=node.device)[k:])


@operator("Shape", host=True)
def _shape(node: Node, x: Any) -> Any:
    x = x.on(mt.device("meta")) if isinstance(x, Known) else x
    sizes = list((x.tensor if isinstance(x, Small) else x).shape)
    end = node.get("end")
    return node.known(sizes[node.get("start", 0) : len(sizes) if end is None else end])


@operator("Size", host=True)
def _size(node: Node, x: Any) -> Any:
    x = x.on(mt.device("meta")) if isinstance(x, Known) else x
    return node.known((x.tensor if isinstance(x, Small) else x).numel())


# Random numbers ---------------------------------------------------------------------------------------


def _generator(node: Node) -> Any:
    """Return a generator with the seed of the node, or None."""
    seed = node.get("seed")
    if seed is None or node.device.type == "meta":
        return None
    return mt.Generator(device=node.device).manual_seed(int(seed))


def _normal(node: Node, shape: Any, dtype: mt.dtype) -> Tensor:
    made = mt.randn(shape, generator=_generator(node), device=node.device) * node.get("scale", 1.0) + node.get("mean", 0.0)
    return made.to(dtype)


def _uniform(node: Node, shape: Any, dtype: mt.dtype) -> Tensor:
    low = node.get("low", 0.0)
    made = mt.rand(shape, generator=_generator(node), device=node.device) * (node.get("high", 1.0) - low) + low
    return made.to(dtype)


for _name, _fn in (("RandomNormal", _normal), ("RandomUniform", _uniform)):
    operator(_name, folds=False)(lambda node, fn=_fn: fn(node, node.need("shape"), node.dtype("dtype", 1)))
    operator(f"{_name}Like", folds=False)(
        lambda node, x, fn=_fn: fn(node, x.shape, node.dtype("dtype") if node.get("dtype") else x.dtype)
    )


@operator("Bernoulli", folds=False)
def _bernoulli(node: Node, x: Tensor) -> Tensor:
    drawn = mt.rand(x.shape, generator=_generator(node), device=node.device) < x
    return drawn.to(node.dtype("dtype") if node.get("dtype") else x.dtype)


@operator("Multinomial", folds=False)
def _multinomial(node: Node, x: Tensor) -> Tensor:
    chances = mt.softmax(x.to(mt.float32), 1)
    drawn = mt.multinomial(chances, node.get("sample_size", 1), replacement=True, generator=_generator(node))
    return drawn.to(node.dtype("dtype", 6))


@operator("Dropout", host=(1, 2), folds=False)
def _dropout(node: Node, x: Tensor, ratio: Any = None, training: Any = None) -> Any:
    on = bool(node.number(training, "training_mode", False)) if node.version >= 12 else False
    share = float(node.number(ratio, "the ratio", 0.5)) if node.version >= 12 else node.get("ratio", 0.5)
    if not on or share == 0:
        mask = mt.ones_like(x, dtype=mt.bool) if node.wants(1) else None
        return x, mask
    kept = mt.rand(x.shape, generator=_generator(node), device=node.device) >= share
    return mt.where(kept, x / (1 - share), mt.zeros_like(x)), kept
