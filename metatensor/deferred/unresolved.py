"""List the tensors of a model that have no data, where they were made, and how to give them data."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.modes import DispatchMode
from metatensor._core.storage import recipe_of
from metatensor.deferred import forbidden, is_deferred
from metatensor.deferred.named_tensors import named_tensors, part_of
from metatensor.nn.parameter import is_lazy

__all__ = ["NoMaterialization", "Unresolved", "assert_materialized", "assert_no_materialization", "unresolved"]


class Unresolved(NamedTuple):
    """A tensor without data."""

    name: str
    """Path of the tensor in the module: ``"encoder.layers.3.weight"``."""
    kind: str
    """"parameter", "buffer", "buffer (not in the state dict)" or "attribute" (also inside a container)."""
    tensor: Any
    made_at: str | None
    """File and line of the code that made a deferred tensor; None for other tensors."""

    @property
    def deferred(self) -> bool:
        """True if the tensor remembers how it was made."""
        return is_deferred(self.tensor)

    def __str__(self) -> str:
        if is_lazy(self.tensor):
            return f"{self.name}: {self.kind}, no shape yet"
        shape = f"{self.tensor.dtype} {list(self.tensor.shape)} on {self.tensor.device}"
        return f"{self.name}: {self.kind}, {shape}" + (f", made at {self.made_at}" if self.made_at else "")


def unresolved(module: Any) -> list[Unresolved]:
    """Return the tensors of a module that hold no data.

    They are parameters, buffers, and tensors in attributes and their containers.

    Examples
    --------
    >>> import metatensor as mt
    >>> [item.name for item in mt.nn.Linear(2, 2, device="meta").unresolved()]
    ['weight', 'bias']
    """
    found = []
    for name, kind, tensor, _ in named_tensors(module):
        if is_lazy(tensor):
            found.append(Unresolved(name, kind, tensor, None))
        elif part_of(tensor).untyped_storage().data is None and part_of(tensor).numel():
            found.append(Unresolved(name, kind, tensor, _made_at(tensor)))
    return found


def _made_at(tensor: Any) -> str | None:
    recipe = recipe_of(part_of(tensor).untyped_storage())
    return None if recipe is None or recipe.made_at is None else f"{recipe.made_at[0]}:{recipe.made_at[1]}"


def assert_materialized(module: Any) -> None:
    """Raise RuntimeError if a module has tensors without data.

    Parameters
    ----------
    module : nn.Module
        The module to check.

    Raises
    ------
    RuntimeError
        If a tensor holds no data. The message lists up to 20 of these tensors, and ways to give them data.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.assert_materialized(mt.nn.Linear(2, 2, device="cpu"))
    """
    found = unresolved(module)
    if not found:
        return
    shapeless = [item for item in found if is_lazy(item.tensor)]
    deferred = [item for item in found if item.deferred]
    lines = [f"  {item}" for item in found[:20]] + ([f"  and {len(found) - 20} more"] if len(found) > 20 else [])
    ways = ["mt.materialize(model) computes the deferred ones"] if deferred else []
    if shapeless:
        ways.append("calling the module sets the missing shapes")
    if len(deferred) + len(shapeless) < len(found):
        ways.append("load_state_dict(..., assign=True) or mt.load_into loads the others from a checkpoint")
    raise RuntimeError(f"{type(module).__name__}: {len(found)} tensors hold no data:\n" + "\n".join(lines) + f"\n{'; '.join(ways)}.")


class NoMaterialization(DispatchMode):
    """The mode that `assert_no_materialization` returns."""

    forbids_data = True

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operator. Raise RuntimeError if a result holds data."""
        before = getattr(forbidden, "now", False)
        forbidden.now = True
        try:
            out = op(*args, **kwargs)
        finally:
            forbidden.now = before
        for tensor in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(tensor, mt.Tensor) and tensor.numel() and tensor.untyped_storage().data is not None:
                raise RuntimeError(f"{op.name}(): made a tensor with data, of shape {list(tensor.shape)} on {tensor.device}, "
                                   "where assert_no_materialization forbids it")  # fmt: skip
        return out


def assert_no_materialization() -> NoMaterialization:
    """Return a context manager inside which an operator whose result holds data raises RuntimeError.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.assert_no_materialization():
    ...     x = mt.zeros(2, 3, device="meta") + 1
    """
    return NoMaterialization()
