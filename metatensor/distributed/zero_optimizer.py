"""An optimizer whose state is divided between the ranks of a group (stage 1 of ZeRO)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor.distributed import _collectives
from metatensor.distributed._group import the_group
from metatensor.distributed._objects import gather_object
from metatensor.distributed._world import observed
from metatensor.distributed.work import PendingWork
from metatensor.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Optimize the same parameters on all ranks, of which each updates a part and has the optimizer state of that part only.

    After a step the ranks send each other the parameters that they have updated. Gradients must be equal on all ranks, as
    `DistributedDataParallel` makes them.

    Parameters
    ----------
    params : iterable
        All parameters, or parameter groups, in the same order on all ranks.
    optimizer_class : class
        The class of the optimizer that updates a part, such as `optim.AdamW`.
    process_group : ProcessGroup, optional
        The ranks. Default: all.
    parameters_as_bucket_view, overlap_with_ddp : bool
        ``overlap_with_ddp=True`` raises NotImplementedError; the other has no effect.
    **defaults
        Hyperparameters of the optimizer.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.distributed.optim import ZeroRedundancyOptimizer
    >>> def train():
    ...     mt.distributed.init_process_group()
    ...     with mt.device("meta"):
    ...         model = mt.nn.parallel.DistributedDataParallel(mt.nn.Linear(8, 8))
    ...     optimizer = ZeroRedundancyOptimizer(model.parameters(), mt.optim.Adam, lr=0.1)
    ...     model(mt.empty(2, 8, device="meta")).sum().backward()
    ...     optimizer.step()
    ...     return [tuple(p.shape) for p in optimizer.optim.state]
    >>> mt.distributed.sim.run(train, world_size=2)
    [[(8, 8)], [(8,)]]
    """

    def __init__(
        self, params: Any, optimizer_class: Callable[..., Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not supported")
        self._built = False
        super().__init__(params, defaults)
        self.process_group = the_group(process_group)
        self._optimizer_class, self._states = optimizer_class, None
        self._build()

    _states: list[Any] | None
    """After `consolidate_state_dict`, on the rank that collected them: the state dicts of all parts."""

    def _build(self) -> None:
        """Divide the parameters, and make the optimizer of this rank's part."""
        group = self.process_group
        parts = self._parts = self._divided(group.size())
        place_of = group._rank_of
        observed(lambda rank: _shapes(parts[place_of(rank)]) if place_of(rank) >= 0 else None)
        mine = [
            {key: value for key, value in given.items() if key != "params"} | {"params": part}
            for given, part in zip(self.param_groups, self._parts[group._rank])
        ]
        self.optim = self._optimizer_class(mine, **self.defaults)
        for given, made in zip(self.param_groups, self.optim.param_groups):
            for key, value in made.items():
                given.setdefault(key, value)
        self._built = True

    def _divided(self, size: int) -> list[list[list[Any]]]:
        """Return for each rank the parameters of each group: the largest ones first, to the rank that has least."""
        loads = [0] * size
        parts: list[list[list[Any]]] = [[[] for _ in self.param_groups] for _ in range(size)]
        for number, given in enumerate(self.param_groups):
            for parameter in sorted(given["params"], key=lambda one: one.numel(), reverse=True):
                rank = loads.index(min(loads))
                parts[rank][number].append(parameter)
                loads[rank] += parameter.numel()
        return parts

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group and divide all parameters anew.

        Raise RuntimeError once the optimizer has state.
        """
        if self._built and self.optim.state:
            raise RuntimeError("ZeroRedundancyOptimizer.add_param_group: the optimizer has made a step, and its state would be lost")
        super().add_param_group(param_group)
        if self._built:
            self._build()

    def _copy_settings(self, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for given, made in zip(source, target):
            made.update({key: value for key, value in given.items() if key != "params"})

    def step(self, closure: Any = None) -> Any:
        """Update this rank's part, and exchange the parameters. Return the loss of ``closure``, if there is one."""
        self._states = None
        self._copy_settings(self.param_groups, self.optim.param_groups)
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self._copy_settings(self.optim.param_groups, self.param_groups)
        works = []
        for rank, parts in enumerate(self._parts):
            for part in parts:
                works += [_collectives.broadcast(one.detach(), group=self.process_group, group_src=rank, async_op=True) for one in part]
        PendingWork([work for work in works if work is not None]).wait()
        return loss

    # State ------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all ranks on rank ``to`` of the group, where `state_dict` returns it. All ranks call this."""
        here = self.process_group._rank == to
        found: list[Any] | None = [None] * self.process_group.size() if here else None
        gather_object(self.optim.state_dict(), found, group=self.process_group, group_dst=to)
        self._states = found

    def _numbers(self, rank: int) -> list[int]:
        """Return the numbers, among all parameters, of the parameters of a rank in the order of its optimizer."""
        order = {id(one): number for number, one in enumerate(one for given in self.param_groups for one in given["params"])}
        return [order[id(one)] for part in self._parts[rank] for one in part]

    def state_dict(self) -> dict[str, Any]:
        """Return the state dict of all parameters, as the optimizer of a single process has it.

        Raise RuntimeError unless `consolidate_state_dict` has collected the state on this rank.
        """
        if self._states is None:
            raise RuntimeError(
                f"ZeroRedundancyOptimizer.state_dict: rank {self.process_group._rank} has the state of its part only; call "
                "consolidate_state_dict(to=rank) on all ranks first"
            )
        found: dict[str, Any] = super().state_dict()
        found["state"] = {}
        for rank, state in enumerate(self._states):
            numbers = self._numbers(rank)
            found["state"].update({numbers[index]: value for index, value in state["state"].items()})
        found["state"] = dict(sorted(found["state"].items()))
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict of all parameters. Each rank keeps the state of its part."""
        numbers = self._numbers(self.process_group._rank)
        local = self.optim.state_dict()
        local["state"] = {index: state_dict["state"][number] for index, number in enumerate(numbers) if number in state_dict["state"]}
        for given, made in zip(state_dict["param_groups"], local["param_groups"], strict=True):
            made.update({key: value for key, value in given.items() if key != "params"})
        self.optim.load_state_dict(local)
        self._copy_settings(self.optim.param_groups, self.param_groups)
        self._states = None


def _shapes(part: list[list[Any]]) -> list[list[tuple[int, ...]]]:
    """Return the shapes of the parameters of a rank."""
    return [[tuple(one.shape) for one in group] for group in part]
