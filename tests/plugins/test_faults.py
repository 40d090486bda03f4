"""Faulty plugins as installed on disk: each causes a clear error that names it, and others keep working."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("metatensor_cpu")

DEVICE = """
    import array
    from metatensor.devices import DeviceBackend
    from metatensor.hookspecs import hookimpl
    import metatensor as mt

    class Backend(DeviceBackend):
        type = "{name}"

        def allocate(self, nbytes, index):
            return bytearray(nbytes)

        def to_host(self, tensor):
            return bytes(tensor.untyped_storage().data)

        def from_host(self, tensor, data):
            tensor.untyped_storage().data[:] = data

        def kernel(self, name):
            return getattr(self, "op_" + name, None) or super().kernel(name)

        def op_neg(self, out, input):
            values = array.array("f", self.to_host(input))
            self.from_host(out, array.array("f", [-v for v in values]).tobytes())

        {kernels}

    @hookimpl
    def metatensor_devices(register):
        register(Backend())
"""
OPS = """
    import metatensor as mt
    from metatensor.hookspecs import hookimpl

    @mt.op("{name}::twice", schema="(Tensor x) -> Tensor")
    def twice(x):
        return mt.Spec(x.shape, x.dtype)

    @twice.decomposition
    def _(x):
        return x * 2

    {more}

    @hookimpl
    def metatensor_ops(register):
        register(twice)
"""
# Good plugins that are installed as well, and must work after the faulty one has failed.
GOOD = """
    x = mt.empty(2, device="good")
    y = mt.ones(2).to("good").neg()
    assert y.cpu().tolist() == [-1.0, -1.0]
    assert mt.ops.fine.twice(mt.ones(2)).tolist() == [2.0, 2.0]
    assert mt.ones(2).add(1).tolist() == [2.0, 2.0]
"""


def install(folder, dist, module, code, group, entry, requires=()):
    """Create an installed distribution: a module and its dist-info."""
    (folder / f"{module}.py").write_text(textwrap.dedent(code))
    info = folder / f"{dist.replace('-', '_')}-0.3.dist-info"
    info.mkdir()
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 0.3\n{needs}")
    (info / "entry_points.txt").write_text(f"[metatensor.{group}]\n{entry} = {module}\n")


def device(name, kernels=""):
    return textwrap.dedent(DEVICE).replace("{name}", name).replace("    {kernels}", textwrap.indent(textwrap.dedent(kernels), "    "))


def ops(name, more=""):
    return textwrap.dedent(OPS).replace("{name}", name).replace("{more}", textwrap.dedent(more))


@pytest.fixture
def site(tmp_path):
    install(tmp_path, "acme-good", "acme_good", device("good"), "devices", "good")
    install(tmp_path, "acme-fine", "acme_fine", ops("fine"), "ops", "fine")
    return tmp_path


def fails(site, call):
    """Return what a call raises in a new process, with notes. Check that the good plugins still work."""
    program = f"""
        import metatensor as mt
        try:
            {call}
        except Exception as error:
            print(type(error).__name__, error, *getattr(error, "__notes__", ()), "| because of", repr(error.__cause__))
        else:
            print("no error")
    """
    return run(site, textwrap.dedent(program) + textwrap.dedent(GOOD))


def run(site, program):
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


DEVICE_CALL = "mt.empty(2, device='bad')"
OPS_CALL = "mt.ops.bad.twice(mt.ones(2))"


@pytest.mark.slow
@pytest.mark.parametrize("group, call", [("devices", DEVICE_CALL), ("ops", OPS_CALL)])
@pytest.mark.parametrize("code, said", [
    ("import a_library_that_is_not_there", "ModuleNotFoundError: No module named 'a_library_that_is_not_there'"),
    ("raise SystemError('the driver is gone')", "SystemError: the driver is gone"),
    ("def f(:", "SyntaxError: invalid syntax"),
    ("x = 1", "RuntimeError: acme_bad does not implement the hook metatensor_"),
])
def test_what_does_not_import(site, group, call, code, said):
    install(site, "acme-bad", "acme_bad", code, group, "bad")
    found = fails(site, call)
    assert found.startswith(f"RuntimeError plugin 'bad' (acme-bad) of group metatensor.{group} failed to load: {said}")
    assert "| because of " + said.partition(":")[0] in found


@pytest.mark.slow
@pytest.mark.parametrize("group, call", [("devices", DEVICE_CALL), ("ops", OPS_CALL)])
@pytest.mark.parametrize("needs", ["metatensor-device>=99", "metatensor_device (==0.0.1)", "metatensor-device<0.0.2,>=0.0.1"])
def test_the_wrong_version(site, group, call, needs):
    code = device("bad") if group == "devices" else ops("bad")
    install(site, "acme-bad", "acme_bad", code, group, "bad", ["numpy", needs])
    found = fails(site, call)
    assert found.startswith(f"RuntimeError plugin 'bad' (acme-bad) of group metatensor.{group} failed to load: RuntimeError: "
                            "acme-bad 0.3 needs metatensor")  # fmt: skip
    assert "is installed" in found


@pytest.mark.parametrize("group, call", [("devices", DEVICE_CALL), ("ops", OPS_CALL)])
def test_two_packages_that_claim_a_name(site, group, call):
    code = device("bad") if group == "devices" else ops("bad")
    for dist in ("acme", "zenith"):
        install(site, f"{dist}-bad", f"{dist}_bad", code, group, "bad")
    found = fails(site, call)
    assert "'bad' is claimed by acme-bad (acme_bad) and zenith-bad (zenith_bad): uninstall or block all but one" in found


@pytest.mark.slow
@pytest.mark.parametrize("kernels, call, said", [
    ("def op_exp(self, out, input):\n    raise ArithmeticError('no such luck')\n", "exp",
     "ArithmeticError no such luck (in the kernel of exp for bad, from plugin 'bad' (acme-bad))"),
    ("def op_nonzero(self, out, *args):\n    pass\n", "nonzero",
     "RuntimeError nonzero: the kernel of the device bad returned nothing, but tensors with data on bad are expected"),
    ("def op_exp(self, out, input):\n    return mt.empty(3, 3, device='bad')\n", "exp",
     "RuntimeError exp: the kernel of the device bad returned shape [3, 3] and dtype float32, but shape [2] and dtype float32 "
     "are expected"),
    ("def op_exp(self, out, input):\n    return mt.empty(2, dtype=mt.int64, device='bad')\n", "exp",
     "RuntimeError exp: the kernel of the device bad returned shape [2] and dtype int64, but shape [2] and dtype float32 are expected"),
    ("", "exp", "NotImplementedError exp: the device bad has no kernel for this op and it has no decomposition"),
], ids=["raises", "returns nothing", "shape", "dtype", "none"])  # fmt: skip
def test_a_faulty_kernel(site, kernels, call, said):
    install(site, "acme-bad", "acme_bad", device("bad", kernels), "devices", "bad")
    found = fails(site, f"mt.ones(2).to('bad').{call}()")
    assert found.startswith(said)
    if not said.startswith("NotImplemented"):
        assert "plugin 'bad' (acme-bad)" in found


@pytest.mark.slow
@pytest.mark.parametrize("more, said", [
    ("register_nothing = 1", None),
    ('mt.op("fine::twice", schema="(Tensor x) -> Tensor")(lambda x: x)', "RuntimeError: the op 'fine::twice' is already defined"),
    ('mt.op("bad::thrice", schema="(Tenser x) -> Tensor")(lambda x: x)', "SchemaError: unknown type 'Tenser'"),
    ('mt.library.kernel("mul", "cpu")(print)', "RuntimeError: mul: the device 'cpu' has a kernel of its own, from plugin 'cpu'"),
    ('mt.library.kernel("mull", "cpu")(print)', "AttributeError: there is no op 'mull'"),
])
def test_ops_that_are_not_right(site, more, said):
    install(site, "acme-bad", "acme_bad", ops("bad", more), "ops", "bad")
    found = fails(site, "mt.ops.fine.twice, mt.ones(2) * 2, mt.ops.bad.thrice")
    if said is None:
        assert found.startswith("AttributeError there is no op bad::thrice")
    else:
        assert f"plugin 'bad' (acme-bad) of group metatensor.ops failed to load: {said}" in found


def test_half_of_a_namespace_is_taken_back(site):
    install(site, "acme-bad", "acme_bad", ops("bad", "raise SystemError('half way')"), "ops", "bad")
    for call in (OPS_CALL, "hasattr(mt.ops.bad, 'twice') or mt.ops.bad.twice", "mt.library.get_op('bad::twice')"):
        assert "plugin 'bad' (acme-bad) of group metatensor.ops failed to load: SystemError: half way" in fails(site, call)


def test_ops_that_are_registered_under_another_name(site):
    install(site, "acme-bad", "acme_bad", ops("other"), "ops", "bad")
    assert "it registers the operator other::twice, but the entry point may provide only operators of" in fails(site, OPS_CALL)


def test_ops_are_loaded_when_their_namespace_is_first_used(site):
    install(site, "acme-bad", "acme_bad", "raise SystemError('imported')", "ops", "bad")
    print(run(site, textwrap.dedent("""
        import pickle, sys
        import metatensor as mt
        assert "acme_fine" not in sys.modules
        assert mt.ops.fine.twice(mt.empty(2, device="meta")).shape == (2,)
        assert "acme_fine" in sys.modules and "acme_bad" not in sys.modules
        assert dir(mt.ops.fine) == ["twice"]
        data = pickle.dumps(mt.ops.fine.twice)
        open("%s", "wb").write(data)
    """) % (site / "op.pickle")))
    assert run(site, textwrap.dedent("""
        import pickle, sys
        import metatensor as mt
        print(pickle.load(open("%s", "rb")), mt.library.get_op("fine::twice"))
    """) % (site / "op.pickle")) == "<op fine::twice> <op fine::twice>"


def test_the_report_names_the_broken(site):
    install(site, "acme-bad", "acme_bad", "import a_library_that_is_not_there", "devices", "bad")
    install(site, "acme-worse", "acme_worse", "raise SystemError('imported')", "ops", "worse")
    found = run(site, textwrap.dedent("""
        from metatensor import plugins
        for row in plugins.report():
            if row.distribution.startswith("acme"):
                print(row.group, row.name, row.distribution, row.state, row.reason)
    """))
    assert found.splitlines() == [
        "devices bad acme-bad broken ModuleNotFoundError: No module named 'a_library_that_is_not_there'",
        "devices good acme-good available ", "ops fine acme-fine loaded ", "ops worse acme-worse broken SystemError: imported",
    ]  # fmt: skip


def test_a_broken_cpu_plugin_is_told_from_a_missing_one(site):
    """Without any cpu plugin, the message says what to install. Here one is installed."""
    found = run(site, textwrap.dedent("""
        import sys
        sys.modules["metatensor_cpu"] = None
        import metatensor as mt
        try:
            mt.ones(2)
        except RuntimeError as error:
            print(error)
    """))
    assert found.startswith("plugin 'cpu' (metatensor-cpu) of group metatensor.devices failed to load: ModuleNotFoundError")
