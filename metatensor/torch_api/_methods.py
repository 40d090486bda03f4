"""Methods of Tensor that PyTorch has for its typed storages; the first import of the tree gives them to metatensor's."""

from __future__ import annotations

from typing import Any

from metatensor._core.methods import add_method

__all__: list[str] = []


def storage(self: Any) -> Any:
    """The storage as a sequence of elements of the dtype (deprecated in PyTorch)."""
    from metatensor.torch_api.torch.storage import _get_storage

    return _get_storage(self)


def storage_type(self: Any) -> Any:
    """The class of `storage`."""
    from metatensor.torch_api.torch.storage import TypedStorage

    return TypedStorage


add_method("storage", storage)
add_method("_typed_storage", storage)
add_method("storage_type", storage_type)
