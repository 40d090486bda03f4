"""The cuda device with the stand-in for CuPy: the checks of `test_cuda_hardware.py` with fewer samples."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import metatensor as mt
from devices import gpu_checks
from devices.fake_arrays import NAMES
from devices.fake_cupy import FakeCupy
from metatensor import plugins
from metatensor.devices.array_kit.accumulation import accumulate_at, by_segments, tally

backend_module = pytest.importorskip("metatensor_cuda.backend")
pytest.importorskip("metatensor_cpu")
pytest.importorskip("scipy")


@pytest.fixture
def cuda():
    """The device with the stand-in, in place of the real one, for one test."""
    xp = FakeCupy(count=2)
    backend, before = backend_module.CudaBackend(xp, xp.special), plugins.backend("cuda")
    plugins.register_backend(backend, override=True)
    yield backend
    plugins.register_backend(before, override=True)


@pytest.mark.parametrize("check", [
    pytest.param(gpu_checks.conformance, marks=pytest.mark.slow),
    pytest.param(gpu_checks.gradients, marks=pytest.mark.slow), gpu_checks.training,
    gpu_checks.models, gpu_checks.rarer_operators, gpu_checks.streams, gpu_checks.memory, gpu_checks.pinned,
], ids=lambda check: getattr(check, "__name__", None))  # fmt: skip
def test_over_the_stand_in(cuda, check):
    check("cuda:0" if check is not gpu_checks.conformance else "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("sample, device", [(7, "cuda:0"), (97, "cuda:1")])
def test_recorded_calls(cuda, sample, device):
    compared, problems = gpu_checks.compare_records(device, sample)
    assert compared > 24_000 / sample
    assert not problems, f"{len(problems)} of {compared} differ:\n" + "\n".join(problems[:20])


@pytest.mark.slow
def test_the_benchmark(cuda):
    from benchmarks import cuda as benchmark

    rows = benchmark.measure(["metatensor"], rounds=1, device="cuda:0", titles=benchmark.SMALL)
    assert rows and all(row["metatensor"] > 0 for row in rows.values())
    table = benchmark.render(rows)
    assert all(title in table for title in rows)
    assert set(benchmark.measure(["metatensor"], rounds=1, device="meta")) == set(benchmark.LARGE)


def test_the_benchmark_as_a_command(tmp_path, capsys):
    from benchmarks import cuda as benchmark

    written = tmp_path / "figures.json"
    assert benchmark.main(["--device", "cpu", "--rounds", "1", "--titles", "small transformer", "--json", str(written)]) == 0
    assert "small transformer" in capsys.readouterr().out and json.loads(written.read_text())["small transformer"]["metatensor"] > 0


# The stand-in itself ----------------------------------------------------------------------------------


def test_names_are_those_of_a_real_cupy():
    written = json.loads((Path(gpu_checks.__file__).with_name("cupy_names.json")).read_text())
    assert written == NAMES and int(NAMES["version"].split(".")[0]) >= 14
    xp = FakeCupy()
    for name in ("frompyfunc", "geomspace", "errstate", "no_such"):
        with pytest.raises(AttributeError, match=f"'cupy' has no attribute '{name}'"):
            getattr(xp, name)
    with pytest.raises(AttributeError, match=r"cupyx.scipy.special.*'airy'"):
        _ = xp.special.airy
    with pytest.raises(AttributeError, match="svdvals"):
        _ = xp.linalg.svdvals


def test_it_refuses_what_cupy_refuses():
    xp = FakeCupy()
    a, host = xp.ones((2, 3), "f4"), np.ones((2, 3), "f4")
    for mistake in (
        lambda: np.asarray(a), lambda: a + host, lambda: host + a, lambda: xp.add(a, host), lambda: xp.where(a > 0, a, host),
        lambda: xp.stack([a, host]), lambda: xp.array([a, 1.0]), lambda: a.sum(where=a > 0), lambda: a.max(initial=0),
        lambda: xp.add(a, a, where=a > 0), lambda: xp.sort(a, stable=True), lambda: range(xp.asarray(3)), lambda: xp.zeros(xp.asarray(3)),
        lambda: xp.einsum("ij->i", a, out=a), lambda: xp.logical_and(a.astype("c8"), a), lambda: a.astype("f8", casting="unsafe"),
        lambda: a.__setitem__(0, [1, 2, 3]), lambda: (a > 0) - (a > 0), lambda: -(a > 0),
        lambda: xp.add.at(a.astype("i8"), xp.asarray([0]), 1),
        lambda: xp.ones(3, object), lambda: xp.isin(np.float32(1), a),
        lambda: xp.add(a, a, out=xp.ones((2, 3), "i4")), lambda: xp.sum(a, 0, None, None, False, 5), lambda: a.get(out=np.ones(3)) or 1 / 0,
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            mistake()
    for mistake, error in (
        (lambda: a.__setitem__(..., host), ValueError), (lambda: xp.add(a, a, out=a[0]), ValueError),
        (lambda: xp.repeat(a, xp.asarray([1, 2])), ValueError), (lambda: xp.bincount(xp.zeros(0, "i8"), minlength=3), ValueError),
        (lambda: xp.multiply.at(a, (0,), 2), NotImplementedError), (lambda: xp.maximum.accumulate(a), NotImplementedError),
        (lambda: a.ctypes, AttributeError), (lambda: a.newbyteorder, AttributeError), (lambda: xp.maximum.reduce(a), NotImplementedError),
    ):  # fmt: skip
        with pytest.raises(error):
            mistake()
    assert isinstance(a.sum(), xp.ndarray) and a.sum().shape == () and type(a.sum().item()) is float
    assert xp.asarray([5, 1])[xp.asarray([2, -1])].tolist() == [5, 1]  # out of bounds wraps around
    assert xp.asarray([1e10, -1e10, math.nan]).astype("i4").tolist() == [2**31 - 1, -(2**31), 0]


def test_arrays_of_another_device_are_refused():
    xp = FakeCupy(count=2)
    here = xp.ones(3)
    with xp.cuda.Device(1):
        with pytest.raises(ValueError, match="array device = 0 while current = 1"):
            here + 1
        assert here.copy().device.id == 1 and here[1:].device.id == 0


# What CuPy's atomic operations cannot do ----------------------------------------------------------------


DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float32", "float64", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_accumulation(name, dtype):
    draw = np.random.default_rng(0)
    values = draw.integers(0, 2 if dtype == "bool" else 4, (40, 3)).astype(dtype)
    places = draw.integers(0, 5, 40)
    target = np.ones((5, 3), dtype)
    expected = target.copy()
    getattr(np, name).at(expected, places, values)
    xp = FakeCupy()
    for out in (xp.asarray(target), xp.asarray(target.T.copy()).T):
        accumulate_at(xp, name, out, xp.asarray(places), xp.asarray(values))
        np.testing.assert_allclose(out.get(), expected, rtol=1e-6)
    by_segments(np, getattr(np, name), target, places, values)
    np.testing.assert_allclose(target, expected, rtol=1e-6)


def test_accumulation_at_the_edges():
    xp = FakeCupy()
    out = xp.asarray([1.0, 2.0])
    by_segments(xp, xp.maximum, out, xp.zeros(0, "i8"), xp.zeros(0))
    by_segments(xp, xp.maximum, out, xp.asarray([0, 0]), xp.asarray([math.nan, 5.0]))
    assert math.isnan(float(out[0])) and float(out[1]) == 2
    whole = xp.asarray([2**62, -1])
    accumulate_at(xp, "add", whole, xp.asarray([0, 0, 1]), 2**62)
    accumulate_at(xp, "add", whole, (slice(None),), xp.asarray([1, -4]))
    assert whole.tolist() == [2**62 * 3 + 1 - 2**64, 2**62 - 5]
    assert tally(xp, xp.zeros(0, "i8"), None, 3).tolist() == [0, 0, 0] and tally(np, np.array([1, 1]), None, 3).tolist() == [0, 2, 0]


def test_indices_out_of_bounds(cuda):
    x = mt.arange(6.0, device="cuda").view(2, 3)
    bad = mt.tensor([0, 3], device="cuda")
    for mistake in (
        lambda: x[bad], lambda: x[:, -bad - 1], lambda: x.index_put_((bad,), x[:1].clone()), lambda: x.take(bad * 3),
        lambda: x.index_put_((bad, bad), x[0, 0].clone(), accumulate=True),
    ):  # fmt: skip
        with pytest.raises(IndexError, match="out of bounds"):
            mistake()
    assert x[mt.tensor([-1], device="cuda")].tolist() == [[3, 4, 5]]
    assert x[mt.tensor([True, False], device="cuda"), mt.tensor([2], device="cuda")].tolist() == [2]


def test_functions_that_the_library_lacks(cuda):
    x = mt.linspace(-3, 3, 7)
    assert np.allclose(mt.special.airy_ai(x.to("cuda")).tolist(), mt.special.airy_ai(x).tolist())
    z = mt.tensor([0j, 1j, 2 + 0j])
    for op in (mt.logical_and, mt.logical_or, mt.logical_xor):
        assert op(z.to("cuda"), z.to("cuda").flip(0)).tolist() == op(z, z.flip(0)).tolist()
    flags = mt.tensor([[True, False], [True, False], [False, False]])
    assert mt.unique(flags.to("cuda"), dim=0).tolist() == mt.unique(flags, dim=0).tolist() == [[False, False], [True, False]]
    assert mt.unique(flags, dim=0).dtype is mt.bool
