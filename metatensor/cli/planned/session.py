"""The environment of a planned script, and the summary at its end."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.util import Finalize, register_after_fork
from typing import TYPE_CHECKING, Any

import metatensor as mt
from metatensor import plugins
from metatensor._core import late
from metatensor.checkpoint.errors import printable
from metatensor.cli.planned.bounds import without_masks
from metatensor.cli.planned.device import PlannedDevice
from metatensor.cli.planned.gradients import Gradients
from metatensor.cli.planned.mode import PlanMode
from metatensor.cli.planned.values import Values
from metatensor.deferred.materializing import has_values
from metatensor.deferred.named_tensors import named_tensors
from metatensor.torch_api._children import call_in_children

if TYPE_CHECKING:
    from metatensor.cli.planned.costs import Costs

__all__ = ["Plan"]


class Plan:
    """A planned run of a script. `start` changes the process permanently, so the process may run only the script."""

    def __init__(self, policy: str, costs: Costs | None = None) -> None:
        self.values = Values(policy)
        self.costs = costs
        self.gradients = Gradients()
        self.saved: dict[str, None] = {}
        self.kept: dict[str, None] = {}

    def start(self) -> None:
        """Redirect every device to meta. Call this after `torch_api.install`."""
        device = PlannedDevice("cuda")
        plugins.register_backend(device, override=True)
        mt.set_default_device("meta")
        late.replace("only_indices_on_cpu", lambda name, tensors: any(tensor.is_meta for tensor in tensors))
        late.replace("pin", lambda tensor, device=None: tensor)
        self._answer_requests()
        self.gradients.start()
        self._checkpoints()
        device.tracker.__enter__()
        mode = PlanMode(self.values) if self.costs is None else self.costs.recorder.start(self.values)
        mode.__enter__()
        self._threads(mode)
        call_in_children(_start_in_child, self.values.policy, None if self.costs is None else self.costs.options())
        register_after_fork(self, Plan._begin_child)

    def _begin_child(self) -> None:
        """Begin a summary of this child process, which is printed at its end."""
        self.values.requests.lines.clear()
        self.gradients.passes.lines.clear()
        self.saved.clear()
        self.kept.clear()
        if self.costs is not None:
            self.costs.begin_child()
        Finalize(None, self.report, exitpriority=0)

    def report(self) -> None:
        """Print the summary, and the cost of the steps, to stderr."""
        for line in self.summary():
            print(printable(f"metatensor: {line}"), file=sys.stderr, flush=True)
        if self.costs is not None:
            self.costs.report()

    def summary(self) -> list[str]:
        """Return what was replaced or omitted, one line for each kind."""
        lines = []
        if self.values.requests.total:
            lines.append(f"{self.values.requests.total:,} requests for values of tensors on meta returned substitutes "
                         f"(--values {self.values.policy}): {self.values.requests}")  # fmt: skip
        passes = self.gradients.passes
        if passes.total:
            lines.append(f"{passes.total:,} backward passes were left out, because an operator has no rule for its gradient; optimizers "
                         f"stepped with gradients without values: {passes}")  # fmt: skip
        if self.kept:
            lines.append(f"not saved, because the file existed and would have lost its values: {', '.join(self.kept)}")
        if self.saved:
            lines.append(f"saved with names, shapes and dtypes, without values: {', '.join(self.saved)}")
        return lines

    # Requests for values that are not operators -------------------------------------------

    def _answer_requests(self) -> None:
        values = self.values
        get, to_format = mt.Tensor.__getitem__, mt.Tensor.__format__
        to_numpy, to_array = late.later("to_numpy"), late.later("to_array")

        def __getitem__(self: Any, index: Any) -> Any:
            return get(self, without_masks(index, values) if values.replaces else index)

        def __format__(self: Any, spec: str) -> str:
            return format(self.item(), spec) if spec and self.dim() == 0 else to_format(self, spec)

        def numpy(tensor: Any, force: bool = False) -> Any:
            if tensor.is_meta and values.replaces and (force or not tensor.requires_grad):
                values.requests.count()
                return to_numpy(values.filled(tensor), force)
            return to_numpy(tensor, force)

        def array(tensor: Any, dtype: Any = None, copy: Any = None) -> Any:
            if tensor.is_meta and values.replaces and not tensor.requires_grad:
                values.requests.count()
                return to_array(values.filled(tensor), dtype, copy)
            return to_array(tensor, dtype, copy)

        for method in (__getitem__, __format__):
            setattr(mt.Tensor, method.__name__, method)
        late.replace("to_numpy", numpy)
        late.replace("to_array", array)

    # Threads --------------------------------------------------------------------------

    def _threads(self, mode: PlanMode) -> None:
        """Enter the mode in the threads that the script starts, such as the workers of a DataLoader."""
        original = threading.Thread.start

        @functools.wraps(original)
        def start(thread: threading.Thread) -> None:
            run = thread.run

            def planned() -> None:
                del thread.run
                mt.set_default_device("meta")
                with mode:
                    run()

            thread.run = planned  # type: ignore[method-assign]
            original(thread)

        setattr(threading.Thread, "start", start)  # noqa: B010

    # Checkpoints ----------------------------------------------------------------------

    def _checkpoints(self) -> None:
        """Load checkpoints onto meta. Record which ones are saved without values; do not write these over existing files."""
        import torch

        save: Callable[..., Any] = torch.save
        load: Callable[..., Any] = torch.load

        @functools.wraps(save)
        def noted(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            if any(isinstance(entry.value, mt.Tensor) and not has_values(entry.value) for entry in named_tensors(obj)):
                is_path = isinstance(f, (str, os.PathLike))
                name = os.path.normpath(os.fspath(f)) if is_path else f"a {type(f).__name__}"
                if is_path and name not in self.saved and os.path.exists(f):
                    self.kept[name] = None  # the file may be a checkpoint with values
                    return
                self.saved[name] = None
            save(obj, f, *args, **kwargs)

        @functools.wraps(load)
        def onto_meta(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            return load(f, "meta", *args, **kwargs)

        for module in (torch, torch.serialization):
            module.save, module.load = noted, onto_meta


def _start_in_child(policy: str, options: tuple[Any, ...] | None) -> None:
    """Plan a process that the script started with "spawn" or "forkserver"."""
    costs = None
    if options is not None:
        from metatensor.cli.planned.costs import Costs

        costs = Costs(*options)
    plan = Plan(policy, costs)
    plan.start()
    plan._begin_child()  # a forkserver drops the finalizer when it forks; the after-fork hook then calls this again
