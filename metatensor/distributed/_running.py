"""How a collective is run: it is logged, started on contiguous tensors by the group's communicator, and waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.attribution import Collective
from metatensor._core.capture import is_traced
from metatensor._core.late import later
from metatensor.distributed._agreement import check_agreement
from metatensor.distributed._group import ProcessGroup
from metatensor.distributed._world import current_world
from metatensor.distributed.communication_log import log
from metatensor.distributed.communicators import GroupCommunicator
from metatensor.distributed.work import PendingWork, Work

__all__ = ["Staged", "place_of", "run"]


def place_of(tensor: Any) -> str:
    """Return the device type that decides which communicator moves a tensor: "meta" for any tensor without data.

    Values that are deferred are computed first.
    """
    kind: str = tensor.device.type
    if kind == "meta" or tensor.untyped_storage().data is not None:
        return kind
    if later("has_values")(tensor):
        later("materialize")(tensor)
        return kind
    return "meta"


class Staged:
    """The tensors of a collective, as contiguous ones. What is received in a copy is moved to its tensor at the end."""

    def __init__(self) -> None:
        self._copies: list[tuple[Any, Any]] = []
        self._written: list[Any] = []

    def read(self, tensor: Any) -> Any:
        """Return a contiguous tensor with the elements of ``tensor``."""
        plain = tensor.detach()
        return plain if plain.is_contiguous() else plain.contiguous()

    def write(self, tensor: Any) -> Any:
        """Return a contiguous tensor of the same shape, whose elements become those of ``tensor`` at the end."""
        plain = tensor.detach()
        if plain.is_contiguous():
            self._written.append(tensor)
            return plain
        copy = mt.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        self._copies.append((copy, tensor))
        return copy

    def change(self, tensor: Any) -> Any:
        """Like `write`, but the returned tensor has the elements of ``tensor``."""
        found = self.write(tensor)
        if self._copies and self._copies[-1][0] is found:
            found.copy_(tensor.detach())
        return found

    def joined(self, tensors: Sequence[Any]) -> Any:
        """Return a flat tensor with the elements of all tensors."""
        if len(tensors) == 1:
            return self.read(tensors[0])
        return mt.cat([one.detach().reshape(-1) for one in tensors])

    def divided(self, tensors: Sequence[Any]) -> Any:
        """Return a flat tensor whose parts become the elements of the tensors at the end."""
        if len(tensors) == 1:
            return self.write(tensors[0])
        flat = mt.empty(sum(one.numel() for one in tensors), dtype=tensors[0].dtype, device=tensors[0].device)
        start = 0
        for one in tensors:
            self._copies.append((flat[start : start + one.numel()].view(one.shape), one))
            start += one.numel()
        return flat

    def finish(self) -> None:
        """Move received elements to their tensors, and count the changes of the others."""
        if self._copies:
            with Collective(), mt.no_grad():
                for copy, tensor in self._copies:
                    tensor.copy_(copy)
        for tensor in self._written:
            if not tensor.is_inference():
                tensor._increment_version()


def run(
    kind: str, group: ProcessGroup, tensor: Any, start: Callable[[GroupCommunicator, Staged], Work], *, detail: str = "",
    nbytes: int | None = None, async_op: bool = False, result: Any = None,
) -> Work | None:  # fmt: skip
    """Run a collective and return its handle, or wait for it and return None.

    Parameters
    ----------
    kind : str
        Its name in logs.
    tensor : Tensor or None
        The largest argument. It decides which communicator is used.
    start : callable
        ``start(communicator, staged)`` begins the operation and returns its handle.
    detail : str
        The reduction or the other rank, for logs.
    nbytes : int, optional
        Size in logs. Default: that of ``tensor``.
    async_op : bool
        Return the handle without waiting.
    result : object
        What the handle returns as its result.

    Raises
    ------
    NotImplementedError
        If a program is being traced in this thread and the group has several ranks.
    """
    if nbytes is None:
        nbytes = 0 if tensor is None else tensor.numel() * tensor.element_size()
    if len(group.ranks) > 1 and is_traced():
        raise NotImplementedError(
            f"torch.distributed: {kind} in a group of {len(group.ranks)} ranks cannot be traced, because programs contain only operators"
        )
    waited = log(kind, group, tensor, nbytes, detail, async_op)
    staged = Staged()
    with Collective(), mt.no_grad():
        communicator = group.communicator("" if tensor is None else place_of(tensor))
        check_agreement(kind, tensor, detail, group, communicator)
        part = start(communicator, staged)
    work = PendingWork([part], staged.finish if waited is None else _both(waited, staged.finish), result)
    for manager in reversed(current_world().coalescing):
        if manager.takes(group):
            manager.works.append(work)
            return work if async_op else None
    if async_op:
        return work
    work.wait()
    return None


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls both."""

    def both() -> None:
        first()
        second()

    return both
