"""The hooks of metatensor: what a plugin may provide. Each is called once, when its plugin is loaded.

A plugin is a module or an object, named by an entry point in one of the groups ``metatensor.devices``,
``metatensor.ops``, ``metatensor.formats`` and ``metatensor.commands``, that implements the hook of that group::

    from metatensor.hookspecs import hookimpl

    @hookimpl
    def metatensor_devices(register):
        register(MyBackend())
"""

import pluggy

PROJECT = "metatensor"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def metatensor_devices(register):
    """Call ``register(backend)`` with the `DeviceBackend` whose type is the entry point's name."""


@hookspec
def metatensor_ops(register):
    """Call ``register(op)`` for each operator that the plugin defines in the namespace that its entry point names."""


@hookspec
def metatensor_checkpoint_formats(register):
    """Call ``register(format)`` for each checkpoint format, an object with a ``name``, that the plugin reads or writes."""


@hookspec
def metatensor_commands(register):
    """Call ``register(command)`` for each click command to add to the ``metatensor`` command line."""
