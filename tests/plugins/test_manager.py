"""The plugin manager: loading by name on demand, blocking, reports of broken plugins. Entry points are simulated."""

import os
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest

from metatensor import plugins
from metatensor.devices.base import DeviceBackend
from metatensor.hookspecs import hookimpl
from metatensor.library import define


class Entry:
    """A stand-in for an entry point of importlib.metadata."""

    def __init__(self, name, plugin, dist="acme", version="1.2"):
        self.name, self.value = name, f"{dist.replace('-', '_')}:plugin"
        self.dist = SimpleNamespace(name=dist, version=version)
        self.plugin, self.loads = plugin, 0

    def load(self):
        self.loads += 1
        if isinstance(self.plugin, BaseException):
            raise self.plugin
        return self.plugin


class Plugin:
    """An object with hooks as attributes."""

    def __init__(self, **hooks):
        vars(self).update(hooks)


class Toy(DeviceBackend):
    def __init__(self, type="toy", count=1, reason=""):
        self.type, self.count, self.reason = type, count, reason

    def device_count(self):
        return self.count

    def unavailable_reason(self):
        return self.reason


def plugin(*provided, hook="metatensor_devices", error=None):
    def implementation(register):
        if error is not None:
            raise error
        for item in provided:
            register(item)

    implementation.__name__ = hook
    return Plugin(**{hook: hookimpl(implementation)})


def manager(*entries, group="devices", blocked=()):
    return plugins.PluginManager(lambda asked: entries if asked == f"metatensor.{group}" else (), blocked)


def row(found, name):
    return next(info for info in found.report() if info.name == name)


def test_backend_is_loaded_once_and_alone():
    toy, other = Entry("toy", plugin(Toy())), Entry("other", plugin(Toy("other")))
    found = manager(toy, other)
    backend = found.backend("toy")
    assert backend.type == "toy"
    assert found.backend("toy") is backend
    assert (toy.loads, other.loads) == (1, 0)
    states = {info.name: info.state for info in found.report(load=False)}
    assert states == {"meta": "available", "toy": "available", "other": "not loaded"}
    assert other.loads == 0


def test_meta_needs_no_entry_points():
    def never(group):
        raise AssertionError("entry points were read")

    assert plugins.PluginManager(never).backend("meta").type == "meta"


def test_report_rows():
    found = manager(Entry("toy", plugin(Toy(count=2)), version="3.1"), Entry("off", plugin(Toy("off", 0, "no hardware"))))
    assert row(found, "meta")[:2] == ("devices", "meta")
    assert row(found, "toy") == ("devices", "toy", "acme", "3.1", "available", "", ("toy:0", "toy:1"))
    assert row(found, "off") == ("devices", "off", "acme", "1.2", "no device", "no hardware", ())


def test_unknown_type_lists_the_known():
    found = manager(Entry("toy", plugin(Toy())))
    with pytest.raises(RuntimeError, match=r"unknown device type 'tyo': the known types are meta, toy"):
        found.backend("tyo")


@pytest.mark.parametrize("error", [ImportError("libtoy.so.3 is missing"), ZeroDivisionError("boom"), SyntaxError("bad")])
def test_a_plugin_that_fails_to_import_breaks_only_itself(error):
    found = manager(Entry("toy", error), Entry("good", plugin(Toy("good"))))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"plugin 'toy' \(acme\).*failed to load.*" + str(error)) as raised:
            found.backend("toy")
        assert raised.value.__cause__ is error
    assert found.backend("good").type == "good"
    info = row(found, "toy")
    assert info.state == "broken"
    assert str(error) in info.reason and type(error).__name__ in info.reason


def test_a_hook_that_raises():
    found = manager(Entry("toy", plugin(error=OSError("no permission"))))
    with pytest.raises(RuntimeError, match="no permission") as raised:
        found.backend("toy")
    assert isinstance(raised.value.__cause__, OSError)
    assert row(found, "toy").state == "broken"


@pytest.mark.parametrize("provided, message", [
    ((), "registered no backend"),
    ((object(),), "expected a DeviceBackend, got object"),
    ((Toy("other"),), "'other'.*only the device type 'toy'"),
    ((Toy("toy"), Toy("toy2")), "'toy', 'toy2'"),
    ((Toy(""),), "no usable device type"),
])
def test_hooks_that_register_the_wrong_thing(provided, message):
    found = manager(Entry("toy", plugin(*provided)))
    with pytest.raises(RuntimeError, match=message):
        found.backend("toy")
    assert found._backends.keys() == {"meta"}


@pytest.mark.parametrize("implementation", [
    Plugin(),
    Plugin(metatensor_devices=lambda register: None),
    plugin(Toy(), hook="metatensor_ops"),
])
def test_a_plugin_without_the_hook(implementation):
    found = manager(Entry("toy", implementation))
    with pytest.raises(RuntimeError, match=r"does not implement the hook metatensor_devices\(register\)"):
        found.backend("toy")


def test_a_hook_with_the_wrong_arguments():
    @hookimpl
    def metatensor_devices(registry):
        pass

    found = manager(Entry("toy", Plugin(metatensor_devices=metatensor_devices)))
    with pytest.raises(RuntimeError, match="registry"):
        found.backend("toy")


def test_two_distributions_that_claim_one_name():
    entries = Entry("toy", plugin(Toy()), "acme"), Entry("toy", plugin(Toy()), "zenith")
    found = manager(*entries)
    with pytest.raises(RuntimeError, match=r"'toy' is claimed by acme .* and zenith"):
        found.backend("toy")
    info = row(found, "toy")
    assert (info.state, info.distribution) == ("broken", "acme and zenith")
    assert [entry.loads for entry in entries] == [0, 0]
    # If one distribution is blocked, there is no conflict.
    assert manager(*entries, blocked=["zenith"]).backend("toy").type == "toy"


@pytest.mark.parametrize("blocked", ["toy", "acme"])
def test_blocked_by_name_or_distribution(blocked):
    entry = Entry("toy", plugin(Toy()))
    found = manager(entry, Entry("good", plugin(Toy("good")), "zenith"), blocked=[blocked])
    with pytest.raises(RuntimeError, match="blocked by METATENSOR_BLOCK_PLUGINS"):
        found.backend("toy")
    assert row(found, "toy").state == "blocked"
    assert entry.loads == 0
    assert found.backend("good").type == "good"


def test_blocked_by_environment(monkeypatch):
    monkeypatch.setenv(plugins.BLOCK_VARIABLE, " nothing, toy ,")
    with pytest.raises(RuntimeError, match="blocked"):
        manager(Entry("toy", plugin(Toy())), blocked=None).backend("toy")


def test_register_backend():
    found = manager(Entry("toy", plugin(Toy())))
    mine = Toy("mine")
    found.register_backend(mine)
    assert found.backend("mine") is mine
    assert "mine" in found.device_types()
    with pytest.raises(RuntimeError, match="already provided"):
        found.register_backend(Toy("mine"))
    assert row(found, "mine").distribution == "registered in this process"
    with pytest.raises(RuntimeError, match="already provided by <"):
        found.register_backend(Toy("toy"))
    found = manager(Entry("toy", plugin(Toy())))
    with pytest.raises(RuntimeError, match=r"already provided by plugin 'toy' \(acme\)"):
        found.register_backend(Toy("toy"))
    replacement = Toy("toy")
    found.register_backend(replacement, override=True)
    assert found.backend("toy") is replacement
    assert [info.distribution for info in found.report() if info.name == "toy"] == ["registered in this process"]
    with pytest.raises(RuntimeError, match="meta device is built in"):
        found.register_backend(Toy("meta"), override=True)
    with pytest.raises(TypeError, match="expected a DeviceBackend, got int"):
        found.register_backend(3)


def test_a_device_that_fails_when_asked_what_it_has():
    class Failing(Toy):
        def device_count(self):
            raise OSError("driver gone")

    found = manager(Entry("toy", plugin(Failing())))
    assert row(found, "toy")[4:6] == ("broken", "OSError: driver gone")


def test_other_groups():
    commands = manager(Entry("tool", plugin("a", "b", hook="metatensor_commands")), Entry("bad", OSError("no")), group="commands")
    assert commands.load("commands") == {"tool": ["a", "b"]}
    with pytest.raises(RuntimeError, match="OSError: no"):
        commands.load("commands", "bad")
    assert commands.load("commands", "missing") == {}
    assert {info.name: info.state for info in commands.report()} == {"meta": "available", "tool": "loaded", "bad": "broken"}
    with pytest.raises(ValueError, match="unknown plugin group"):
        commands.load("nonsense")


def test_formats_are_named_once(monkeypatch):
    entries = [Entry(name, plugin(SimpleNamespace(name="npz"), hook="metatensor_checkpoint_formats")) for name in ("a", "b")]
    monkeypatch.setattr(plugins.loading, "_manager", manager(*entries[:1], group="formats"))
    assert set(plugins.formats()) == {"npz"}
    monkeypatch.setattr(plugins.loading, "_manager", manager(*entries, group="formats"))
    with pytest.raises(RuntimeError, match="'npz' is registered twice"):
        plugins.formats()


class Engine:
    """What the manager asks a communicator."""

    def __init__(self, name="engine", reason=""):
        self.name, self.reason = name, reason

    def connect(self, rank, size, timeout, store):
        raise AssertionError

    def unavailable_reason(self):
        if self.reason is None:
            raise OSError("no driver")
        return self.reason


def engines(*registered):
    return manager(Entry("engine", plugin(*registered, hook="metatensor_communicators")), group="communicators")


@pytest.mark.parametrize("reason, expected", [
    ("", ("available", "")), ("no library", ("unavailable", "no library")), (None, ("broken", "OSError: no driver")),
])  # fmt: skip
def test_communicators(reason, expected, monkeypatch):
    found = engines(Engine(reason=reason))
    monkeypatch.setattr(plugins.loading, "_manager", found)
    assert plugins.communicators() == ["engine"] and plugins.communicator("engine").name == "engine"
    assert plugins.communicator("other") is None
    assert {info.name: info[4:6] for info in found.report()}["engine"] == expected


@pytest.mark.parametrize("registered, message", [
    ((), "registered 0 communicators"), ((Engine(), Engine()), "registered 2 communicators"),
    ((Engine("other"),), "registers the communicator 'other'"), ((object(),), "expected a Communicator, got object"),
])  # fmt: skip
def test_wrong_communicators(registered, message):
    with pytest.raises(RuntimeError, match=message):
        engines(*registered).load("communicators", "engine")


def test_one_plugin_in_two_groups():
    both = Plugin(**vars(plugin(Toy())), **vars(plugin("command", hook="metatensor_commands")))
    entry = Entry("toy", both)
    found = plugins.PluginManager(lambda group: [entry] if group in ("metatensor.devices", "metatensor.commands") else [], ())
    assert found.backend("toy").type == "toy"
    assert found.load("commands") == {"toy": ["command"]}


def test_load_ops(monkeypatch):
    acme = Entry("load_acme", plugin(define("load_acme::rope() -> ()"), hook="metatensor_ops"))
    other = Entry("load_other", plugin(define("load_other::op() -> ()"), hook="metatensor_ops"))
    monkeypatch.setattr(plugins.loading, "_manager", manager(acme, other, group="ops"))
    assert plugins.load_ops("nothing") == []
    assert plugins.load_ops("load_acme") == ["load_acme"]
    assert (acme.loads, other.loads) == (1, 0)
    assert plugins.load_ops() == ["load_acme", "load_other"]
    assert acme.loads == 1


def test_threads_load_once():
    entered = threading.Barrier(8, timeout=10)
    entry = Entry("toy", plugin(Toy()))
    found = manager(entry)
    seen = []

    def use():
        entered.wait()
        seen.append(found.backend("toy"))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8 and len(set(map(id, seen))) == 1
    assert entry.loads == 1


def test_a_plugin_that_needs_itself():
    def own(register):
        found.backend("toy")

    own.__name__ = "metatensor_devices"
    found = manager(Entry("toy", Plugin(metatensor_devices=hookimpl(own))))
    with pytest.raises(RuntimeError, match="uses itself"):
        found.backend("toy")


def install(folder, dist, module, code, entry):
    """Create an installed distribution: a module and its dist-info."""
    (folder / f"{module}.py").write_text(textwrap.dedent(code))
    info = folder / f"{dist.replace('-', '_')}-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text(f"[metatensor.devices]\n{entry} = {module}\n")


def run(folder, code, **environment):
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path} | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


GOOD = """
    from metatensor.devices import DeviceBackend
    from metatensor.hookspecs import hookimpl
    class Backend(DeviceBackend):
        type = "good"
    @hookimpl
    def metatensor_devices(register):
        register(Backend())
"""


@pytest.mark.slow
def test_installed_distributions(tmp_path):
    install(tmp_path, "acme-good", "acme_good", GOOD, "good")
    install(tmp_path, "acme-bad", "acme_bad", "import a_module_that_is_not_there", "bad")
    assert run(tmp_path, """
        import sys
        from metatensor import plugins
        assert "pluggy" not in sys.modules
        assert plugins.backend("good").type == "good"
        assert "acme_bad" not in sys.modules
        try:
            plugins.backend("bad")
        except RuntimeError as error:
            assert isinstance(error.__cause__, ModuleNotFoundError), error.__cause__
        for row in plugins.report():
            if row.distribution.startswith("acme"):
                print(row.name, row.distribution, row.version, row.state, row.reason)
    """) == ("bad acme-bad 0.3 broken ModuleNotFoundError: No module named 'a_module_that_is_not_there'\n"
             "good acme-good 0.3 available")
    assert run(tmp_path, """
        from metatensor import plugins
        print(*[row.name for row in plugins.report() if row.state == "blocked"])
    """, METATENSOR_BLOCK_PLUGINS="good,acme-bad") == "bad good"


@pytest.mark.slow
def test_importing_metatensor_loads_no_plugin_machinery(tmp_path):
    install(tmp_path, "acme-bad", "acme_bad", "raise SystemError('imported')", "bad")
    assert run(tmp_path, """
        import sys, metatensor
        print(*[name for name in ("pluggy", "numpy", "cupy", "importlib.metadata", "acme_bad") if name in sys.modules])
    """) == ""
