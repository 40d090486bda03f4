"""`torch.cuda`, `torch.accelerator` and similar modules: without devices, and with a plugin on a stand-in for CuPy."""

import subprocess
import sys

import pytest

import metatensor as mt
from devices.fake_cupy import FakeCupy
from metatensor.torch_api import torch as ours
from metatensor.torch_api.torch import accelerator, backends, cuda, mps, mtia, streams, xpu

without_cuda = pytest.mark.skipif(cuda.is_available(), reason="there is a CUDA device")


@without_cuda
@pytest.mark.parametrize("module", [cuda, xpu, mps, mtia, accelerator])
def test_there_is_none(module):
    assert not module.is_available() and module.device_count() == 0


@without_cuda
def test_what_does_nothing_without_devices():
    state = mt.get_rng_state()
    cuda.manual_seed(1), cuda.manual_seed_all(1), cuda.seed(), cuda.empty_cache(), xpu.manual_seed_all(2)
    assert mt.get_rng_state().tolist() == state.tolist()
    assert (cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved(), cuda.memory_stats()) == (0, 0, 0, {})
    assert cuda.get_rng_state_all() == [] and cuda.default_generators == () and cuda.get_arch_list() == []
    assert not cuda.is_bf16_supported() and not cuda.is_initialized() and not cuda.is_current_stream_capturing()
    with cuda.stream(None), cuda.device_of(mt.empty(1, device="meta")), cuda.device(-1), cuda.nvtx.range("name"):
        cuda.set_device(-1)
    assert accelerator.current_accelerator() is None


@without_cuda
@pytest.mark.torch
@pytest.mark.parametrize("name, args", [
    ("cuda.current_device", ()), ("cuda.get_device_name", ()), ("cuda.get_device_properties", (0,)), ("cuda.synchronize", ()),
    ("cuda.current_stream", ()), ("cuda.Stream", ()), ("cuda.Event", ()), ("cuda.init", ()), ("cuda.CUDAGraph", ()),
    ("cuda.get_rng_state", ()), ("cuda.initial_seed", ()), ("cuda.mem_get_info", ()), ("cuda.set_device", ("cpu",)),
    ("cuda._utils._get_device_index", (None,)), ("xpu.current_device", ()), ("mps.synchronize", ()), ("mps.empty_cache", ()),
    ("mtia.synchronize", ()), ("accelerator.synchronize", ()), ("accelerator.current_device_index", ()),
    ("accelerator.set_device_index", (0,)), ("accelerator.memory_allocated", ()),
])  # fmt: skip
def test_errors_are_of_the_classes_of_pytorch(name, args):
    import torch

    def outcome(module):
        found = module
        for part in name.split("."):
            found = getattr(found, part)
        with pytest.raises(Exception) as caught:
            found(*args)
        return caught.type

    if torch.cuda.is_available() or torch.accelerator.is_available():
        pytest.skip("PyTorch has a device")
    assert outcome(ours) is outcome(torch)


def test_asking_imports_no_cupy():
    code = """if True:
        import sys
        from metatensor import plugins
        plugins.loading._manager = plugins.PluginManager(lambda group: (), ())
        from metatensor.torch_api import torch
        assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not torch.accelerator.is_available()
        assert not torch.backends.mps.is_available() and not torch.backends.cuda.is_built()
        assert "cupy" not in sys.modules and "numpy" not in sys.modules
        try:
            torch.cuda.current_device()
        except AssertionError as error:
            assert "metatensor-cuda" in str(error)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


# With the plugin --------------------------------------------------------------------------


@pytest.fixture
def two_devices(monkeypatch):
    backend_module = pytest.importorskip("metatensor_cuda.backend")
    backend = backend_module.CudaBackend(FakeCupy(count=2), FakeCupy().special)
    from metatensor import plugins

    monkeypatch.setitem(plugins.manager()._backends, "cuda", backend)
    return backend


def test_devices(two_devices):
    assert cuda.is_available() and cuda.device_count() == 2 and cuda.is_initialized()
    assert accelerator.current_accelerator() == mt.device("cuda") and accelerator.device_count() == 2
    assert cuda.current_device() == 0
    with cuda.device(1):
        assert cuda.current_device() == 1 == accelerator.current_device_index()
        with cuda.device("cuda:0"):
            assert cuda.current_device() == 0
    assert cuda.current_device() == 0
    cuda.set_device("cuda:1")
    assert cuda.current_device() == 1
    cuda.set_device(0)
    for wrong, error in ((2, RuntimeError), ("cpu", ValueError)):
        with pytest.raises(error):
            cuda.set_device(wrong)


def test_properties(two_devices):
    known = cuda.get_device_properties(1)
    assert cuda.get_device_name(1) == known.name and cuda.get_device_capability(1) == (known.major, known.minor)
    assert known.total_memory > 0 and cuda.is_bf16_supported()
    free, total = cuda.mem_get_info()
    assert 0 < free <= total


def test_memory(two_devices):
    before = cuda.memory_allocated()
    handle = two_devices.allocate(4096, 0)
    assert cuda.memory_allocated() - before == 4096 <= cuda.max_memory_allocated()
    del handle
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == cuda.memory_allocated() == before
    assert "allocated_bytes.all.current" in cuda.memory_summary()
    cuda.empty_cache()


def test_random_states(two_devices):
    assert len(cuda.get_rng_state_all()) == 2 == len(cuda.default_generators)
    state = mt.get_rng_state()
    cuda.manual_seed(5)
    assert cuda.initial_seed() == 5
    with pytest.warns(UserWarning, match="2 devices"), ours.random.fork_rng():
        cuda.manual_seed(6)
    assert cuda.initial_seed() == 5
    mt.set_rng_state(state)


def test_streams(two_devices):
    stream = cuda.Stream(1)
    assert stream.device == mt.device("cuda:1") and isinstance(stream, streams.Stream)
    assert stream != cuda.current_stream(1) == cuda.default_stream(1) and stream.cuda_stream != 0
    with cuda.stream(stream):
        assert cuda.current_device() == 1 and cuda.current_stream() == stream
        assert cuda.current_stream(0) == cuda.default_stream(0)
    assert cuda.current_device() == 0 and cuda.current_stream(1) != stream
    cuda.set_stream(stream)
    assert cuda.current_device() == 1 and cuda.current_stream() == stream
    cuda.set_stream(cuda.default_stream(1)), cuda.set_device(0)
    assert cuda.ExternalStream(4096, 1).cuda_stream == 4096
    first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        first.elapsed_time(last)
    first.record(), last.record()
    assert first.elapsed_time(last) >= 0 and last.query() and stream.query()
    with pytest.raises(RuntimeError, match="enable_timing"):
        cuda.Event().elapsed_time(last)


def test_streams_of_the_host():
    stream = ours.Stream("cpu")
    event = stream.record_event()
    stream.wait_event(event), stream.synchronize(), event.synchronize()
    assert stream.device_type == "cpu" and event.query()


def test_fork_rng():
    state = mt.get_rng_state().tolist()
    with ours.random.fork_rng(devices=[]):
        mt.manual_seed(3)
        assert mt.get_rng_state().tolist() != state
    assert mt.get_rng_state().tolist() == state


# Settings ---------------------------------------------------------------------------------


def test_settings_are_kept():
    cudnn = backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (True, False, False, True)
    with cudnn.flags(enabled=False, benchmark=True, deterministic=True, allow_tf32=False):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (False, True, True, False)
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    cudnn.benchmark = True
    assert cudnn.set_flags(_benchmark=False)[1] is True and cudnn.benchmark is False
    assert not cudnn.is_available() and cudnn.version() is None and not backends.mkldnn.is_available()


def test_one_precision_two_names():
    before = ours.get_float32_matmul_precision()
    backends.cuda.matmul.allow_tf32 = True
    assert ours.get_float32_matmul_precision() == "high"
    ours.set_float32_matmul_precision("highest")
    assert not backends.cuda.matmul.allow_tf32
    ours.set_float32_matmul_precision(before)


def test_choices_of_attention():
    cuda_settings = backends.cuda
    assert all((cuda_settings.flash_sdp_enabled(), cuda_settings.math_sdp_enabled(), cuda_settings.mem_efficient_sdp_enabled()))
    with cuda_settings.sdp_kernel(enable_flash=False):
        assert not cuda_settings.flash_sdp_enabled()
    assert cuda_settings.flash_sdp_enabled()
    cuda_settings.enable_math_sdp(False)
    assert not cuda_settings.math_sdp_enabled()
    cuda_settings.enable_math_sdp(True)
    assert not cuda_settings.can_use_flash_attention(cuda_settings.SDPAParams(None, None, None))
    with pytest.raises(RuntimeError):
        cuda_settings.preferred_linalg_library("nobody's")


@pytest.mark.torch
def test_the_processor_is_what_pytorch_says():
    import torch

    assert backends.cpu.get_cpu_capability() == torch.backends.cpu.get_cpu_capability()


def test_quantization_has_no_engine():
    assert backends.quantized.engine in backends.quantized.supported_engines
    with pytest.raises(ValueError):
        backends.opt_einsum.set_flags(_enabled=True)
