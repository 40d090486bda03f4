"""Load a model from a target such as ``FILE.py:NAME``."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import metatensor as mt
from metatensor.cli.configs import TargetError, config_in, model_of_config
from metatensor.cli.hints import how_to_install

__all__ = ["TargetError", "build", "dtype_default", "load_target"]


def load_target(target: str) -> Any:
    """Return the object that ``FILE.py:NAME`` or ``package.module:NAME`` names. NAME may contain dots.

    The file runs as a module with meta as the default device. Its folder, or for a module the current folder, is on the
    import path. Errors of the code are not caught. `TargetError` is raised if there is no such object.

    The path of an ONNX model gives a function that builds an `OnnxModel`. A folder with a ``config.json``, or the path of such
    a file, gives a function that builds its model; see `model_of_config`. So does a GGUF file; see `model_of_gguf`.
    """
    if (config := config_in(target)) is not None:
        return functools.partial(model_of_config, config)
    if target.endswith(".gguf") and os.path.isfile(target):
        from metatensor.cli.gguf_configs import model_of_gguf

        return functools.partial(model_of_gguf, target)
    if target.endswith(".onnx") and os.path.isfile(target):
        return functools.partial(mt.program.OnnxModel, target, device="meta")
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        what = " and has no config.json" if os.path.isdir(target) else ""
        raise TargetError(f"{target!r} is not of the form FILE.py:NAME or package.module:NAME{what}")
    found: Any
    if place.endswith(".py"):
        if not os.path.isfile(place):
            raise TargetError(f"there is no file {place!r}")
        found = _load_file(os.path.abspath(place))
    else:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            with mt.device("meta"):
                found = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
                advice = f"to name a file, write its extension: {place}.py:{name}"
                if error.name == place.partition(".")[0] and not os.path.exists(f"{place}.py"):
                    advice += f"; to use a library, note that {how_to_install(error.name)}"
                raise TargetError(f"there is no module {place!r}; {advice}") from None
            raise
    for part in name.split("."):
        if not hasattr(found, part):
            raise TargetError(f"{place} has no {name!r}{_suggestions(found)}")
        found = getattr(found, part)
    return found


def _load_file(path: str) -> Any:
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    stem = os.path.splitext(os.path.basename(path))[0]
    # A unique name, so that a file random.py does not replace the module random.
    name = f"{stem}_{hashlib.sha1(path.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with mt.device("meta"):
        spec.loader.exec_module(module)
    return module


def _suggestions(module: Any) -> str:
    """Return the end of a message that lists the models, classes and functions that a module itself defines."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, mt.nn.Module) or ((inspect.isfunction(value) or inspect.isclass(value))
                                  and getattr(value, "__module__", None) == getattr(module, "__name__", "")))
    ]
    return f"; it defines {', '.join(own[:12])}" if own else ""


def build(found: Any, args: list[Any], kwargs: dict[str, Any], dtype: Any = None) -> Any:
    """Return a model on meta in ``dtype``: ``found`` itself if it is a module, else the result of calling it.

    The result must be a module or another callable, which is later called with the inputs. Otherwise `TargetError` is
    raised. A function that cannot be called without arguments is itself the model if there are none.
    """
    if isinstance(found, mt.nn.Module):
        if args or kwargs:
            raise TargetError("the target is already a model; --args needs a class or function that makes one")
        model = found
    elif inspect.isfunction(found) and not args and not kwargs and _needs_arguments(found):
        model = found
    elif callable(found):
        model = found(*args, **kwargs)
    else:
        raise TargetError(f"the target is of type {type(found).__name__}, neither a model nor a class or function that makes one")
    if not callable(model):
        raise TargetError(f"what the target returned is of type {type(model).__name__}, not a model")
    if isinstance(model, mt.nn.Module):
        if any(tensor.device.type != "meta" for tensor in (*model.parameters(), *model.buffers())):
            model = model.to("meta")
        if dtype is not None:
            model = model.to(dtype)
    return model


def _needs_arguments(function: Any) -> bool:
    """Return True if a function has parameters without a default."""
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(p.kind in plain and p.default is p.empty for p in inspect.signature(function).parameters.values())


@contextmanager
def dtype_default(dtype: Any) -> Iterator[None]:
    """Set the default dtype inside a ``with`` block. None changes nothing."""
    before = mt.get_default_dtype()
    if dtype is not None:
        mt.set_default_dtype(dtype)
    try:
        yield
    finally:
        mt.set_default_dtype(before)
