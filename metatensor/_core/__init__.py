"""Tensors, and the path of a call to its kernel."""

from metatensor._core.bundles import compiled_modules as _compiled_modules
from metatensor._core.bundles import import_all as _import_all

_compiled_modules(__name__, __path__[0])
_import_all([f"{__name__}.methods"])
