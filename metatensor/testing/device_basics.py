"""The checks of `check_device` that need no operators: memory, copies, dtypes and threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from metatensor._core.device import backend_for
from metatensor._core.op import registry
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.devices.array_kit.interchange import contiguous_strides
from metatensor.devices.base import DeviceBackend, OutOfMemoryError
from metatensor.testing.values import FORMATS, difference, empty, from_values, to_values

__all__ = ["checks"]

LAYOUTS = [
    ((2, 3), (3, 1), 0), ((2, 3), (1, 2), 0), ((2, 3), (7, 2), 5), ((3, 1, 2), (2, 50, 1), 1), ((), (), 2), ((4,), (3,), 0),
    ((0, 3), (3, 1), 0), ((2, 0), (1, 1), 0),
]
CONVERTIBLE = [name for name, fmt in FORMATS.items() if not fmt.opaque]


def checks() -> Iterator[tuple[str, Any]]:
    """Yield the title and function of each check. The functions take the backend and the reference's name."""
    for name, function in sorted(globals().items()):
        if name.startswith("check_"):
            yield name.removeprefix("check_").replace("_", " "), function


def random_bytes(dtype: str, count: int) -> bytes:
    """Return random bytes for ``count`` elements. Bools are 0 or 1."""
    high = 2 if dtype == "bool" else 256
    return np.random.default_rng(count).integers(0, high, count * FORMATS[dtype].raw.itemsize, np.uint8).tobytes()


def check_identity(backend: DeviceBackend, reference: str) -> None:
    assert isinstance(backend, DeviceBackend), f"{type(backend).__name__} is not a DeviceBackend"
    assert backend.type.isidentifier() and backend.type == backend.type.lower(), f"invalid device type {backend.type!r}"
    assert backend_for(backend.type) is backend, "backend_for() returns a new backend each time"
    count = backend.device_count()
    assert isinstance(count, int) and count > 0, f"device_count() is {count!r}"
    assert backend.is_available(), "is_available() is false although there is a device"
    assert backend.unavailable_reason() == "", "unavailable_reason() is not empty although there is a device"
    assert 0 <= backend.current_index() < count, f"current_index() is {backend.current_index()}"


def check_allocation(backend: DeviceBackend, reference: str) -> None:
    handles = [backend.allocate(nbytes, 0) for nbytes in (0, 1, 7, 4096, 1_000_003)]
    assert all(handle is not None for handle in handles), "allocate() returned None, which means no data"
    assert len({id(handle) for handle in handles}) == len(handles), "allocate() returned one handle twice"
    first, second = (from_values(backend.type, np.full(100, value, np.int32)) for value in (1, 2))
    assert (to_values(first) == 1).all() and (to_values(second) == 2).all(), "two storages share memory"


def check_allocation_errors(backend: DeviceBackend, reference: str) -> None:
    try:
        backend.allocate(1 << 62, 0)
    except OutOfMemoryError as error:
        assert str(1 << 62) in str(error) and backend.type in str(error), f"the message lacks device and size: {error}"
    else:
        raise AssertionError("allocating 2**62 bytes did not fail")
    try:
        backend.allocate(16, backend.device_count())
    except RuntimeError as error:
        assert backend.type in str(error), f"the message does not name the device: {error}"
    else:
        raise AssertionError(f"allocating on device {backend.device_count()}, which does not exist, did not fail")


def check_host_copies_of_every_dtype(backend: DeviceBackend, reference: str) -> None:
    for dtype in FORMATS:
        for shape in ((3, 4), (), (0, 2)):
            data = random_bytes(dtype, int(np.prod(shape)))
            tensor = empty(backend.type, shape, dtype)
            backend.from_host(tensor, data)
            assert bytes(backend.to_host(tensor)) == data, f"{dtype} {shape}: from_host and to_host change bits"
            backend.from_host(tensor, memoryview(bytearray(data)))
            assert bytes(backend.to_host(tensor)) == data, f"{dtype} {shape}: from_host does not accept a memoryview"


def check_host_copies_keep_no_reference(backend: DeviceBackend, reference: str) -> None:
    data = bytearray(random_bytes("uint8", 64))
    tensor = empty(backend.type, (64,), "uint8")
    backend.from_host(tensor, data)
    kept = bytes(data)
    data[:] = bytes(64)
    assert bytes(backend.to_host(tensor)) == kept, "from_host still uses the caller's memory after it returned"


def check_host_copies_of_the_wrong_size(backend: DeviceBackend, reference: str) -> None:
    for size in (0, 23, 25):
        try:
            backend.from_host(empty(backend.type, (2, 3), "float32"), bytes(size))
        except (RuntimeError, ValueError):
            continue
        raise AssertionError(f"from_host accepts {size} bytes for a tensor of 24 bytes")


def check_layouts(backend: DeviceBackend, reference: str) -> None:
    for shape, strides, offset in LAYOUTS:
        values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        target = empty(backend.type, shape, "float32", strides, offset)
        backend.from_host(target, values.tobytes())
        assert not difference(to_values(target), values, "float32"), f"from_host and to_host of strides {strides}, offset {offset}"
        other = empty(backend.type, shape, "float32", contiguous_strides(shape[::-1])[::-1], 1)
        backend.copy(other, target)
        assert not difference(to_values(other), values, "float32"), f"copy from strides {strides}, offset {offset}"
        back = empty(backend.type, shape, "float32", strides, offset)
        backend.copy(back, other)
        assert not difference(to_values(back), values, "float32"), f"copy to strides {strides}, offset {offset}"


def check_views_share_memory(backend: DeviceBackend, reference: str) -> None:
    base = from_values(backend.type, np.arange(12, dtype=np.int64).reshape(3, 4))
    storage = base.untyped_storage()
    column = tensor_from_storage(storage, base.dtype, (3,), (4,), 1)
    assert to_values(column).tolist() == [1, 5, 9], "a view does not read the elements of its base"
    backend.copy(column, from_values(backend.type, np.array([-1, -2, -3])))
    expected = np.arange(12).reshape(3, 4)
    expected[:, 1] = [-1, -2, -3]
    assert to_values(base).tolist() == expected.tolist(), "writing to a view does not change its base, or changes too many elements of it"
    repeated = tensor_from_storage(storage, base.dtype, (2, 4), (0, 1), 4)
    assert to_values(repeated).tolist() == [expected[1].tolist()] * 2, "strides of 0 do not repeat"


def check_storages_outlive_tensors(backend: DeviceBackend, reference: str) -> None:
    base = from_values(backend.type, np.arange(1000, dtype=np.float64))
    view = tensor_from_storage(base.untyped_storage(), base.dtype, (10,), (100,), 0)
    del base
    _ = [from_values(backend.type, np.zeros(1000)) for _ in range(10)]
    assert to_values(view).tolist() == list(range(0, 1000, 100)), "memory was released while a view uses it"


def check_resizing(backend: DeviceBackend, reference: str) -> None:
    try:
        handle = backend.resize(backend.allocate(4, 0), 4, 8, 0)
    except NotImplementedError:
        return  # optional for devices
    assert handle is not None
    tensor = from_values(backend.type, np.arange(4, dtype=np.uint8))
    for old, new in ((4, 8), (4, 2), (4, 0)):
        grown = backend.resize(tensor.untyped_storage().data, old, new, 0)
        kept = min(old, new)
        view = tensor_from_storage(make_storage(backend.type, new, grown), tensor.dtype, (kept,), (1,), 0)
        assert to_values(view).tolist() == list(range(kept)), f"resizing from {old} to {new} bytes loses data"


def check_conversions_between_dtypes(backend: DeviceBackend, reference: str) -> None:
    numbers = np.array([0, 1, 2, 3.5, 100.25, 120, 0.0625])
    signed = np.array([-1, -2.5, -100])
    special = np.array([np.inf, -np.inf, np.nan])
    wrong = []
    dtypes = [name for name in CONVERTIBLE if backend.dtypes is None or name in backend.dtypes]
    for source in dtypes:
        kind = FORMATS[source].compute.kind
        for target in dtypes:
            to_kind = FORMATS[target].compute.kind
            parts = [numbers, signed] if kind in "ifc" and to_kind != "u" and target != "float8_e8m0fnu" else [numbers]
            if kind == "f" and to_kind in "fcb" and target != "float8_e8m0fnu":
                parts.append(special)
            values = np.concatenate(parts)
            values = values + 1j * values[::-1] if kind == "c" else values
            results = []
            for device in (reference, backend.type):
                out = empty(device, values.shape, target)
                backend_for(device).copy(out, from_values(device, values, source))
                results.append(to_values(out))
            expected, got = results
            if not np.array_equal(got, expected, equal_nan=to_kind in "fc"):
                wrong.append(f"{source} to {target}: {difference(got, expected, '')}")
    assert not wrong, "; ".join(wrong)


def check_lazy_conjugates(backend: DeviceBackend, reference: str) -> None:
    values = np.array([1 + 2j, -3j, 4], np.complex64)
    tensor = from_values(backend.type, values)
    lazy = tensor.conj()
    assert lazy.untyped_storage() is tensor.untyped_storage(), "conj() is not a view"
    assert to_values(lazy).tolist() == values.conj().tolist(), "to_host ignores is_conj"
    out = empty(backend.type, (3,), "complex64")
    backend.copy(out, lazy)
    assert to_values(out).tolist() == values.conj().tolist(), "copy ignores is_conj of its source"
    backend.copy(lazy, from_values(backend.type, values))
    assert to_values(tensor).tolist() == values.conj().tolist(), "copy ignores is_conj of its target"


def check_parameters_are_initialized_in_place(backend: DeviceBackend, reference: str) -> None:
    import metatensor as mt

    weight = mt.nn.Parameter(from_values(backend.type, np.full(9, np.nan, np.float32)))
    try:
        with mt.no_grad():
            weight.uniform_(1, 2)
    except NotImplementedError:
        return  # the device draws no random numbers
    values = to_values(weight.detach())
    assert ((values >= 1) & (values <= 2)).all(), f"uniform_(1, 2) of a parameter left it at {values.tolist()}"


def check_memory_statistics(backend: DeviceBackend, reference: str) -> None:
    before = backend.memory_stats(0)
    if "allocated_bytes.all.current" not in before:
        return  # optional for devices
    handle = backend.allocate(1 << 20, 0)
    during = backend.memory_stats(0)
    grown = during["allocated_bytes.all.current"] - before["allocated_bytes.all.current"]
    assert grown >= 1 << 20, f"allocating 1 MiB raises the current bytes by {grown}"
    assert during["allocated_bytes.all.peak"] >= during["allocated_bytes.all.current"], "the peak is below the current bytes"
    del handle
    after = backend.memory_stats(0)["allocated_bytes.all.current"]
    assert after <= during["allocated_bytes.all.current"] - (1 << 20), "memory is not released with its handle"
    backend.reset_peak_memory_stats(0)
    assert backend.memory_stats(0)["allocated_bytes.all.peak"] < during["allocated_bytes.all.peak"], "the peak is not reset"


def check_synchronize(backend: DeviceBackend, reference: str) -> None:
    backend.synchronize()
    backend.synchronize(0)


def check_unknown_kernels(backend: DeviceBackend, reference: str) -> None:
    assert backend.kernel("no_such_op.of_this_name") is None, "kernel() of an unknown op is not None"


def check_kernel_names(backend: DeviceBackend, reference: str) -> None:
    known = {overload.qualname for op in list(registry.values()) for overload in op.functional.overloads}
    unknown = sorted(name for name in backend.kernel_names() if name not in known and not _comes_later(name))
    assert not unknown, f"there are kernels for ops that do not exist: {', '.join(unknown)}"


def _comes_later(name: str) -> bool:
    """Return True if no operator of the name's namespace exists: its package has not been imported."""
    namespace, own, _ = name.partition("::")
    return bool(own) and not any(op.startswith(namespace + "::") for op in registry)


def check_threads(backend: DeviceBackend, reference: str) -> None:
    problems: list[str] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(20):
                values = rng.integers(-1000, 1000, (17, 5))
                tensor = from_values(backend.type, values, strided=True)
                out = empty(backend.type, (17, 5), "float64")
                backend.copy(out, tensor)
                if not (to_values(out) == values).all():
                    problems.append(f"thread {seed} reads values that it did not write")
        except Exception as error:
            problems.append(f"thread {seed}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, "; ".join(problems[:3])
