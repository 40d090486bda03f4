"""What of a model has no data, where it came from, and how to give it some."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.modes import DispatchMode
from metatensor._core.storage import recipe_of
from metatensor.deferred import forbidden, is_deferred
from metatensor.deferred.places import places
from metatensor.nn.parameter import is_lazy

__all__ = ["NoMaterialization", "Unresolved", "assert_materialized", "assert_no_materialization", "unresolved"]


class Unresolved(NamedTuple):
    """A tensor without data."""

    name: str
    """Its place in the module: ``"encoder.layers.3.weight"``."""
    kind: str
    """"parameter", "buffer", "buffer (not in the state dict)" or "attribute", which may be one in a container."""
    tensor: Any
    made_at: str | None
    """File and line of the code that made it, where it is known: for deferred tensors."""

    @property
    def deferred(self) -> bool:
        """Whether it remembers how it came about."""
        return is_deferred(self.tensor)

    def __str__(self) -> str:
        if is_lazy(self.tensor):
            return f"{self.name}: {self.kind}, of no shape yet"
        shape = f"{self.tensor.dtype} {list(self.tensor.shape)} on {self.tensor.device}"
        return f"{self.name}: {self.kind}, {shape}" + (f", made at {self.made_at}" if self.made_at else "")


def unresolved(module: Any) -> list[Unresolved]:
    """Every parameter, buffer and other tensor of a module, in attributes and their containers, that holds no data."""
    found = []
    for name, kind, tensor, _ in places(module):
        if is_lazy(tensor):
            found.append(Unresolved(name, kind, tensor, None))
        elif tensor.untyped_storage().data is None and tensor.numel():
            found.append(Unresolved(name, kind, tensor, _made_at(tensor)))
    return found


def _made_at(tensor: Any) -> str | None:
    ghost = recipe_of(tensor.untyped_storage())
    return None if ghost is None or ghost.made_at is None else f"{ghost.made_at[0]}:{ghost.made_at[1]}"


def assert_materialized(module: Any) -> None:
    """RuntimeError, with the list of them, where tensors of a module hold no data."""
    found = unresolved(module)
    if not found:
        return
    shapeless = [item for item in found if is_lazy(item.tensor)]
    deferred = [item for item in found if item.deferred]
    lines = [f"  {item}" for item in found[:20]] + ([f"  and {len(found) - 20} more"] if len(found) > 20 else [])
    ways = ["mt.materialize(model) gives the deferred ones the values they would have had"] if deferred else []
    if shapeless:
        ways.append("calling the module gives those of no shape theirs")
    if len(deferred) + len(shapeless) < len(found):
        ways.append("load_state_dict(..., assign=True), or mt.load_into, gives the others those of a checkpoint")
    raise RuntimeError(f"{type(module).__name__}: {len(found)} tensors hold no data:\n" + "\n".join(lines) + f"\n{'; '.join(ways)}.")


class NoMaterialization(DispatchMode):
    """What `assert_no_materialization` gives."""

    forbids_data = True

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operator; RuntimeError where a result holds data."""
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
    """A context manager: inside, an operator whose result holds data raises RuntimeError, naming it."""
    return NoMaterialization()
