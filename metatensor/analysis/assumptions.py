"""Assumed sizes and numbers: upper bounds, or the user's figures, where a run on meta would need values.

On meta the size of `nonzero`'s result is unknown. Inside `assume` it is the greatest possible size, or the one that the user gives.
Assumptions are recorded, so that reports can tell which of their figures are bounds.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

import metatensor as mt
from metatensor._core.constants import made_of_bytes
from metatensor._core.errors import DataDependentError
from metatensor._core.host import encode_numbers
from metatensor._core.modes import DispatchMode, current_modes
from metatensor._core.nested import tensors_in
from metatensor._core.source_locations import running_line
from metatensor.deferred.known import is_constant
from metatensor.deferred.materializing import has_values

__all__ = ["Assumption", "asserted", "assume", "assuming", "largest", "notes"]

FIGURES = ("tokens_per_expert", "nonzero", "masked_select", "unique", "item", "bincount")
"""The names of the figures that a user can give."""
MOST_POSITIONS = 1024
"""If all of at most this many elements are selected, their positions have values, so that a loop over experts visits each expert."""


@dataclass(frozen=True)
class Assumption:
    """A size or a number that depends on values, and the figure assumed for it."""

    op: str
    """The operator; a mask that is used as an index is ``nonzero``."""
    size: float
    """The greatest number of elements, or the number, that was assumed at this place."""
    kind: str
    """``"bound"`` if no run has more elements, ``"given"`` if the user gave the figure, ``"number"`` if a number was read."""
    location: str | None
    """The line of the code, ``file:line``."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return dict(vars(self))


class assume(DispatchMode):
    """Context manager inside which upper bounds, or the given figures, replace sizes that depend on values of meta tensors.

    `nonzero`, `where` with a condition alone, masks as indices, `masked_select`, `unique` and `unique_consecutive` return
    results of the greatest possible size. A number that is read (`item`, `tolist`) is 1. A truth value is False, or the value with
    which an ``assert`` statement succeeds. `made` lists what was assumed.

    Parameters
    ----------
    tokens_per_expert : int, optional
        The number of elements that a mask selects in a module that routes tokens to experts: one whose class has "moe" or
        "expert" in its name, or that has an attribute ``experts``. It does not apply to masks with one element for each expert.
    nonzero, masked_select, unique : int, optional
        The number of elements that the operator selects or returns; `nonzero` also applies to masks and `where`. A figure larger
        than the bound is replaced by the bound.
    item : int or float, optional
        The number that is read from tensors.
    bincount : int, optional
        The length of the result of `bincount`, which has no bound.

    Raises
    ------
    TypeError
        If a figure has another name, or is not a number.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(64, 8, device="meta")
    >>> with mt.analysis.assume() as assumed:
    ...     x[x.sum(1) > 0].shape
    metatensor.Size([64, 8])
    >>> [(each.op, each.size, each.kind) for each in assumed.made]
    [('nonzero', 64, 'bound')]
    >>> with mt.analysis.assume(nonzero=10):
    ...     x[x.sum(1) > 0].shape
    metatensor.Size([10, 8])
    """

    def __init__(self, **figures: float) -> None:
        for name, figure in figures.items():
            if name not in FIGURES:
                raise TypeError(f"assume: there is no figure {name!r}; there are {', '.join(FIGURES)}")
            if isinstance(figure, bool) or not isinstance(figure, (int, float) if name == "item" else int):
                raise TypeError(f"assume: {name} must be a number, got {type(figure).__name__}")
            if name != "item" and figure < 0:
                raise ValueError(f"assume: {name} must not be negative, got {figure}")
        self.figures = figures
        self._made: dict[tuple[str, str, str | None], float] = {}
        self._handlers: dict[str, Callable[..., Any]] = {
            "nonzero": self._nonzero, "argwhere": self._nonzero, "where": self._where, "masked_select": self._masked_select,
            "unique": self._unique, "unique_consecutive": self._consecutive, "item": self._item, "tolist": self._tolist,
            "equal": self._truth, "allclose": self._truth, "is_nonzero": self._truth, "bincount": self._bincount,
        }  # fmt: skip

    @property
    def made(self) -> list[Assumption]:
        """What was assumed, one for each operator, line and kind."""
        return [Assumption(op, size, kind, location) for (op, kind, location), size in self._made.items()]

    def dispatch(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator."""
        handler = self._handlers.get(op.name)
        if handler is None or "out" in kwargs or not any(_unknown(t) for t in tensors_in(args)) or op.name == "where" and len(args) > 1:
            return op(*args, **kwargs)
        return handler(*args, **kwargs)

    def _note(self, op: str, size: float, kind: str) -> Any:
        at = running_line(sys._getframe(1))
        key = (op, kind, None if at is None else f"{at[0]}:{at[1]}")
        self._made[key] = max(size, self._made.get(key, size))
        return size

    def _count(self, op: str, bound: int) -> int:
        """Return how many of at most `bound` elements an operator returns."""
        given = self.figures.get(op)
        if "tokens_per_expert" in self.figures and op in ("nonzero", "masked_select") and _routes(bound):
            given = self.figures["tokens_per_expert"]
        if given is None or given >= bound:
            return int(self._note(op, bound, "bound"))
        return int(self._note(op, given, "given"))

    # Sizes ----------------------------------------------------------------------------------------------

    def _nonzero(self, input: Any, as_tuple: bool = False) -> Any:
        return _positions(tuple(input.shape), self._count("nonzero", input.numel()), as_tuple)

    def _where(self, condition: Any) -> Any:
        return list(self._nonzero(condition, True))

    def _masked_select(self, input: Any, mask: Any) -> Any:
        total = mt.broadcast_shapes(tuple(input.shape), tuple(mask.shape)).numel()
        return input.new_empty(self._count("masked_select", total))

    def _unique(self, input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                dim: int | None = None) -> Any:  # fmt: skip
        length = input.shape[dim] if dim is not None else input.numel()
        count = self._count("unique", length)
        if dim is None:
            made = [input.new_empty(count)]
        else:
            dim %= input.dim()
            made = [input.new_empty((*input.shape[:dim], count, *input.shape[dim + 1 :]))]
        if return_inverse:
            made.append(_integers(length) if dim is not None else _integers(*input.shape))
        if return_counts:
            made.append(_integers(count))
        return made[0] if len(made) == 1 else tuple(made)

    def _consecutive(self, input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
        return self._unique(input, True, return_inverse, return_counts, dim)

    def _bincount(self, input: Any, weights: Any = None, minlength: int = 0) -> Any:
        if "bincount" not in self.figures:
            raise DataDependentError("bincount(): the length of the result has no bound; give assume a figure: bincount=...")
        length = max(int(self._note("bincount", self.figures["bincount"], "given")), minlength)
        return _integers(length) if weights is None else mt.empty(length, dtype=mt.float64, device="meta")

    # Numbers --------------------------------------------------------------------------------------------

    def _number(self, dtype: Any) -> Any:
        if dtype == mt.bool:
            return False
        number = self.figures.get("item", 1)
        return complex(number) if dtype.is_complex else float(number) if dtype.is_floating_point else int(number)

    def _item(self, input: Any) -> Any:
        if input.numel() != 1:
            raise RuntimeError(f"item(): a tensor with {input.numel()} elements cannot be converted to a number; it must have exactly one")
        if input.dtype == mt.bool:
            return self._truth()
        self._note("item", self.figures.get("item", 1), "number")
        return self._number(input.dtype)

    def _tolist(self, input: Any) -> Any:
        self._note("tolist", self.figures.get("item", 1), "number")
        return _nested(tuple(input.shape), self._number(input.dtype))

    def _truth(self, *_: Any, **__: Any) -> bool:
        value = asserted(sys._getframe(1))
        self._note("bool", int(value), "number")
        return value


_ASSERT = re.compile(r"\s*assert[\s(]+(not\b)?")


def asserted(frame: FrameType | None) -> bool:
    """Return the value with which an ``assert`` statement in the running line succeeds, or False if there is none."""
    where = running_line(frame)
    found = _ASSERT.match(linecache.getline(*where)) if where is not None else None
    return found is not None and found[1] is None


def largest(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the largest possible result of an operator whose size depends on values, or NotImplemented if it has no bound."""
    bounded = assume()
    handler = bounded._handlers[op] if op in ("nonzero", "argwhere", "where", "masked_select", "unique", "unique_consecutive") else None
    return NotImplemented if handler is None else handler(*args, **kwargs)


def _unknown(tensor: Any) -> bool:
    return bool(tensor.is_meta) and not is_constant(tensor) and not has_values(tensor)


def _integers(*shape: int) -> Any:
    return mt.empty(shape, dtype=mt.int64, device="meta")


def _positions(shape: tuple[int, ...], count: int, as_tuple: bool) -> Any:
    """Return the positions of the first elements of a shape, with values if there are few."""
    dims = max(len(shape), 1) if as_tuple else len(shape)
    if count > MOST_POSITIONS:
        return tuple(_integers(count) for _ in range(dims)) if as_tuple else _integers(count, dims)
    found = [_unravelled(k, shape or (1,)) for k in range(count)]
    if as_tuple:
        return tuple(_made([row[d] for row in found], (count,)) for d in range(dims))
    return _made([i for row in found for i in row[:dims]], (count, dims))


def _unravelled(k: int, shape: tuple[int, ...]) -> list[int]:
    found = []
    for n in reversed(shape):
        found.append(k % n)
        k //= n
    return found[::-1]


def _made(numbers: list[int], shape: tuple[int, ...]) -> Any:
    return made_of_bytes(encode_numbers(numbers, mt.int64)[2] if numbers else b"", shape, mt.int64)


def _nested(shape: tuple[int, ...], number: Any) -> Any:
    return [_nested(shape[1:], number) for _ in range(shape[0])] if shape else number


def _routes(numel: int) -> bool:
    """Return True if the running module routes tokens to experts and a mask of this many elements has more than one for each."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self") if frame.f_code.co_name != "<module>" else None
        if isinstance(module, mt.nn.Module):
            name = type(module).__name__.lower()
            if "moe" in name or "expert" in name or "experts" in module._modules:
                return numel not in _numbers_of_experts(module)
        frame = frame.f_back
    return False


def _numbers_of_experts(module: Any) -> set[int]:
    experts = module._modules.get("experts")
    found = {getattr(module, name, None) for name in ("num_experts", "n_routed_experts", "num_local_experts", "n_experts")}
    found |= {len(experts)} if hasattr(experts, "__len__") else set()
    return {n + more for n in found if isinstance(n, int) for more in (0, 1)}  # transformers adds one for tokens without an expert


# Reports ------------------------------------------------------------------------------------------------------


@contextmanager
def assuming(figures: Any) -> Iterator[Callable[[], list[Assumption]]]:
    """Run a block inside `assume`, if `figures` is not None. Yield a function that, after the block, returns its assumptions.

    Assumptions that enclosing `assume` blocks make inside the block are included.
    """
    if figures is not None and not isinstance(figures, dict):
        raise TypeError(f"assume must be a dict of figures such as {{'tokens_per_expert': 128}}, got {type(figures).__name__}")
    own = None if figures is None else assume(**figures)
    modes = [mode for mode in current_modes() if isinstance(mode, assume)]
    before = [dict(mode._made) for mode in modes]
    for mode in modes:
        mode._made = {}

    def noted() -> list[Assumption]:
        return [each for mode in (*modes, own) if mode is not None for each in mode.made]

    found: list[Assumption] = []
    try:
        with nullcontext() if own is None else own:
            yield lambda: found
    finally:
        found += noted()
        for mode, made in zip(modes, before, strict=True):
            for key, size in made.items():
                mode._made[key] = max(size, mode._made.get(key, size))


def notes(assumptions: list[Assumption]) -> list[str]:
    """Return the lines of a report about assumptions."""
    from metatensor.analysis.describe import relative

    def listed(kind: str) -> str:
        chosen = [each for each in assumptions if each.kind == kind]
        found = [f"{each.op} {each.size:,}" + (f" at {relative(each.location)}" if each.location else "") for each in chosen]
        return "; ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")

    texts = {
        "bound": "sizes that depend on values are upper bounds, so FLOPs, memory and output sizes that follow from them are bounds",
        "given": "sizes that depend on values are the figures that were given",
        "number": "numbers that depend on values were assumed, so other values may give other figures",
    }
    return [f"{text}: {listed(kind)}" for kind, text in texts.items() if any(each.kind == kind for each in assumptions)]
