"""The mode stack of a thread, and what sees the calls of a thread."""

from collections.abc import Callable
from typing import Any
from typing_extensions import Self

from metatensor._core.op import Op
from metatensor._core.storage import Storage

class Mode:
    """A context manager that sees every op of its thread."""

    sees_composites: bool
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

class DispatchMode(Mode):
    """The base of modes written in Python: override `dispatch`."""

    def dispatch(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

class MemoryTracker:
    """Counts the bytes of the storages that this thread makes, from birth to death."""

    on_peak: Callable[[], object] | None
    @property
    def current(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def count(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def birth(self, s: Storage) -> object: ...

def current_modes() -> list[Mode]: ...
