"""A compiled plugin with its own memory and C kernels, not based on NumPy, built as by a third party."""

import gc
import importlib.util
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import metatensor as mt
from metatensor import plugins
from metatensor.testing import check_device, check_op
from metatensor.testing.values import from_values

pytest.importorskip("metatensor_cpu")
SOURCE = Path(__file__).parent / "compiled_device"


@pytest.fixture(scope="module")
def tally(tmp_path_factory):
    """The module, compiled with the installed ``.pxd`` files."""
    pytest.importorskip("Cython")
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("tally")
    for path in SOURCE.glob("*.p[yx][xd]"):
        shutil.copy(path, folder)
    site = Path(mt.__file__).resolve().parent.parent
    run([sys.executable, "-m", "cython", "-I", str(site), "metatensor_tally.pyx"], folder)
    target = folder / ("metatensor_tally" + sysconfig.get_config_var("EXT_SUFFIX"))
    include = "-I" + sysconfig.get_path("include")
    run([*compiler, "-shared", "-fPIC", "-O1", "-fwrapv", "-fno-strict-aliasing", "-w", include, "metatensor_tally.c", "-lm", "-o", target],
        folder)  # fmt: skip
    spec = importlib.util.spec_from_file_location("metatensor_tally", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(command, folder):
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def backend(tally):
    tally.metatensor_devices(plugins.register_backend)
    tally.metatensor_ops(lambda op: None)
    return plugins.backend("tally")


@pytest.mark.slow
def test_it_conforms(backend):
    report = check_device("tally")
    kernels = {name for name in report.kernels if name in backend.kernel_names()}
    assert report.ok and len(kernels) >= 30
    assert {"add", "div", "sum", "mm", "cat", "where", "eq", "exp", "nn.functional.relu"} <= kernels


@pytest.mark.slow
def test_memory_is_counted_and_given_back(backend):
    gc.collect()
    before = backend.memory_stats()
    x = mt.ones(1000, device="tally")
    y = (x + 1)[::2]
    during = backend.memory_stats()
    assert during["allocated_bytes.all.current"] - before["allocated_bytes.all.current"] == 8000
    assert during["allocation.all.current"] - before["allocation.all.current"] == 2
    del x, y
    assert backend.memory_stats()["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    with pytest.raises(mt.devices.OutOfMemoryError, match="tally: cannot allocate"):
        mt.empty(1 << 58, device="tally")


@pytest.mark.slow
def test_a_model_runs_there(backend):
    mt.manual_seed(0)
    w, x = mt.randn(4, 3), mt.randn(2, 3)
    got = mt.nn.functional.relu(mt.mm(x.to("tally"), w.to("tally").t())).sum(1)
    assert mt.allclose(got.cpu(), mt.nn.functional.relu(x @ w.t()).sum(1))
    assert repr(x.to("tally")) == repr(x).replace(")", ", device='tally')")
    assert (x.to("tally") * mt.tensor(2.0)).device.type == "tally"  # a 0-d cpu tensor can be used with any device
    half = x.to("tally").to(mt.bfloat16)  # stored, and moved through the host
    assert half.cpu().tolist() == x.to(mt.bfloat16).tolist()
    with pytest.raises(NotImplementedError, match="add: the device tally does not compute with bfloat16"):
        half + 1
    with pytest.raises(NotImplementedError, match="the device tally has no kernel for this op"):
        x.to("tally").cumsum(0)


@pytest.mark.slow
def test_a_custom_op_in_c(backend):
    """The op's meta kernel and kernel are C functions. In all other respects it is like an op defined in Python."""
    axpy = mt.ops.tally.axpy
    assert axpy.schemas == ("tally::axpy(Tensor x, Tensor y, float a=1.0) -> Tensor",) and "a * x + y." in axpy.__doc__
    x = mt.empty(3, 4, device="meta").t()
    assert axpy(x, mt.empty(4, 3, device="meta"), 2.0).stride() == (1, 4)
    with pytest.raises(RuntimeError, match="x has the shape"):
        axpy(x, x.t())
    a, b = (from_values("cpu", [[1.0, 2.0], [3.0, seed]], "float32") for seed in (4.0, 5.0))
    samples = [(a, b), (a, b, 2.0), (a.t(), b, 0.5)]
    report = check_op(axpy, samples, reference=lambda x, y, a=1.0: a * x.numpy() + y.numpy(), devices=["tally"])
    assert report.ok and report.devices == ["tally"]

    @axpy.decomposition
    def _(x, y, a):
        return x * a + y

    assert check_op(axpy, [(a, b, 2.0)], devices=["tally", "cpu"]).ok
