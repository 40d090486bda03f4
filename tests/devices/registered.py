"""Remove devices that tests have registered."""

from metatensor import plugins
from metatensor._core.compute import forget_kernels
from metatensor._core.device import _forget_backend
from metatensor._core.op import registry


def unregister(name):
    """Undo `plugins.register_backend` for the device named `name`."""
    plugins.manager()._backends.pop(name)
    plugins.manager()._in_process.discard(name)
    _forget_backend(name)
    for op in list(registry.values()):
        forget_kernels(op)
