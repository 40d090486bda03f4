"""Checks of a cuda device, which run on a GPU and on the stand-in for CuPy with different numbers of samples.

`tests/plugins/test_cuda_hardware.py` runs them on a GPU, `tests/plugins/test_cuda_standin.py` on every machine.
"""

import warnings

import numpy as np

import metatensor as mt
from metatensor._core.device import backend_for
from metatensor.testing import check_device
from metatensor.testing.values import FORMATS, difference
from oracle import records

# Operators that return uninitialized or freed memory.
UNINITIALISED = ("empty", "new_empty", "resize", "as_strided")
# As in PyTorch, these operators differ between devices: a result saved for the backward pass is empty on one of them.
DIFFERENT = {"native_batch_norm"}


def tensors(value):
    """Yield the tensors in a structure, in order."""
    if isinstance(value, mt.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def host(tensor):
    """Return the values as a NumPy array."""
    fmt = FORMATS[tensor.dtype.name]
    raw = np.frombuffer(backend_for(tensor.device).to_host(tensor), np.uint8).view(fmt.raw)
    return (raw if fmt.decode is None else fmt.decode(np, raw)).reshape(tuple(tensor.shape))


def fill(tensor, seed):
    """Fill a tensor with values that depend on its shape, distinct if the dtype allows it. On meta do nothing."""
    fmt, size = FORMATS.get(tensor.dtype.name), tensor.numel()
    if fmt is None or not size or tensor.device.type == "meta":
        return
    draw = np.random.default_rng([size, seed])
    if tensor.dtype.name == "bool" or "int" in tensor.dtype.name:
        values = draw.integers(0, 2, size)
    else:
        values = draw.permutation(size) / 8 + 0.1
        if "complex" in tensor.dtype.name:
            values = values + 1j * values[::-1]
    raw = values.astype(fmt.compute)
    backend_for(tensor.device).from_host(tensor, np.ascontiguousarray(raw if fmt.encode is None else fmt.encode(np, raw)))


def call(resolve, record, device):
    """Return the result of a recorded call on a device and its arguments after the call, or the exception."""
    decode = records.Decoder(mt, device)
    try:
        args = [decode(item) for item in record["args"]]
        kwargs = {name: decode(item) for name, item in record["kw"].items()}
        for seed, tensor in enumerate(decode.inputs):
            fill(tensor, seed)
        mt.manual_seed(3)
        return records.invoke(resolve, record["call"], args, kwargs), decode.inputs
    except records.Missing:
        raise
    except Exception as error:
        return error, []


def described(value):
    """Return a description of a result that does not depend on the device."""
    return [(tuple(t.shape), t.stride(), t.dtype.name, t.storage_offset()) for t in tensors(value)]


def compare_records(device, sample, largest=1 << 20):
    """Make every ``sample``-th recorded call on ``device``. Compare its values with the cpu's and its metadata with meta's.

    Return the number of calls compared, and the differences.
    """
    resolve, compared, problems = records.Resolver(mt), 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for record in records.read(records.files(), sample=sample, internal=False):
            if _elements(record["args"]) > largest:
                continue
            try:
                expected, inputs = call(resolve, record, "cpu")
                if isinstance(expected, Exception):
                    continue
                got, changed = call(resolve, record, device)
            except records.Missing:
                continue
            compared += 1
            problem = f"{type(got).__name__}: {got}" if isinstance(got, Exception) else ""
            if not problem and record["op"] not in DIFFERENT:
                problem = _differs(record["op"], [expected, inputs], [got, changed])
                meta = call(resolve, record, "meta")[0]
                if not problem and not isinstance(meta, Exception) and described(meta) != described(got):
                    problem = f"metadata {described(got)} instead of meta's {described(meta)}"
            if problem:
                problems.append(f"{record['op']}({record['args']}, {record['kw']}): {problem}"[:500])
    return compared, problems


def _elements(value):
    """Return the maximum number of elements of a tensor in the arguments of a record."""
    if isinstance(value, dict):
        own = int(np.prod(value["T"][0], dtype=object)) if "T" in value else 0
        return max([own, *map(_elements, value.values())])
    return max(map(_elements, value), default=0) if isinstance(value, list) else 0


def _differs(op, expected, got):
    if op.startswith(UNINITIALISED):
        return ""
    for mine, its in zip(tensors(got), tensors(expected), strict=True):
        if its.dtype.name in FORMATS and its.device.type != "meta":
            problem = difference(host(mine), host(its), mine.dtype.name)
            if problem:
                return problem
    return ""


def conformance(device):
    """Run `check_device` with every kernel for which it has arguments."""
    report = check_device(device)
    assert report.ok and len(report.kernels) > 450, str(report)


def models(device):
    """Compare small networks of every kind of layer with the cpu."""
    nn = mt.nn
    image, tokens = (3, 3, 16, 16), (2, 7)
    cases = [
        (lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=4), nn.GELU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5), nn.Softmax(-1)), lambda: mt.randn(image)),
        (lambda: nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        nn.LayerNorm(16)),
         lambda: mt.randint(0, 11, tokens)),
        (lambda: nn.LSTM(4, 5, 2, bidirectional=True), lambda: mt.randn(3, 2, 4)),
        (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), lambda: mt.randn(2, 3, 9)),
    ]  # fmt: skip
    for make, make_input in cases:
        mt.manual_seed(1)
        model, x = make().eval(), make_input()
        with mt.no_grad():
            expected = [host(t) for t in tensors(model(x))]
            got = list(tensors(model.to(device)(x.to(device))))
        assert all(t.device == mt.device(device) for t in got)
        for mine, its in zip(got, expected, strict=True):
            assert not difference(host(mine), its, "float32"), difference(host(mine), its, "float32")


def rarer_operators(device):
    """Compare with the cpu those operators that neither the records nor `check_device` cover."""
    F = mt.nn.functional
    mt.manual_seed(2)
    x, h, w, b = mt.randn(3, 4), mt.randn(3, 5), mt.randn(20, 4), mt.randn(20)
    v = mt.randn(20, 5)
    image, solid = mt.randn(2, 3, 6, 6), mt.randn(1, 2, 5, 5, 5)
    whole = mt.arange(17 * 16).view(17, 16).remainder(7).to(mt.int8)
    small, scale = mt.randn(16, 16).to(mt.float8_e4m3fn), mt.tensor(0.5)
    theta, kernel = mt.randn(2, 2, 3), mt.randn(4, 3, 3, 3)
    calls = {
        "int_mm": (lambda a: mt._int_mm(a, a[:16, :8].contiguous()), [whole]),
        "scaled_mm": (lambda a, k: mt._scaled_mm(a, a.t(), k, k, out_dtype=mt.float32), [small, scale]),
        "affine_grid": (lambda t: F.affine_grid(t, (2, 1, 4, 5), align_corners=False), [theta]),
        "affine_grid_generator": (lambda t: mt.affine_grid_generator(t, (2, 1, 4, 5), True), [theta]),
        "convolution": (lambda i, k: mt.convolution(i, k, None, (2, 2), (1, 1), (1, 1), False, (0, 0), 1), [image, kernel]),
        "gru_cell": (lambda x, h, w, v, b: mt.gru_cell(x, h, w[:15], v[:15], b[:15], b[:15]), [x, h, w, v, b]),
        "lstm_cell": (lambda x, h, w, v, b: mt.lstm_cell(x, (h, h), w, v, b, b), [x, h, w, v, b]),
        "rnn_tanh_cell": (lambda x, h, w, v, b: mt.rnn_tanh_cell(x, h, w[:5], v[:5], b[:5], b[:5]), [x, h, w, v, b]),
        "rnn_relu_cell": (lambda x, h, w, v, b: mt.rnn_relu_cell(x, h, w[:5], v[:5], b[:5], b[:5]), [x, h, w, v, b]),
        "fractional_max_pool2d": (
            lambda i, r: F.fractional_max_pool2d_with_indices(i, 2, output_size=3, _random_samples=r), [image, mt.rand(2, 3, 2)]),
        "fractional_max_pool3d": (
            lambda i, r: F.fractional_max_pool3d_with_indices(i, 2, output_size=2, _random_samples=r), [solid, mt.rand(1, 2, 3)]),
    }  # fmt: skip
    with mt.no_grad():
        for name, (function, arguments) in calls.items():
            expected, got = function(*arguments), function(*[t.to(device) for t in arguments])
            assert described(got) == described(expected), name
            assert not _differs(name, expected, got), f"{name}: {_differs(name, expected, got)}"
        packed = mt.nn.utils.rnn.pack_sequence([mt.randn(4, 4), mt.randn(2, 4)])
        for make in (mt.nn.GRU, mt.nn.LSTM, mt.nn.RNN, lambda *sizes: mt.nn.RNN(*sizes, nonlinearity="relu")):
            layer = make(4, 5)
            expected = layer(x.view(3, 1, 4)), layer(packed)[0].data
            layer = layer.to(device)
            got = layer(x.view(3, 1, 4).to(device)), layer(packed.to(device))[0].data
            assert not _differs("", expected, got), f"{layer}: {_differs('', expected, got)}"


def streams(device):
    """Check work on another stream, events in that stream, and the visibility of its results to other streams."""
    backend = backend_for(mt.device(device))
    index = backend.current_index()
    stream, first, last = backend.stream(index), backend.event(index, True), backend.event(index, True)
    before = backend.current_stream(index)
    stream.make_current()
    try:
        assert backend.current_stream(index).handle == stream.handle != before.handle
        first.record(stream)
        x = mt.arange(1000.0, device=device) * 2
        last.record(stream)
    finally:
        before.make_current()
    before.wait_event(last)
    assert float((x + 1).sum()) == 1000 * 1000
    stream.synchronize(), last.synchronize()
    assert stream.query() and last.query() and first.elapsed_time(last) >= 0


def memory(device):
    """Check the current and peak bytes, and that freed memory is returned."""
    backend = backend_for(mt.device(device))

    def figures():
        stats = backend.memory_stats()
        return stats["allocated_bytes.all.current"], stats["allocated_bytes.all.peak"]

    backend.reset_peak_memory_stats()
    start, peak = figures()
    assert start == peak
    x = mt.zeros(1 << 18, device=device)
    y = x.view(512, 512).t()
    assert figures() == (start + (1 << 20), start + (1 << 20))
    z = y + 1
    assert figures() == (start + (2 << 20), start + (2 << 20))
    del z
    assert figures() == (start + (1 << 20), start + (2 << 20))
    del x
    assert figures()[0] == start + (1 << 20)
    del y
    assert figures()[0] == start
    backend.reset_peak_memory_stats()
    assert figures() == (start, start)


def pinned(device):
    """Check copies from and to page-locked memory."""
    x = mt.arange(100_000.0, device="cpu")
    locked = x.pin_memory()
    assert locked.is_pinned() and locked.pin_memory() is locked and not x.is_pinned() and locked.device.type == "cpu"
    there = locked.to(device, non_blocking=True)
    locked.zero_()  # the copy is already complete
    back = there.cpu()
    assert (back == x).all() and not there.is_pinned()
    matrix = x.view(100, 1000).t().pin_memory()
    assert matrix.stride() == (1, 1000) and (matrix == x.view(100, 1000).t()).all()


def training(device):
    """Some steps of SGD give the losses, parameters and buffers that the cpu gives."""
    from devices.test_training import assert_trains_like_cpu, convnet, perceptron, pooled, tagger

    for model in (perceptron, convnet, tagger, pooled):
        assert_trains_like_cpu(model, device)


def gradients(device):
    """All operators have the gradients that they have on the cpu."""
    # Where gradients are recorded, CUDA devices draw for dropout in another way than the cpu, as in PyTorch.
    assert check_device(device.partition(":")[0], kernels=False, train=True, skip=["nn.functional.dropout", "dropout"]).ok
