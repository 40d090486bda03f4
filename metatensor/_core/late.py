"""Functions of later layers that the core calls.

The core imports none of these layers. `metatensor/__init__.py` says with `provide` where each function is; the first call
of `later` imports it.
"""

from importlib import import_module

__all__ = ["later", "provide", "replace"]

_places = {}  # name -> (module, attribute or None for the module itself)
_found = {}


def provide(module, names=""):
    """Say that the functions called `names`, separated by spaces, are in `module`; without names, the module is meant itself."""
    if names:
        _places.update({name: (module, name) for name in names.split()})
    else:
        _places[module.rpartition(".")[2]] = (module, None)


def later(name):
    """Return the function or module called `name`, importing it at the first call."""
    found = _found.get(name)
    if found is None:
        module, attribute = _places[name]
        found = import_module(module)
        if attribute is not None:
            found = getattr(found, attribute)
        _found[name] = found
    return found


def replace(name, function):
    """Let `later` return another function for `name` from now on."""
    _found[name] = function
