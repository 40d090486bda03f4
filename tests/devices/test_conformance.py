"""check_device accepts correct devices, and detects each kind of error in wrong ones."""

import itertools
import struct

import numpy as np
import pytest

from devices.fake_cupy import FakeCupy
from devices.registered import unregister
from metatensor import plugins
from metatensor.devices import DeviceBackend, OutOfMemoryError
from metatensor.devices.array_kit import ArrayBackend, KernelTable
from metatensor.devices.array_kit.registry import KIT
from metatensor.testing import check_device

pytest.importorskip("metatensor_cpu")


@pytest.fixture
def installed():
    """Register backends for one test."""
    added = []

    def register(backend):
        plugins.register_backend(backend)
        added.append(backend.type)
        return backend.type

    yield register
    for name in added:
        unregister(name)


@pytest.mark.slow
def test_the_cpu_device():
    report = check_device("cpu")
    assert report.ok and "0 failed" in str(report)
    assert "conversions between dtypes" in report.passed and "kernel add" in report.passed
    assert len(report.kernels) > 10 * len(report.not_sampled)


@pytest.mark.slow
def test_the_disk_device(tmp_path, monkeypatch):
    pytest.importorskip("metatensor_disk")
    monkeypatch.setenv("METATENSOR_DISK_DIR", str(tmp_path))
    assert check_device("disk").ok


@pytest.mark.slow
def test_a_device_that_is_not_the_hosts(installed):
    name = installed(ArrayBackend("standin", FakeCupy(), table=KernelTable("standin")))
    report = check_device(name)
    assert report.ok and not report.kernels and "add" in report.missing


class Bytes(DeviceBackend):
    """A device without the array kit and NumPy: memory is a bytearray, and elements are processed one by one."""

    type = "bytes"
    codes = {"float32": "f", "float64": "d", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B", "bool": "?"}

    def allocate(self, nbytes, index):
        self.check_index(max(index, 0))
        if nbytes > 1 << 40:
            raise OutOfMemoryError(f"bytes: cannot allocate {nbytes} bytes")
        return bytearray(nbytes)

    def places(self, tensor):
        for index in itertools.product(*map(range, tensor.shape)):
            at = tensor.storage_offset() + sum(i * step for i, step in zip(index, tensor.stride(), strict=True))
            yield slice(at * tensor.itemsize, (at + 1) * tensor.itemsize)

    def to_host(self, tensor):
        data = tensor.untyped_storage().data
        return b"".join(data[place] for place in self.places(tensor))

    def from_host(self, tensor, data):
        data = bytes(data)
        if len(data) != tensor.numel() * tensor.itemsize:
            raise RuntimeError(f"from_host: {len(data)} bytes")
        for i, place in enumerate(self.places(tensor)):
            tensor.untyped_storage().data[place] = data[i * tensor.itemsize:(i + 1) * tensor.itemsize]

    def copy(self, dst, src):
        data = self.to_host(src)
        if dst.dtype is not src.dtype:
            source, target = self.codes[src.dtype.name], self.codes[dst.dtype.name]
            numbers = struct.unpack(f"{src.numel()}{source}", data)
            convert = float if target in "fd" else bool if target == "?" else int
            data = struct.pack(f"{src.numel()}{target}", *map(convert, numbers))
        self.from_host(dst, data)


@pytest.mark.slow
def test_a_device_without_the_kit(installed):
    name = installed(Bytes())
    skip = ["conversions between dtypes", "lazy conjugates"]  # this device does not support these
    assert check_device(name, skip=skip).ok


def test_an_unavailable_device(installed):
    class Absent(Bytes):
        type = "absent"

        def device_count(self):
            return 0

        def unavailable_reason(self):
            return "it is unplugged"

    with pytest.raises(RuntimeError, match="absent is not available: it is unplugged"):
        check_device(installed(Absent()))


def broken(name, **methods):
    """Return an ArrayBackend with some methods replaced."""
    table = KernelTable("broken", parent=methods.pop("parent", None))
    return type("Broken", (ArrayBackend,), methods)(name, np, table=table)


def shared_memory(self, nbytes, index=0, _memory=np.zeros(1 << 21, np.uint8)):
    return ArrayBackend.allocate(self, nbytes, index) if nbytes > 1 << 20 else _memory[:nbytes]


def drops_strides(self, tensor, data):
    values = np.frombuffer(data, np.uint8)
    np.frombuffer(tensor.untyped_storage().data, np.uint8)[:len(values)] = values


def no_conjugates(self, dst, src):
    out = self.asarray(dst)
    out[...] = self.asarray(src)


MISTAKES = {
    "allocation": {"allocate": shared_memory},
    "allocation errors": {"allocate": lambda self, nbytes, index=0: np.empty(min(nbytes, 1 << 21), np.uint8)},
    "layouts": {"from_host": drops_strides},
    "conversions between dtypes": {"copy": no_conjugates},
    "lazy conjugates": {"copy": no_conjugates},
    "host copies of the wrong size": {
        "from_host": lambda self, tensor, data: self.asarray(tensor).__setitem__(
            ..., np.resize(np.frombuffer(bytes(data) or bytes(64), np.uint8), tensor.numel() * tensor.itemsize).view(
                self.raw_dtype(tensor.dtype)).reshape(tuple(tensor.shape)))},
    "memory statistics": {"memory_stats": lambda self, index=None: {"allocated_bytes.all.current": 0, "allocated_bytes.all.peak": 0}},
    "identity": {"current_index": lambda self: 7},
    "unknown kernels": {"kernel": lambda self, name: print},
    "resizing": {"resize": lambda self, handle, old, new, index=0: self.allocate(new, index)},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("check", MISTAKES)
def test_a_mistake_is_found_and_named(installed, check):
    name = installed(broken("broken", **MISTAKES[check]))
    with pytest.raises(AssertionError) as raised:
        check_device(name, kernels=False)
    assert f"FAILED {check}: " in str(raised.value)


def kernel_mistakes():
    """Return kernels of one op with one error each, and the corresponding text of the report."""

    def wrong_values(kit, out, input):
        return np.exp(input) + (input > 1)

    def wrong_shape(kit, out, input):
        return np.exp(input).reshape(-1, 1)

    def raises(kit, out, input):
        raise ArithmeticError("no such luck")

    def changes_its_input(kit, out, input):
        input[...] = 0
        out[...] = 1

    def fills_nothing(kit, out, input):
        out[...] = np.nan

    def ignores_strides(kit, out, input):
        return np.exp(np.sort(input, axis=None)).reshape(input.shape)

    return {
        wrong_values: "values differ", wrong_shape: "returned shape", raises: "ArithmeticError: no such luck",
        changes_its_input: "changes the arguments", fills_nothing: "values differ", ignores_strides: "values differ",
    }


@pytest.mark.slow
@pytest.mark.skipif(KIT.find("exp") is None, reason="the kit has no kernel for exp")
@pytest.mark.parametrize("kernel, message", list(kernel_mistakes().items()), ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_kernel_is_found_and_named(installed, kernel, message):
    backend = broken("broken")
    backend.table.kernel("exp")(kernel)
    with pytest.raises(AssertionError, match="FAILED kernel exp: ") as raised:
        check_device(installed(backend))
    assert message in str(raised.value)
    assert check_device("broken", skip=["exp"]).ok
    assert check_device("broken", skip=["kernel exp"]).ok
