"""Import of compiled modules, which may share one file.

Opening a shared library takes longer than most modules need to initialize. On Linux the build therefore links the
modules of a package into one, ``_bundle``, whose attribute ``names`` lists them. A module that has a file of its own, as
``tools/build_ext.sh`` makes it, is imported from that.
"""

import gc
import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec

_files: dict[str, str] = {}  # the bundle of each module that is in one, by the module's full name


class BundleFinder:
    """The entry of ``sys.meta_path`` for modules in bundles."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Return the spec of a module that is in a bundle, else None."""
        file = _files.get(name)
        if file is None:
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec


def compiled_modules(package, folder):
    """Return the set of names of the compiled modules of a package. Those in its bundle can be imported from then on."""
    files = [file.partition(".") for file in os.listdir(folder)]
    names = {name for name, dot, rest in files if dot + rest in EXTENSION_SUFFIXES}
    if "_bundle" in names:
        names.remove("_bundle")
        bundle = import_module(f"{package}._bundle")
        bundled = set(bundle.names.split())
        _files.update({f"{package}.{name}": bundle.__file__ for name in bundled - names})
        names |= bundled
        if BundleFinder not in sys.meta_path:
            sys.meta_path.insert(0, BundleFinder)
    return names


def import_all(names):
    """Import modules one after the other, without collecting garbage in the meantime.

    Almost all objects that they create live on, and collecting would take a tenth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        for name in names:
            import_module(name)
    finally:
        if collects:
            gc.enable()
