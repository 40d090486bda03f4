"""The mode that calls a function in place of an operator."""

from collections.abc import Callable
from typing import Any

from metatensor._core.modes import Mode
from metatensor._core.op import Op

class Replacement(Mode):
    """Context manager inside which calls of an operator in this thread call a function."""

    op: Op
    function: Callable[..., Any]
    def __init__(self, op: Op, function: Callable[..., Any]) -> None: ...
