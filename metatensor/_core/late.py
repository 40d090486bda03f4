"""Access to functions of higher layers that the core calls.

The core does not import these layers. `metatensor/__init__.py` registers the module of each function with `provide`.
The first call of `later` imports it.
"""

from importlib import import_module

__all__ = ["found_body", "later", "provide", "replace"]

_registered: dict[str, tuple[str, str | None]] = {}  # name -> (module, attribute or None for the module itself)
_found: dict = {}


def provide(module, names=""):
    """Register `module` as the home of the functions `names`, separated by spaces.

    Without names, register the module itself.
    """
    if names:
        _registered.update({name: (module, name) for name in names.split()})
    else:
        _registered[module.rpartition(".")[2]] = (module, None)


def later(name):
    """Return the function or module `name`. The first call imports it."""
    found = _found.get(name)
    if found is None:
        module, attribute = _registered[name]
        found = import_module(module)
        if attribute is not None:
            found = getattr(found, attribute)
        _found[name] = found
    return found


def replace(name, function):
    """Make `later` return `function` for `name` from now on."""
    _found[name] = function


def found_body(place):
    """Return the function of `metatensor.rules.gradients` at `place`, such as ``"module.function"``.

    A function is returned unchanged.
    """
    if not isinstance(place, str):
        return place
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"metatensor.rules.gradients.{module}"), name)
