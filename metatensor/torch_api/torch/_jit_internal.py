"""Annotations and decorators of TorchScript that libraries import from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, List, Optional, Tuple  # noqa: UP035  models import them from here

from metatensor.torch_api.torch.jit import _overload, _overload_method, export, ignore, is_scripting, unused
from metatensor.torch_api.torch.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3, Future

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final", "Future", "List", "Optional", "Tuple",
           "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]  # fmt: skip

_ = (_overload, _overload_method)


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any], if_false: Callable[..., Any], module_name: str,
    func_name: str,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that calls `if_true` or `if_false`, depending on one of its arguments."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__name__ = func_name
    return chosen
