"""The mode that implements autocast."""

from typing import Any

from metatensor._core.modes import Mode

LOWER: int
FLOAT32: int
FLOAT32_DTYPE: int
PROMOTE: int
REFUSE: int
STATE: int

class AutocastMode(Mode):
    """A mode that casts the arguments of the ops in `tables`."""

    tables: dict[str, Any]
    cache: dict[Any, Any] | None
    def __init__(self) -> None: ...
    def enter(self) -> None: ...
    def leave(self) -> None: ...
