"""The mode stack of a thread."""

from collections.abc import Iterable
from typing import Any
from typing_extensions import Self

from metatensor._core.op import Op

class Mode:
    """A context manager that intercepts every op of its thread."""

    sees_composites: bool
    @property
    def rank(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

class DispatchMode(Mode):
    """Base class of modes in Python. Override `dispatch`."""

    def dispatch(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

class TorchFunctionMode(Mode):
    """A mode whose ``__torch_function__`` receives every function call, before the classes of the arguments do."""

class TorchDispatchMode(Mode):
    """A mode whose ``__torch_dispatch__`` receives every non-composite operator, below autograd and autocast."""

def current_modes() -> list[Mode]: ...

def override(func: object, values: Iterable[object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]: ...
def overriding(values: Iterable[object]) -> list[Any]: ...
def function_mode_active() -> bool: ...

def _disable_modes(functions_only: bool = False) -> int: ...
def _restore_modes(level: int) -> None: ...
