"""futures, multiprocessing, profiler, export, onnx, higher-order operators, return_types and the compiler's settings."""

import importlib
import importlib.util
import json
import subprocess
import sys
import threading
from datetime import timedelta
from importlib import import_module

import pytest

import metatensor as mt
from metatensor.torch_api import torch as mtorch
from metatensor.torch_api import torch as ours
from metatensor.torch_api.torch import export, futures, monitor, multiprocessing, onnx, profiler, return_types


def test_futures():
    first, second = futures.Future(), futures.Future()
    seen = []
    first.add_done_callback(lambda future: seen.append(future.value()))
    doubled = first.then(lambda future: future.wait() * 2)
    both = futures.collect_all([first, second])
    assert not first.done() and not both.done()
    with pytest.raises(RuntimeError):
        first.value()
    threading.Timer(0.01, first.set_result, [3]).start()
    assert first.wait() == 3 and doubled.wait() == 6 and seen == [3]
    with pytest.raises(RuntimeError, match="completed once"):
        first.set_result(4)
    second.set_exception(KeyError("oh"))
    assert both.wait() == [first, second] and futures.collect_all([]).wait() == []
    with pytest.raises(KeyError):
        futures.wait_all([first, second])
    with pytest.raises(ZeroDivisionError):
        first.then(lambda _: 1 / 0).wait()


def succeed(index, queue):
    queue.put(index)


def fail(index, code):
    if index == 1:
        raise ValueError("wrong on purpose")
    if code:
        raise SystemExit(code)


@pytest.mark.slow
def test_spawned_processes():
    queue = multiprocessing.get_context("fork").SimpleQueue()
    multiprocessing.start_processes(succeed, (queue,), nprocs=2, start_method="fork")
    assert sorted([queue.get(), queue.get()]) == [0, 1]
    with pytest.raises(multiprocessing.ProcessRaisedException, match="wrong on purpose"):
        multiprocessing.start_processes(fail, (0,), nprocs=2, start_method="fork")
    with pytest.raises(multiprocessing.ProcessExitedException, match="code 3"):
        multiprocessing.start_processes(fail, (3,), nprocs=1, start_method="fork")


def test_multiprocessing_is_pythons():
    import multiprocessing as python

    assert multiprocessing.get_context is python.get_context and multiprocessing.Queue == python.Queue
    strategy = multiprocessing.get_sharing_strategy()
    multiprocessing.set_sharing_strategy("file_system")
    assert multiprocessing.get_sharing_strategy() == "file_system"
    multiprocessing.set_sharing_strategy(strategy)
    with pytest.raises(AssertionError):
        multiprocessing.set_sharing_strategy("by pigeon")


@pytest.mark.torch
def test_schedules():
    import torch.profiler

    for options in ({"wait": 1, "warmup": 1, "active": 2}, {"wait": 0, "warmup": 0, "active": 1, "repeat": 2},
                    {"wait": 2, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 3},
                    {"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1}):  # fmt: skip
        mine, theirs = profiler.schedule(**options), torch.profiler.schedule(**options)
        assert [mine(step).name for step in range(20)] == [theirs(step).name for step in range(20)], options


def test_profiling(tmp_path):
    ready = []
    x = mt.ones(2, 3)
    with profiler.profile(record_shapes=True, profile_memory=True, on_trace_ready=ready.append) as made, profiler.record_function("name"):
        x @ x.t()
        made.step()
    assert ready == [made] and made.step_num == 1
    names = [event.name for event in made.events()]
    assert names[0] == "name" and "aten::matmul" in names
    product = next(row for row in made.key_averages() if row.key == "aten::matmul")
    assert product.count == 1 and product.input_shapes == [[2, 3], [3, 2]] and product.cpu_memory_usage == 16 and product.cpu_time > 0
    assert "aten::matmul" in made.key_averages().table(sort_by="self_cpu_time_total", row_limit=5)
    made.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"aten::matmul", "name"} <= {event["name"] for event in events}
    assert profiler.record_function("name")(lambda: 3)() == 3
    for option in ("with_stack", "with_flops", "with_modules"):
        with pytest.raises(NotImplementedError, match=option):
            profiler.profile(**{option: True})


def test_profiling_by_a_schedule(tmp_path):
    ready = []
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profiler.profile(schedule=plan, on_trace_ready=lambda made: ready.append((made.step_num, len(made.events())))) as made:
        for _ in range(10):
            mt.ones(2).neg()
            made.step()
    assert ready == [(4, 4), (8, 4)]
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), "worker")):
        mt.ones(2)
    assert [path.name.startswith("worker.") for path in tmp_path.iterdir()] == [True]


def test_monitor():
    events = []
    handle = monitor.register_event_handler(events.append)
    stat = monitor.Stat("loss", (monitor.MEAN, monitor.COUNT), timedelta(seconds=1000), 2)
    stat.add(1)
    assert stat.count == 1 and stat.get() == {monitor.MEAN: 1.0, monitor.COUNT: 1.0}
    stat.add(3)
    monitor.unregister_event_handler(handle)
    monitor.log_event(monitor.Event("other", events[0].timestamp, {}))
    assert [event.data for event in events] == [{"loss.mean": 2.0, "loss.count": 2.0}] and stat.count == 0


def test_what_cannot_be_switched_on():
    future = import_module("metatensor.torch_api.torch.__future__")
    for name in ("overwrite", "swap"):
        setter = getattr(future, f"set_{name}_module_params_on_conversion")
        setter(False)
        assert getattr(future, f"get_{name}_module_params_on_conversion")() is False
        with pytest.raises(NotImplementedError):
            setter(True)
    with pytest.raises(NotImplementedError):
        mtorch.cuda.set_sync_debug_mode("error")
    for name in ("sparse_coo_tensor", "sparse_csr_tensor"):
        with pytest.raises(NotImplementedError, match="strided"):
            getattr(mtorch, name)()


def test_out_of_memory_is_what_backends_raise():
    assert mtorch.OutOfMemoryError is mtorch.cuda.OutOfMemoryError is mt.devices.OutOfMemoryError
    with pytest.raises(mtorch.OutOfMemoryError):
        mt.empty(2**58, device="cpu")


@pytest.mark.torch
def test_dimensions():
    import torch.export

    def texts(module):
        dim = module.Dim("batch", min=3, max=8)
        return [repr(dim), (2 * dim).__name__, (dim + 1).__name__, (dim - 1).__name__, repr(module.Dim.AUTO), dim.min, dim.max,
                (2 * dim).max, [one.__name__ for one in module.dims("a", "b")]]  # fmt: skip

    assert texts(export) == texts(torch.export)
    for wrong in (lambda: export.Dim("a", min=3, max=3), lambda: export.Dim("not a name")):
        with pytest.raises(AssertionError):
            wrong()


def test_onnx_keeps_what_is_registered():
    onnx.register_custom_op_symbolic("mine::op", print, 11)
    assert onnx._symbolics["mine::op", 11] is print
    onnx.unregister_custom_op_symbolic("mine::op", 11)
    assert not onnx._symbolics and not onnx.is_in_onnx_export()
    with pytest.raises(onnx.OnnxExporterError):
        onnx.register_custom_op_symbolic("op", print, 11)
    assert onnx.symbolic_helper.cast_pytorch_to_onnx["Long"] == onnx.TensorProtoDataType.INT64 == 7
    assert onnx.symbolic_helper.parse_args("v", "i")(test_futures) is test_futures
    assert onnx.operators.shape_as_tensor(mt.empty(2, 3, device="meta")).tolist() == [2, 3]


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(reverse):
    scan = importlib.import_module("metatensor.torch_api.torch._higher_order_ops.associative_scan").associative_scan
    x = mt.arange(12.0).reshape(3, 4)
    expected = mt.cumsum(x.flip(1), 1).flip(1) if reverse else mt.cumsum(x, 1)
    assert scan(lambda a, b: a + b, x, 1, reverse).tolist() == expected.tolist()

    def combine(left, right):
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    decay = mt.full((3, 4), 0.5)
    state, states = mt.zeros(3), []
    for index in reversed(range(4)) if reverse else range(4):
        state = 0.5 * state + x[:, index]
        states.append(state.tolist())
    got = scan(combine, {"a": decay, "b": x}, dim=1, reverse=reverse)["b"].T.tolist()
    assert got == (states[::-1] if reverse else states)
    assert scan(lambda a, b: a + b, mt.empty(2, 3, device="meta"), 0).shape == (2, 3)
    with pytest.raises(RuntimeError):
        scan(lambda a, b: (a, b), x, 0)
    for args in ((None, x, 0), (max, [x, x.T], 0), (max, x, 0, False, "?")):
        with pytest.raises(ValueError):
            scan(*args)


def test_scan_and_control_flow():
    from metatensor.torch_api.torch import _higher_order_ops as higher

    state, outputs = higher.scan(lambda s, x: (s + x, s * x), mt.tensor(1.0), mt.arange(4.0))
    assert state.item() == 7 and outputs.tolist() == [0, 1, 4, 12]
    assert higher.cond(mt.tensor(True), lambda x: x + 1, lambda x: x - 1, (1,)) == 2
    assert higher.while_loop(lambda n: n < 5, lambda n: (n + 2,), (0,)) == (6,)


@pytest.mark.parametrize("name", dir(return_types))
def test_return_types(name):
    assert issubclass(getattr(return_types, name), tuple)


def test_results_are_of_the_return_types():
    x = mt.randn(3, 3)
    for made, name in ((x.max(0), "max"), (x.sort(), "sort"), (mt.linalg.svd(x), "linalg_svd"), (mt.topk(x, 2), "topk")):
        assert isinstance(made, getattr(return_types, name))


def test_settings_of_the_compiler():
    config = importlib.import_module("metatensor.torch_api.torch._dynamo.config")
    with config.patch(suppress_errors=True, cache_size_limit=99):
        assert config.suppress_errors and config.cache_size_limit == 99
    assert not config.suppress_errors and config.cache_size_limit == 8
    inductor = ours._inductor.config
    inductor.triton.cudagraphs = True
    assert inductor.triton.cudagraphs and not ours._dynamo.utils.is_compile_supported("cpu")
    inductor.triton.cudagraphs = False
    with ours._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex():
        assert mt.arange(3)[mt.tensor(1)].item() == 1


@pytest.mark.slow
def test_names_of_results_are_torchs():
    code = "from metatensor import torch_api; torch_api.install(); import torch; print(torch.ones(2, 2).max(1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("torch.return_types.max(\nvalues="), done.stderr


@pytest.mark.slow
def test_benchmark_and_environment():
    from metatensor.utils import benchmark, collect_env

    timer = benchmark.Timer("x + 1", globals={"x": mt.ones(3)}, label="add", sub_label="3", description="cpu")
    measured = timer.blocked_autorange(min_run_time=0.01)
    assert 0 < measured.median < 1 and measured.times and "add" in repr(measured) and timer.timeit(10).number_per_run == 10
    assert "cpu" in str(benchmark.Compare([measured]))
    with pytest.raises(NotImplementedError):
        benchmark.Timer("x", language="c++")
    assert "metatensor" in collect_env.get_pretty_env_info()


def test_tensorboard_says_what_it_needs():
    if importlib.util.find_spec("tensorboardX") is None:
        with pytest.raises(ImportError, match="pip install tensorboardX"):
            importlib.import_module("metatensor.utils.tensorboard")


def test_functional_collectives_are_operators():
    from metatensor import distributed as dist

    def run():
        dist.init_process_group()
        c10d, name, rank = ours.ops._c10d_functional, dist.group.WORLD.group_name, dist.get_rank()
        x = mt.arange(4.0) + rank
        found = [
            c10d.all_reduce(x, "sum", name), c10d.all_gather_into_tensor(x, 2, name), c10d.reduce_scatter_tensor(x, "sum", 2, name),
            c10d.all_to_all_single(x, [2, 2], [2, 2], name), c10d.broadcast(x, 1, name),
        ]  # fmt: skip
        return [c10d.wait_tensor(one).tolist() for one in found]

    first, second = dist.sim.run(run, world_size=2)
    assert first == [[1, 3, 5, 7], [0, 1, 2, 3, 1, 2, 3, 4], [1, 3], [0, 1, 1, 2], [1, 2, 3, 4]]
    assert second == [[1, 3, 5, 7], [0, 1, 2, 3, 1, 2, 3, 4], [5, 7], [2, 3, 3, 4], [1, 2, 3, 4]]
