"""Objects with a state that checkpoints hold."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Anything with the methods `state_dict` and `load_state_dict`, such as a module or an optimizer."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        raise NotImplementedError

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state."""
        raise NotImplementedError
