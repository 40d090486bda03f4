"""Memory statistics of every available device: current and peak bytes. Shared memory counts once."""

import gc
import sys

import pytest

import metatensor as mt
from devices import gpu_checks
from metatensor import plugins
from metatensor.devices.array_kit.memory import give_back

MIB = 1 << 20


@pytest.fixture
def figures(device):
    """Return the bytes in use, their peak and the number of allocations since the test began."""
    backend = plugins.backend(device)
    gc.collect()
    backend.reset_peak_memory_stats()
    start = backend.memory_stats()

    def since():
        now = backend.memory_stats()
        names = ("allocated_bytes.all.current", "allocated_bytes.all.peak", "allocation.all.current", "allocation.all.peak")
        return tuple(now[name] - start[name.replace("peak", "current")] for name in names)

    yield since


def test_current_and_peak(device, figures):
    assert figures() == (0, 0, 0, 0)
    gpu_checks.memory(device)
    assert figures()[0] == 0


def test_views_count_once(device, figures):
    x = mt.empty(MIB, dtype=mt.uint8, device=device)
    views = [x.view(1024, 1024), x[5:], x.detach(), x.view(mt.float32), x.unfold(0, 4, 4), x.expand(3, MIB), x.untyped_storage()]
    assert figures() == (MIB, MIB, 1, 1)
    del x
    assert figures()[0] == MIB  # kept by its views
    del views
    assert figures() == (0, MIB, 0, 1)


def test_temporaries_raise_the_peak_alone(device, figures):
    x = mt.ones(MIB // 4, device=device)
    y = ((x + 1) * 2).sum()
    current, peak, count, most = figures()
    assert current == MIB + 4 and count == 2 and peak == 3 * MIB and most == 3
    del x, y
    plugins.backend(device).reset_peak_memory_stats()
    assert figures() == (0, 0, 0, 0)


def test_in_place_and_out_take_nothing(device, figures):
    x, y = mt.ones(MIB // 4, device=device), mt.empty(MIB // 4, device=device)
    plugins.backend(device).reset_peak_memory_stats()
    x.add_(1), x.mul_(x), mt.add(x, x, out=y), y.zero_(), x.copy_(y)
    assert figures() == (2 * MIB, 2 * MIB, 2, 2)


def test_growing_and_moving(device, figures):
    x = mt.empty(MIB, dtype=mt.uint8, device=device)
    x.untyped_storage().resize_(2 * MIB)
    assert figures()[:2] == (2 * MIB, 3 * MIB)
    x.untyped_storage().resize_(0)
    assert figures()[0] == 0
    x = mt.ones(MIB // 4).to(device)
    y = x.to("meta")
    assert y.is_meta and figures()[0] == MIB


def test_memory_of_others_is_not_counted():
    np = pytest.importorskip("numpy")
    backend = plugins.backend("cpu")
    before = backend.memory_stats()["allocated_bytes.all.current"]
    x = mt.from_numpy(np.zeros(MIB))
    assert backend.memory_stats()["allocated_bytes.all.current"] == before and x.numel() == MIB


@pytest.mark.slow
def test_an_error_gives_back_what_was_allocated(device, figures):
    x = mt.ones(4, 4, device=device)
    with pytest.raises(IndexError):
        mt.ones(MIB, device=device)[mt.tensor([MIB + 1], device=device)]
    gc.collect()
    assert figures()[0] == x.nbytes


def test_threads_share_the_figures(device, figures):
    import threading

    held = []
    threads = [threading.Thread(target=lambda: held.append(mt.empty(MIB, dtype=mt.uint8, device=device))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert figures() == (4 * MIB, 4 * MIB, 4, 4)
    held.clear()
    assert figures()[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="huge blocks are malloc's there")
def test_a_huge_block_is_used_again():
    """The last freed block is reused by one of similar size, and is not mistaken for zeroed memory."""
    backend = plugins.backend("cpu")
    backend.empty_cache()
    x = mt.ones(40 * MIB, dtype=mt.uint8)
    at = x.data_ptr()
    del x
    y = mt.zeros(39 * MIB, dtype=mt.uint8)
    assert y.data_ptr() == at and not y.any()
    del y
    assert give_back() == 40 * MIB and give_back() == 0
    x = mt.ones(40 * MIB, dtype=mt.uint8)
    del x
    z = mt.empty(50 * MIB, dtype=mt.uint8)  # not similar in size, so the kept block is released first
    assert give_back() == 0
    del z
    small = mt.empty(MIB, dtype=mt.uint8)
    backend.empty_cache()
    assert give_back() == 0 and small.numel() == MIB
    mt.ones(200 * MIB, dtype=mt.uint8)
    assert give_back() == 0  # larger than the maximum that is kept
