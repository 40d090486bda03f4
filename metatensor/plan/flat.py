"""The parameters of a part of a model in one piece of memory, with their gradients and what the optimizer updates."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed.tensor import DTensor

__all__ = ["FlatPart"]


class FlatPart:
    """Parameters of a part, whose gradients are summed over the ranks that have the same by one collective at the end of a step.

    The sums of gradients are kept from step to step. With shard 2 only those of this rank's share are: a whole sum lives from the first to
    the last gradient of a micro-batch.

    Parameters
    ----------
    parameters : list of Parameter
        They become views of one tensor.
    replicas : ProcessGroup
        The ranks with the same parameters.
    tensor : ProcessGroup, optional
        The ranks among which parameters are cut. They sum gradients that are partial.
    shard : int
        What the ranks of ``replicas`` divide, as in `Degrees`: 0, 1 or 2.
    count : int
        The number of ranks with different samples, or parts of sequences. Gradients are the means of theirs.
    weights : dtype, optional
        The dtype of the computation. Default: that of the parameters.
    masters : dtype, optional
        The dtype of a copy that the optimizer updates. Default: it updates the parameters.

    Attributes
    ----------
    updated : Parameter
        What the optimizer updates: a vector, all or this rank's share.
    """

    def __init__(self, parameters: list[Any], replicas: Any, tensor: Any, shard: int, count: int, weights: Any, masters: Any) -> None:
        self.group, self.tensor, self.shard, self._samples = replicas, tensor, shard, count
        parameters = sorted(parameters, key=lambda p: not _replicated(p))  # so that gradients that are partial are one piece
        locals_ = [_local(p) for p in parameters]
        first = locals_[0]
        n = replicas.size() if shard else 1
        self.numel = sum(t.numel() for t in locals_)
        size = -(-self.numel // n) * n
        values = mt.cat([*(t.reshape(-1) for t in locals_), *([first.new_zeros(size - self.numel)] if size > self.numel else [])])
        self.whole = values if weights is None else values.to(weights)
        self.share = size // n
        start = replicas._rank * self.share if shard else 0
        own = self.whole.narrow(0, start, self.share)
        self._own, self._masters = own, masters is not None
        self.updated = mt.nn.Parameter(values.narrow(0, start, self.share).to(masters, copy=True) if masters is not None else own)
        self._gradient_dtype = masters or self.whole.dtype
        self._size, self._start = size, start
        self._sum: Any = None if shard == 2 else self._zeros(size)
        """The sum of the gradients of a step, or with shard 2 of a micro-batch."""
        self._keep: Any = self._zeros(self.share) if shard == 2 else None
        """This rank's share of the sum, with shard 2."""
        self.updated.main_grad = self._keep if shard == 2 else self._sum  # type: ignore[attr-defined]  # profiles count it as a gradient
        self._used = False
        """Whether there is a gradient in this step."""
        self._partial: set[int] = set()
        self._divided: dict[int, Any] = {}
        """Partial gradients of parameters that are cut."""
        self._placements = [p.data.placements if isinstance(p.data, DTensor) else () for p in parameters]
        self._pieces: list[tuple[int, int]] = []
        at = 0
        for i, (p, local) in enumerate(zip(parameters, locals_, strict=True)):
            view = self.whole.narrow(0, at, local.numel()).view(local.shape)
            if isinstance(p.data, DTensor):
                p.data = DTensor.from_local(view, p.data.device_mesh, p.data.placements, run_check=False)
            else:
                p.data = view
            self._pieces.append((at, local.numel()))
            p.register_post_accumulate_grad_hook(lambda p, i=i: self._add(p, i))
            at += local.numel()
        self._left = len(parameters)
        self._count = len(parameters)

    def _zeros(self, n: int) -> Any:
        return mt.zeros(n, dtype=self._gradient_dtype, device=self.whole.device)

    def _add(self, p: Any, i: int) -> None:
        """Add the gradient of a parameter to the sums of the step."""
        grad, p.grad, self._used = p.grad, None, True
        with mt.no_grad():
            if self._sum is None:
                self._sum = self._zeros(self._size)
            if isinstance(grad, DTensor):
                if any(place.is_partial() for place in grad.placements):  # summed once in a step
                    if _replicated(p):
                        self._partial.add(i)
                    else:
                        known = self._divided.get(i)
                        self._divided[i] = grad.to(self._gradient_dtype) if known is None else known.add_(grad)
                        grad = None
                elif grad.placements != p.placements:
                    grad = grad.redistribute(placements=p.placements)
            if grad is not None:
                self._put(i, grad)
        if self.shard == 2:
            self._left -= 1
            if not self._left:
                self._left = self._count
                self._scatter()

    def _put(self, i: int, grad: Any) -> None:
        """Add a gradient to the sum of a parameter."""
        at, n = self._pieces[i]
        self._sum.narrow(0, at, n).add_((grad.to_local() if isinstance(grad, DTensor) else grad).reshape(-1))

    def _tensor_sum(self) -> None:
        for i, grad in self._divided.items():
            self._put(i, grad.redistribute(placements=self._placements[i]))
            grad.zero_()
        if self.shard == 2:
            self._divided.clear()
        runs: list[list[int]] = []
        for i in sorted(self._partial):
            at, n = self._pieces[i]
            if runs and runs[-1][1] == at:
                runs[-1][1] = at + n
            else:
                runs.append([at, at + n])
        for start, end in runs:
            dist.all_reduce(self._sum.narrow(0, start, end - start), group=self.tensor)
        self._partial.clear()

    def _scatter(self) -> None:
        """Sum the gradients of a micro-batch, and keep this rank's share."""
        self._tensor_sum()
        self._keep.add_(self._scattered())
        self._sum = None

    def _scattered(self) -> Any:
        """Return this rank's share of the sum over the ranks. It is a part of the sum's memory."""
        own = self._sum.narrow(0, self._start, self.share)
        dist.reduce_scatter_tensor(own, self._sum, group=self.group)
        return own

    def reduce(self) -> None:
        """Average the gradients over all samples. They become the gradient of ``updated``."""
        grad: Any = None
        with mt.no_grad():
            if self.shard == 2:
                if self._sum is not None:
                    self._scatter()
                grad = self._keep
            elif self._used:
                self._tensor_sum()
                grad = self._scattered() if self.shard else self._sum
                if not self.shard and self.group.size() > 1:
                    dist.all_reduce(grad, group=self.group)
            self._left = self._count
            self.updated.grad = grad.div_(self._samples) if self._used else None

    def gather(self) -> None:
        """Copy the updated values of all ranks to the parameters, and forget the gradients."""
        with mt.no_grad():
            (self._keep if self.shard == 2 else self._sum).zero_()
            self._used = False
            if self._masters:
                self._own.copy_(self.updated)
            if self.shard and self.group.size() > 1:
                dist.all_gather_into_tensor(self.whole, self._own, group=self.group)


def _replicated(p: Any) -> bool:
    return isinstance(p.data, DTensor) and all(place.is_replicate() for place in p.data.placements)


def _local(p: Any) -> Any:
    data = p.detach()
    return data.to_local() if isinstance(data, DTensor) else data
