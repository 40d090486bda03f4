"""The built-in operators, in one compiled module per family.

Importing the package imports all its compiled modules. Custom operators are also available
as attributes of the package, by namespace and name: ``mt.ops.acme.rope``.
"""

from metatensor._core.bundles import compiled_modules, import_all
from metatensor._core.late import later
from metatensor._core.op import exempt_from_collection, missing_slots

import_all([f"{__name__}.{family}" for family in sorted(compiled_modules(__name__, __path__[0]))])
if missing_slots():
    raise ImportError(f"no operator implements the type slots {missing_slots()} of Tensor")
exempt_from_collection()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return later("Namespace")(name)
