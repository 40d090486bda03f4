"""The built-in operators, in one compiled module per family.

Importing the package imports all its compiled modules. Custom operators are also available
as attributes of the package, by namespace and name: ``mt.ops.acme.rope``.
"""

import os
from importlib import import_module

from metatensor._core.late import later
from metatensor._core.op import missing_slots

for _family in sorted({_file.partition(".")[0] for _file in os.listdir(__path__[0])
                       if _file.endswith((".so", ".pyd"))}):
    import_module(f"{__name__}.{_family}")
if missing_slots():
    raise ImportError(f"no operator implements the type slots {missing_slots()} of Tensor")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return later("Namespace")(name)
