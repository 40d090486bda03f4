"""Optimizers with 8-bit states, for estimates only: they allocate the same memory as real ones, but compute nothing."""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["BLOCK", "EIGHT_BIT", "SMALLEST", "EightBit"]

BLOCK = 256
"""Elements that share a float32 scale (bitsandbytes, blockwise quantization; Dettmers et al., 2021, arXiv:2110.02861)."""
SMALLEST = 4096
"""Tensors with fewer elements keep float32 states (``min_8bit_size`` of bitsandbytes)."""
CODES = 256
"""Entries of a table that maps codes to numbers, in float32. All parameters share the tables."""


@mt.op("analysis::blockwise_update", schema="(Tensor param, Tensor grad, Tensor[] states) -> ()")
def _update(param: Any, grad: Any, states: Any) -> None:
    """Update a parameter and its states in one kernel."""


@_update.flops
def _(out: Any, param: Any, grad: Any, states: Any) -> int:
    return 0


class EightBit(mt.optim.Optimizer):
    """An optimizer with blockwise 8-bit states, laid out as in bitsandbytes.

    A tensor of n >= `SMALLEST` elements has, for each moment, n bytes and a float32 scale for each `BLOCK` elements. Smaller
    tensors have float32 moments. The update is one kernel without temporary tensors. It runs only on meta and changes no value.

    Parameters
    ----------
    params : iterable of Tensor
        The parameters.
    moments : int
        States of each parameter: 2 for Adam, 1 for Lion or SGD with momentum.
    name : str
        The name in reports.
    """

    def __init__(self, params: Any, moments: int = 2, name: str = "AdamW8bit") -> None:
        super().__init__(params, {"lr": 1e-3})
        self.moments, self.name = moments, name
        self.tables: list[Any] = []

    def step(self, closure: Any = None) -> None:
        """Allocate missing states, and update all parameters."""
        with mt.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if not p.is_meta:
                        raise RuntimeError(f"{self.name} is a declaration and runs only on meta, got a parameter on {p.device}")
                    if p not in self.state:
                        self.state[p] = {"moments": self._states(p)}
                    _update(p, p.grad, self.state[p]["moments"])

    def _states(self, p: Any) -> list[Any]:
        n = p.numel()
        if n < SMALLEST:
            return [mt.empty(p.shape, dtype=mt.float32, device=p.device) for _ in range(self.moments)]
        if not self.tables:
            self.tables = [mt.empty(CODES, dtype=mt.float32, device=p.device) for _ in range(self.moments)]
        made = []
        for _ in range(self.moments):
            made += [mt.empty(p.shape, dtype=mt.uint8, device=p.device), mt.empty(-(-n // BLOCK), dtype=mt.float32, device=p.device)]
        return made


class _Maker:
    """A function that creates one of these optimizers."""

    def __init__(self, name: str, moments: int) -> None:
        self.name, self.moments = name, moments

    def __call__(self, params: Any, foreach: bool = False) -> EightBit:
        if foreach:
            raise ValueError(f"estimate_training: {self.name} updates each tensor in one kernel; foreach does not apply")
        return EightBit(params, self.moments, self.name)


EIGHT_BIT = {
    name.lower(): _Maker(name, moments)
    for name, moments in (("Adam8bit", 2), ("AdamW8bit", 2), ("Lion8bit", 1), ("SGD8bit", 1), ("RMSprop8bit", 1))
}
"""The optimizers by their names in bitsandbytes, in lower case."""
