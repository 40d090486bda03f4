"""Mark the collectives that make tensors, so that `metatensor.analysis.profile` can tell their buffers from other tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from metatensor._core.attribution import Collective

__all__ = ["collective"]

F = TypeVar("F", bound=Callable[..., Any])


def collective(function: F) -> F:
    """Decorate a collective: what its operators make are buffers of communication."""

    @wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with Collective():
            return function(*args, **kwargs)

    return marked  # type: ignore[return-value]
