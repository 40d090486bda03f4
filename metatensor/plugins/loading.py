"""The plugin manager. It finds plugins by their entry points, loads them on first use and reports broken ones.

Importing metatensor does not import this module. Entry points are read when a device other than meta is first used, and
only the plugin of that device is imported. Entry points or distributions named in the environment variable
``METATENSOR_BLOCK_PLUGINS``, separated by commas, are never loaded.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from metatensor._version import __version__
from metatensor.plugins.checking import check_backend, check_communicators, check_formats, check_ops
from metatensor.plugins.entry_points import distribution_of, installed, own_version, reason_of
from metatensor.plugins.requirements import unmet

if TYPE_CHECKING:
    from metatensor.devices.base import DeviceBackend

__all__ = [
    "BLOCK_VARIABLE", "GROUPS", "PluginInfo", "PluginManager",
    "backend", "commands", "communicator", "communicators", "device_types", "formats", "load_ops", "loaded_backend", "provider",
    "provider_of_module", "register_backend", "report",
]

BLOCK_VARIABLE = "METATENSOR_BLOCK_PLUGINS"

GROUPS = {
    "devices": "metatensor_devices",
    "ops": "metatensor_ops",
    "formats": "metatensor_checkpoint_formats",
    "commands": "metatensor_commands",
    "communicators": "metatensor_communicators",
}
"""The hooks that entry points of group ``metatensor.<group>`` implement, by group."""


# The packages that provide metatensor's own devices.
_PACKAGES = {"cpu": "metatensor-cpu", "cuda": "metatensor-cuda", "disk": "metatensor-disk"}


def _where_to_find(type: str) -> str:
    """Return advice for an unknown device type, as the end of an error message."""
    import metatensor

    if isinstance(getattr(metatensor, type, None), metatensor.dtype):
        return f"{type} is a dtype: metatensor.{type}"
    return f"Plugins provide the other devices: install {_PACKAGES.get(type, f'the one that provides {type!r}')}"


class PluginInfo(NamedTuple):
    """One row of `report`: a plugin and its state."""

    group: str
    """A key of `GROUPS`: "devices", "ops", "formats", "commands" or "communicators"."""
    name: str
    """The name of the entry point. For a device it is the device type."""
    distribution: str
    version: str
    state: str
    """One of "not loaded", "blocked", "broken" and "loaded". For the plugin of a device, "available" or "no device" replaces "loaded",
    for a communicator "available" or "unavailable"."""
    reason: str
    """Why the plugin is blocked or broken, or why its device or communicator is not available. Otherwise empty."""
    devices: tuple[str, ...]
    """The devices that are present, such as "cuda:0" and "cuda:1"."""


@dataclass
class _Plugin:
    """A plugin name in a group, with all entry points of that name."""

    group: str
    name: str
    claims: list[Any] = field(default_factory=list)
    blocked: bool = False
    loaded: bool = False
    loading: bool = False
    error: BaseException | None = None
    provided: list[Any] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def distribution(self) -> tuple[str, str]:
        """Return the name and version of the distribution.

        If several distributions provide the plugin, join their names and versions with " and ".
        """
        found = [distribution_of(claim) for claim in self.claims]
        return " and ".join(name for name, _ in found), " and ".join(version for _, version in found)

    def describe(self) -> str:
        return f"plugin {self.name!r} ({self.distribution()[0]})"


class PluginManager:
    """The plugins and the objects that they registered.

    The functions of this module use one manager per process.

    Parameters
    ----------
    entry_points : callable, optional
        ``entry_points(group)`` returns the entry points of a group. Default: those of the installed distributions.
    blocked : iterable of str, optional
        Names of entry points or distributions that are never loaded. Default: read from the environment variable
        ``METATENSOR_BLOCK_PLUGINS``.
    """

    def __init__(
        self,
        entry_points: Callable[[str], Iterable[Any]] | None = None,
        blocked: Iterable[str] | None = None,
    ) -> None:
        from metatensor.devices.meta import MetaBackend

        self._entry_points = entry_points or installed
        self._blocked = None if blocked is None else set(blocked)
        self._backends: dict[str, DeviceBackend] = {"meta": MetaBackend()}
        self._in_process: set[str] = set()
        self._groups: dict[str, dict[str, _Plugin]] = {}
        self._pluggy: Any = None
        self._lock = threading.RLock()

    # Devices ------------------------------------------------------------------

    def backend(self, type: str) -> DeviceBackend:
        """Return the backend of device ``type``, loading its plugin on first use.

        Raises
        ------
        RuntimeError
            If the type is unknown or blocked, if two distributions provide it, or if its plugin fails to load. In the
            last case the error of the plugin is the cause.
        """
        found = self._backends.get(type)
        if found is not None:
            return found
        plugin = self._discover("devices").get(type)
        if plugin is None:
            raise self.unknown_type(type)
        self._load(plugin)
        return self._backends[type]

    def loaded_backend(self, type: str) -> DeviceBackend | None:
        """Return the backend of device ``type`` if it is loaded or registered, else None."""
        return self._backends.get(type)

    def provider(self, type: str) -> str:
        """Return a description, for messages, of the provider of a device type."""
        plugin = self._discover("devices").get(type)
        if type in self._in_process or plugin is None:
            backend = self._backends.get(type)
            return "metatensor" if type == "meta" else f"{backend!r}, registered in this process" if backend else "nothing installed"
        return plugin.describe()

    def provider_of_module(self, function: Any) -> str:
        """Return a description, for messages, of where a function is defined: its module and the module's plugin."""
        module = getattr(function, "__module__", None) or builtins.type(function).__module__
        for group in GROUPS:
            for plugin in self._discover(group).values():
                if any(claim.value.partition(":")[0].partition(".")[0] == module.partition(".")[0] for claim in plugin.claims):
                    return f"module {module} of {plugin.describe()}"
        return f"module {module}"

    def unknown_type(self, type: str) -> RuntimeError:
        """Return the exception for an unknown device type. The caller raises it."""
        return RuntimeError(f"unknown device type {type!r}: the known types are {', '.join(self.device_types())}. {_where_to_find(type)}")

    def register_backend(self, backend: DeviceBackend, *, override: bool = False) -> None:
        """Register a device in this process, without an entry point.

        Parameters
        ----------
        backend : DeviceBackend
            The backend of the device.
        override : bool
            Whether to replace an existing backend of the same type. Default False.

        Raises
        ------
        RuntimeError
            If the device type is "meta", or if it is already provided and `override` is False.
        TypeError
            If `backend` is not a `DeviceBackend`.
        ValueError
            If its device type is not an identifier.
        """
        check_backend(backend)
        with self._lock:
            type = backend.type
            if type == "meta":
                raise RuntimeError("the meta device is built in: its backend cannot be replaced")
            if not override:
                if type in self._backends:
                    raise RuntimeError(f"device type {type!r} is already provided by {self._backends[type]!r}")
                if type in self._discover("devices"):
                    owner = self._discover("devices")[type].describe()
                    raise RuntimeError(f"device type {type!r} is already provided by {owner}; override=True replaces it")
            self._backends[type] = backend
            self._in_process.add(type)

    def device_types(self) -> list[str]:
        """Return the sorted names of all device types, loaded or not."""
        return sorted(set(self._backends) | {name for name in self._discover("devices") if name.isidentifier()})

    # Other groups -------------------------------------------------------------

    def load(self, group: str, name: str | None = None) -> dict[str, list[Any]]:
        """Load the plugin ``name`` of ``group``, or all plugins of the group.

        Returns
        -------
        dict of str to list
            For each loaded plugin, the objects that it registered. Empty if ``name`` does not exist. If no name is
            given, broken and blocked plugins are left out. `report` lists them.

        Raises
        ------
        RuntimeError
            If ``name`` is given and the plugin is broken or blocked.
        """
        plugins = self._discover(group)
        if name is not None:
            if name not in plugins:
                return {}
            self._load(plugins[name])
            return {name: list(plugins[name].provided)}
        loaded = {}
        for plugin in plugins.values():
            try:
                self._load(plugin)
            except RuntimeError:
                continue
            loaded[plugin.name] = list(plugin.provided)
        return loaded

    def report(self, load: bool = True) -> list[PluginInfo]:
        """Return a row for every plugin, ordered by group and name. If ``load`` is true, load all plugins first."""
        rows = []
        for group in GROUPS:
            plugins = self._discover(group)
            if load:
                self.load(group)
            if group == "devices":
                rows.append(_device_row("meta", "metatensor-device", own_version(), self._backends["meta"]))
                for name in sorted(self._in_process):
                    rows.append(_device_row(name, "registered in this process", "", self._backends[name]))
            for plugin in sorted(plugins.values(), key=lambda plugin: plugin.name):
                if not (group == "devices" and plugin.name in self._in_process):
                    rows.append(self._row(plugin))
        return rows

    # Loading ------------------------------------------------------------------

    def _discover(self, group: str) -> dict[str, _Plugin]:
        """Return the plugins of a group by name. The entry points are read once."""
        found = self._groups.get(group)
        if found is not None:
            return found
        if group not in GROUPS:
            raise ValueError(f"unknown plugin group {group!r}: the groups are {', '.join(GROUPS)}")
        with self._lock:
            if group in self._groups:
                return self._groups[group]
            if self._blocked is None:
                names = os.environ.get(BLOCK_VARIABLE, "").split(",")
                self._blocked = {name.strip() for name in names if name.strip()}
            plugins: dict[str, _Plugin] = {}
            for entry in self._entry_points(f"metatensor.{group}"):
                plugin = plugins.setdefault(entry.name, _Plugin(group, entry.name))
                plugin.claims.append(entry)
            for plugin in plugins.values():
                allowed = [claim for claim in plugin.claims if distribution_of(claim)[0] not in self._blocked]
                plugin.blocked = plugin.name in self._blocked or not allowed
                plugin.claims = allowed or plugin.claims
            self._groups[group] = plugins
            return plugins

    def _load(self, plugin: _Plugin) -> None:
        """Load a plugin unless it is loaded. If loading failed before, raise the same RuntimeError again."""
        if plugin.loaded:
            return
        with plugin.lock:
            if plugin.loaded:
                return
            if plugin.blocked:
                raise RuntimeError(f"{plugin.describe()} of group metatensor.{plugin.group} is blocked by {BLOCK_VARIABLE}")
            if plugin.loading:
                raise RuntimeError(f"{plugin.describe()} uses itself while it is being loaded")
            if plugin.error is None:
                plugin.loading = True
                before = _operators(plugin)
                try:
                    self._call_hook(plugin)
                except (Exception, SystemExit) as error:
                    plugin.error = error
                    _forget_operators(_operators(plugin) - before)
                finally:
                    plugin.loading = False
            if plugin.error is not None:
                message = f"{plugin.describe()} of group metatensor.{plugin.group} failed to load: {reason_of(plugin.error)}"
                raise RuntimeError(message) from plugin.error
            plugin.loaded = True

    def _call_hook(self, plugin: _Plugin) -> None:
        """Import the plugin, call its hook and check what it registers. Store the objects only if all checks pass."""
        if len(plugin.claims) > 1:
            owners = " and ".join(f"{distribution_of(claim)[0]} ({claim.value})" for claim in plugin.claims)
            raise RuntimeError(f"{plugin.name!r} is claimed by {owners}: uninstall or block all but one")
        distribution = getattr(plugin.claims[0], "dist", None)
        needed = unmet(distribution, "metatensor-device", __version__)
        if needed:
            who = " ".join(distribution_of(plugin.claims[0]))
            raise RuntimeError(f"{who} needs {needed}, but version {__version__} is installed")
        implementation = plugin.claims[0].load()
        hook = GROUPS[plugin.group]
        registry = self._pluggy_manager()
        with self._lock:
            # A module that implements several hooks is registered once.
            if not registry.is_registered(implementation):
                registry.register(implementation, f"{plugin.group}:{plugin.name}")
            if hook not in {caller.name for caller in registry.get_hookcallers(implementation) or ()}:
                raise RuntimeError(
                    f"{plugin.claims[0].value} does not implement the hook {hook}(register); "
                    f"mark the function with metatensor.hookspecs.hookimpl"
                )
            others = [other for other in registry.get_plugins() if other is not implementation]
            caller = registry.subset_hook_caller(hook, others)
        provided: list[Any] = []
        caller(register=provided.append)
        if plugin.group == "devices":
            self._add_backends(plugin, provided)
        elif plugin.group == "ops":
            check_ops(plugin.name, provided)
        elif plugin.group == "formats":
            check_formats(provided)
        elif plugin.group == "communicators":
            check_communicators(plugin.name, provided)
        plugin.provided = provided

    def _add_backends(self, plugin: _Plugin, backends: list[Any]) -> None:
        if not backends:
            raise RuntimeError(f"its hook registered no backend for device type {plugin.name!r}")
        for backend in backends:
            check_backend(backend)
            if backend.type != plugin.name or len(backends) > 1:
                types = ", ".join(repr(backend.type) for backend in backends)
                raise RuntimeError(
                    f"it registers the device types {types}, but the entry point {plugin.name!r} may provide only "
                    f"the device type {plugin.name!r}"
                )
        with self._lock:
            if plugin.name in self._backends:
                raise RuntimeError(f"device type {plugin.name!r} is already provided by {self._backends[plugin.name]!r}")
            self._backends[plugin.name] = backends[0]

    def _pluggy_manager(self) -> Any:
        with self._lock:
            if self._pluggy is None:
                import pluggy

                from metatensor import hookspecs

                self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
                self._pluggy.add_hookspecs(hookspecs)
            return self._pluggy

    def _row(self, plugin: _Plugin) -> PluginInfo:
        distribution, version = plugin.distribution()
        if plugin.loaded and plugin.group == "devices":
            return _device_row(plugin.name, distribution, version, self._backends[plugin.name])
        if plugin.loaded and plugin.group == "communicators":
            return PluginInfo(plugin.group, plugin.name, distribution, version, *_communicator_state(plugin.provided[0]), ())
        if plugin.blocked:
            state, reason = "blocked", f"by {BLOCK_VARIABLE}"
        elif plugin.error is not None:
            state, reason = "broken", reason_of(plugin.error)
        else:
            state, reason = "loaded" if plugin.loaded else "not loaded", ""
        return PluginInfo(plugin.group, plugin.name, distribution, version, state, reason, ())


def _operators(plugin: _Plugin) -> set[str]:
    """Return the names of the operators in an operator plugin's namespace. For other plugins return an empty set."""
    from metatensor._core.op import registry

    return {name for name in list(registry) if name.startswith(plugin.name + "::")} if plugin.group == "ops" else set()


def _forget_operators(names: set[str]) -> None:
    """Remove operators from the registry. A plugin that failed to load must not leave part of its namespace behind."""
    from metatensor._core.op import registry

    for name in names:
        registry.pop(name, None)


def _device_row(name: str, distribution: str, version: str, backend: DeviceBackend) -> PluginInfo:
    """Return the row for a loaded device. It is "broken" if the backend raises when it is queried."""
    try:
        count = backend.device_count()
        reason = "" if count else backend.unavailable_reason()
    except (Exception, SystemExit) as error:
        return PluginInfo("devices", name, distribution, version, "broken", reason_of(error), ())
    devices = tuple(f"{name}:{index}" for index in range(count))
    return PluginInfo("devices", name, distribution, version, "available" if count else "no device", reason, devices)


def _communicator_state(communicator: Any) -> tuple[str, str]:
    """Return the state and the reason in the row of a loaded communicator."""
    try:
        reason = communicator.unavailable_reason()
    except (Exception, SystemExit) as error:
        return "broken", reason_of(error)
    return "unavailable" if reason else "available", reason


_manager: PluginManager | None = None
_manager_lock = threading.Lock()


def manager() -> PluginManager:
    """Return the plugin manager of the process."""
    global _manager
    if _manager is None:
        with _manager_lock:
            if _manager is None:
                _manager = PluginManager()
    return _manager


def backend(type: str) -> DeviceBackend:
    """Return the backend of device ``type``, loading its plugin on first use.

    Raises
    ------
    RuntimeError
        If the type is unknown, blocked or broken. See `PluginManager.backend`.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.plugins.backend("meta").type
    'meta'
    """
    return manager().backend(type)


def loaded_backend(type: str) -> DeviceBackend | None:
    """Return the backend of device ``type`` if it is loaded or registered, else None."""
    return manager().loaded_backend(type)


def provider(type: str) -> str:
    """Return a description, for messages, of the provider of a device type: "plugin 'disk' (metatensor-disk)"."""
    return manager().provider(type)


def provider_of_module(function: Any) -> str:
    """Return a description, for messages, of where a function is defined.

    For example: "module acme.kernels of plugin 'acme' (acme-ops)".
    """
    return manager().provider_of_module(function)


def register_backend(backend: DeviceBackend, *, override: bool = False) -> None:
    """Register a device in this process, without an entry point.

    Parameters
    ----------
    backend : DeviceBackend
        The backend of the device.
    override : bool
        Whether to replace an existing backend of the same type. Default False.

    Raises
    ------
    RuntimeError
        If the device type is "meta", or if it is already provided and `override` is False.
    TypeError
        If `backend` is not a `DeviceBackend`.
    ValueError
        If its device type is not an identifier.
    """
    from metatensor._core.compute import forget_kernels
    from metatensor._core.device import _forget_backend
    from metatensor._core.op import registry

    manager().register_backend(backend, override=override)
    # Devices and ops cache the backend and its kernels.
    _forget_backend(backend.type)
    for op in set(registry.values()):
        forget_kernels(op)


def device_types() -> list[str]:
    """Return the sorted names of all device types that are built in, installed or registered."""
    return manager().device_types()


def load_ops(namespace: str | None = None) -> list[str]:
    """Load operator plugins and return their names.

    Parameters
    ----------
    namespace : str, optional
        The namespace whose plugin is loaded. Default: all plugins that work.

    Raises
    ------
    RuntimeError
        If `namespace` is given and the plugin is broken or blocked. The error of a broken plugin is the cause.
    """
    return sorted(manager().load("ops", namespace))


def formats() -> dict[str, Any]:
    """Return the checkpoint formats of all working plugins, by their ``name``.

    Raises
    ------
    RuntimeError
        If two formats have the same name.
    """
    table: dict[str, Any] = {}
    for plugin, provided in manager().load("formats").items():
        for item in provided:
            if item.name in table:
                raise RuntimeError(f"checkpoint format {item.name!r} is registered twice, the second time by plugin {plugin!r}")
            table[item.name] = item
    return table


def communicators() -> list[str]:
    """Return the sorted names of the installed communicators of `metatensor.distributed`, without loading them."""
    return sorted(manager()._discover("communicators"))


def communicator(name: str) -> Any:
    """Return the communicator ``name``, or None if it is not installed.

    Raises
    ------
    RuntimeError
        If its plugin is broken or blocked. The error of a broken plugin is the cause.
    """
    found = manager().load("communicators", name)
    return found[name][0] if found else None


def commands() -> list[Any]:
    """Return the commands that plugins add to the ``metatensor`` command line. Broken plugins are left out."""
    return [command for provided in manager().load("commands").values() for command in provided]


def report(load: bool = True) -> list[PluginInfo]:
    """Return a row for every plugin.

    Parameters
    ----------
    load : bool
        Whether to load all plugins first. Without it, a broken plugin that nobody has used is reported as "not
        loaded". Default True.

    Returns
    -------
    list of PluginInfo
        Ordered by group and name.
    """
    return manager().report(load)
