"""The built-in operators, one compiled module a family, found by being here.

As ``mt.ops`` it is also the way to custom operators: ``mt.ops.acme.rope``.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    try:
        importlib.import_module(f"{__name__}.{_module.name}")
    except Exception as _e:  # TEMPORARY while families are being written
        import sys
        import traceback
        traceback.print_exc()
        print("BROKEN FAMILY", _module.name, _e, file=sys.stderr)


def __getattr__(name):
    from metatensor.library import Namespace

    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Namespace(name)
