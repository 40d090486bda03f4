"""The bytes of a model's weights: as the model has them, or as a checkpoint stores them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import metatensor as mt
from metatensor._core.memory import MemoryTracker
from metatensor.analysis.calls import Call
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.training import _maker
from metatensor.nn.modules.module import Module

__all__ = ["StoredWeights", "state_bytes", "tensor_state_bytes"]


class StoredWeights:
    """Bytes of weights by module.

    Parameters
    ----------
    model : nn.Module or callable
        The model.
    checkpoint : str, path or None
        A checkpoint whose header has the bytes of each tensor, in whatever format it packs them. None: as the model has them.
    """

    def __init__(self, model: Any, checkpoint: Any = None) -> None:
        self.own: dict[str, int] = {}
        """Bytes of the parameters of each module itself, as the model has them, by path."""
        modules = list(model.named_modules()) if isinstance(model, Module) else []
        for path, module in modules:
            if any(True for _ in module.parameters(recurse=False)):
                self.own[path] = sum(p.numel() * p.element_size() for p in module.parameters(recurse=False))
        self.stored = dict(self.own)
        self.nbytes = Inventory(model).rows[0].parameter_bytes
        self.remarks: list[str] = []
        if checkpoint is not None:
            self._read(checkpoint)

    def _read(self, checkpoint: Any) -> None:
        from metatensor.checkpoint import inspect

        found = inspect(checkpoint)
        self.nbytes = found.nbytes
        packed: defaultdict[str, int] = defaultdict(int)
        unknown = 0
        for name, info in found.tensors.items():
            path = name.rpartition(".")[0]
            while path and path not in self.own:
                path = path.rpartition(".")[0]
            if path in self.own:
                packed[path] += info.nbytes
            else:
                unknown += info.nbytes
        if unknown > found.nbytes // 2:  # names of another convention
            ratio = found.nbytes / (sum(self.own.values()) or 1)
            self.stored = {path: int(nbytes * ratio) for path, nbytes in self.own.items()}
            self.remarks.append("the checkpoint has other names than the model, so its bytes are spread evenly over the weights")
        else:
            self.stored.update(packed)
        self.remarks.append(f"weights are those of {found.file}: {', '.join(found.dtypes)}")

    def charged(self, calls: list[Call]) -> list[Call]:
        """Return calls that read the stored weights in place of the model's. Dequantization is taken to be part of a product."""
        changed, done = [], set()
        for call in calls:
            difference = self.stored.get(call.module, 0) - self.own.get(call.module, 0)
            if difference and call.flops and call.module not in done and call.read + difference > 0:
                done.add(call.module)
                call = call._replace(read=call.read + difference)
            changed.append(call)
        return changed


def state_bytes(optimizer: Any, dtype: Any) -> float:
    """Return the bytes that an optimizer keeps for each element of a large matrix."""
    return round(_kept(optimizer, dtype, (1024, 1024)) / 1024**2, 3)


def tensor_state_bytes(optimizer: Any, dtype: Any) -> int:
    """Return the bytes that an optimizer keeps for each tensor besides those for its elements."""
    return max(0, 2 * _kept(optimizer, dtype, (1024,)) - _kept(optimizer, dtype, (2048,)))


def _kept(optimizer: Any, dtype: Any, shape: tuple[int, ...]) -> int:
    """Return the bytes that an optimizer keeps for a tensor."""
    make = _maker(optimizer, False)
    p = mt.nn.Parameter(mt.empty(shape, dtype=dtype, device="meta"))
    p.grad = mt.empty_like(p)
    with MemoryTracker() as memory:
        one = make([p])
        one.step()
        return memory.current
