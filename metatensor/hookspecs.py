"""The hooks that a plugin can implement. Each is called once, when its plugin is loaded.

A plugin is a module or object that an entry point names. The group of the entry point is ``metatensor.devices``,
``metatensor.ops``, ``metatensor.formats``, ``metatensor.commands`` or ``metatensor.communicators``. The plugin
implements the hook of that group::

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
    """Call ``register(backend)`` with one `DeviceBackend`. Its type must equal the name of the entry point."""


@hookspec
def metatensor_ops(register):
    """Call ``register(op)`` for each operator of the plugin. The name of the entry point is their namespace."""


@hookspec
def metatensor_checkpoint_formats(register):
    """Call ``register(format)`` for each checkpoint format of the plugin. A format is an object with a ``name``."""


@hookspec
def metatensor_commands(register):
    """Call ``register(command)`` for each Click command that the plugin adds to the ``metatensor`` command line."""


@hookspec
def metatensor_communicators(register):
    """Call ``register(communicator)`` with one `Communicator`. Its name must equal the name of the entry point."""
