"""Storages: the untyped one, and the typed one that views it as elements of a dtype."""

from metatensor import UntypedStorage
from metatensor.interchange.typed_storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
