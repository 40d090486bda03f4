"""How tensors are pickled: by the core, by value."""

__all__ = ["init_reductions"]


def init_reductions() -> None:
    """Nothing to prepare."""
