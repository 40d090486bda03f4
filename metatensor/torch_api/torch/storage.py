"""Storages: `UntypedStorage` holds bytes, and `TypedStorage` views them as elements of a dtype."""

from metatensor import UntypedStorage
from metatensor.interchange.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
