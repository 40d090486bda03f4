"""Settings of PyTorch's compiler. They are stored and have no effect. Any other attribute can be set as well."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

automatic_dynamic_shapes = True
assume_static_by_default = True
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
optimize_ddp = True
suppress_errors = False
verbose = False
allow_unspec_int_on_nn_module = False
inline_inbuilt_nn_modules = True
compiled_autograd = False
guard_nn_modules = True


@contextmanager
def patch(changes: Any = None, **values: Any) -> Any:
    """Return a context manager and decorator that changes settings."""
    if isinstance(changes, str):
        raise TypeError("torch._dynamo.config.patch: expected a dict or keyword arguments")
    given = {**(changes or {}), **values}
    place = globals()
    missing = object()
    before = {name: place.get(name, missing) for name in given}
    place.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is missing:
                del place[name]
            else:
                place[name] = value
