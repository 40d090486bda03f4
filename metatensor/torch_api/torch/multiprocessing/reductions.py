"""Registration of reducers for pickling tensors, which metatensor does not need."""

__all__ = ["init_reductions"]


def init_reductions() -> None:
    """Do nothing."""
