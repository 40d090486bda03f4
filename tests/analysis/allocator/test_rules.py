"""The model of the caching allocator on traces whose results were derived by hand from PyTorch's notes on memory."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor.analysis.allocator import EMPTY_CACHE, AllocatorSettings, CachingAllocator, replay
from metatensor.analysis.allocator.blocks import ALLOCATED, FREE, UNMAPPED
from metatensor.devices import OutOfMemoryError

KIB, MIB = 1 << 10, 1 << 20


def reserved(*events, conf="", **options):
    return replay(events, conf, **options).at_end.reserved


@pytest.mark.parametrize(("nbytes", "block", "segment"), [
    (1, 512, 2 * MIB), (512, 512, 2 * MIB), (513, 1024, 2 * MIB), (MIB, MIB, 2 * MIB),
    (MIB + 1, MIB + 512, 20 * MIB), (10 * MIB - 512, 10 * MIB - 512, 20 * MIB), (10 * MIB - 511, 10 * MIB, 10 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB), (11 * MIB, 11 * MIB, 12 * MIB), (11 * MIB + 600 * KIB, 11 * MIB + 600 * KIB, 12 * MIB),
    (1000 * MIB + 1, 1000 * MIB + 512, 1002 * MIB),
])  # fmt: skip
def test_sizes_of_blocks_and_segments(nbytes, block, segment):
    settings = AllocatorSettings()
    assert settings.block_size(nbytes) == block and settings.segment_size(block) == segment
    report = replay([(0, nbytes)])
    assert report.peak_reserved == segment and report.peak_requested == nbytes
    # What is left is split off if it is large enough: 512 bytes in the small pool, more than 1 MiB in the large one.
    left = segment - block
    split = left >= 512 if block <= MIB else left > MIB
    assert report.peak_allocated == (block if split else segment)


def test_small_blocks_share_segments_and_pools_are_apart():
    assert reserved(*[(i, MIB) for i in range(4)]) == 4 * MIB
    assert reserved(*[(i, 512) for i in range(4096)]) == 2 * MIB
    assert reserved(*[(i, 5 * MIB) for i in range(4)]) == 20 * MIB
    assert reserved((0, 5 * MIB), (1, 512)) == 22 * MIB  # a small request does not use the large pool


def test_freed_memory_stays_reserved_and_is_reused():
    assert reserved((0, 30 * MIB), (0, None)) == 30 * MIB
    assert reserved((0, 30 * MIB), (0, None), (1, 20 * MIB), (2, 10 * MIB)) == 30 * MIB
    assert reserved((0, 30 * MIB), (0, None), (1, 31 * MIB)) == 62 * MIB
    assert reserved((0, 30 * MIB), (0, None), EMPTY_CACHE) == 0
    assert reserved((0, 30 * MIB), (0, None), (1, 20 * MIB), EMPTY_CACHE) == 30 * MIB  # a part is in use


def test_best_fit_takes_the_smallest_that_suffices_then_the_first():
    model = CachingAllocator()
    a, b, c, d = (model.allocate(n * MIB) for n in (40, 30, 50, 30))
    for block in (a, b, c, d):
        model.free(block)
    assert model.allocate(29 * MIB).address == b.address
    assert model.allocate(29 * MIB).address == d.address
    assert model.allocate(31 * MIB).address == a.address
    assert model.allocate(31 * MIB).address == c.address
    # The remainders are 9 MiB of the block of 40 MiB and 19 MiB of the block of 50 MiB.
    assert model.allocate(12 * MIB).address == c.address + 31 * MIB
    assert model.reserved == 150 * MIB


def test_neighbours_are_joined():
    model = CachingAllocator()
    blocks = [model.allocate(5 * MIB) for _ in range(4)]
    assert [block.address - blocks[0].address for block in blocks] == [0, 5 * MIB, 10 * MIB, 15 * MIB]
    for i in (0, 2, 1):
        model.free(blocks[i])
    assert model.allocate(15 * MIB).address == blocks[0].address
    assert model.reserved == 20 * MIB
    with pytest.raises(ValueError, match="is not in use"):
        model.free(blocks[1])


def test_streams_and_private_pools_do_not_share():
    assert reserved((0, 5 * MIB, 1), (1, 5 * MIB, 2), (2, 5 * MIB, 1)) == 40 * MIB
    assert reserved((0, 5 * MIB, 1), (0, None), (1, 5 * MIB, 2)) == 40 * MIB
    model = CachingAllocator()
    model.allocate(512, pool=(0, 1))
    model.allocate(512)
    assert model.reserved == 4 * MIB


def test_a_block_that_another_stream_may_use_is_not_reused():
    model = CachingAllocator()
    block = model.allocate(12 * MIB)
    model.request_free(block)
    assert (model.allocated, model.active, model.reserved) == (0, 12 * MIB, 12 * MIB)
    assert model.allocate(12 * MIB).address != block.address
    model.complete_free(block)
    assert model.allocate(12 * MIB).address == block.address
    with pytest.raises(ValueError, match="not waiting"):
        model.complete_free(block)


def test_growing_batches_fragment_memory_and_expandable_segments_do_not():
    events = []
    for step, batch in enumerate(range(20, 30)):  # activations of eight layers, all a little larger in each step
        names = [(step, layer) for layer in range(8)]
        events += [(name, batch * MIB) for name in names] + [(name, None) for name in names]
    plain, expandable = replay(events), replay(events, "expandable_segments:True")
    assert expandable.peak_allocated == 8 * 29 * MIB and expandable.peak_reserved == 240 * MIB  # in pages of 20 MiB
    assert plain.peak_allocated == 8 * 30 * MIB  # segments are multiples of 2 MiB, and 1 MiB is not split off
    assert plain.peak_reserved == 8 * (20 + 22 + 24 + 26 + 28 + 30) * MIB
    assert plain.fragmentation >= 0.8 and expandable.fragmentation < 0.1
    assert plain.segments == 48 and expandable.segments == 1


def test_expandable_segments_grow_by_pages_and_shrink_by_pages():
    conf = "expandable_segments:True"
    assert reserved((0, 512), conf=conf) == 2 * MIB
    assert reserved((0, MIB + 1), conf=conf) == 20 * MIB
    assert reserved((0, 16 * MIB), (1, 16 * MIB), conf=conf) == 40 * MIB
    assert reserved((0, 30 * MIB), (1, 30 * MIB), (0, None), EMPTY_CACHE, conf=conf) == 40 * MIB  # one page of block 0 is free
    model = CachingAllocator(AllocatorSettings(expandable_segments=True))
    a, b = model.allocate(30 * MIB), model.allocate(30 * MIB)
    assert b.address == a.address + 30 * MIB
    model.free(a)
    model.empty_cache()
    assert model.reserved == 40 * MIB and model.split == 10 * MIB
    assert model.allocate(10 * MIB).address == a.address + 20 * MIB
    c = model.allocate(15 * MIB)  # maps the first page again
    assert c.address == a.address and model.reserved == 60 * MIB


def test_max_split_size():
    conf = "max_split_size_mb:100"
    assert reserved((0, 200 * MIB), (0, None), (1, 50 * MIB)) == 200 * MIB
    assert reserved((0, 200 * MIB), (0, None), (1, 50 * MIB), conf=conf) == 250 * MIB
    assert reserved((0, 90 * MIB), (0, None), (1, 50 * MIB), conf=conf) == 90 * MIB
    # For a larger request, a block that may not be split is used only if less than 20 MiB of it would be left over.
    assert reserved((0, 200 * MIB), (0, None), (1, 182 * MIB), conf=conf) == 200 * MIB
    assert reserved((0, 200 * MIB), (0, None), (1, 180 * MIB), conf=conf) == 380 * MIB
    assert reserved((0, 200 * MIB), (0, None), (1, 120 * MIB), conf=conf + ",max_non_split_rounding_mb:100") == 200 * MIB


def test_power_of_two_divisions():
    four = AllocatorSettings.parse("roundup_power2_divisions:4")
    assert four.block_size(1200 * MIB) == 1280 * MIB and four.block_size(1280 * MIB) == 1280 * MIB
    assert four.block_size(1793 * MIB) == 2048 * MIB
    assert four.block_size(1200) == 1536  # for small sizes, rounding to multiples of 512 is coarser than the divisions
    table = AllocatorSettings.parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")
    assert table.block_size(200 * MIB + 1) == 200 * MIB + 512
    assert table.block_size(300 * MIB) == 384 * MIB
    assert table.block_size(520 * MIB) == 640 * MIB
    assert table.block_size(1030 * MIB) == 1152 * MIB


def test_capacity_and_retry():
    events = [(0, 60 * MIB), (0, None), (1, 80 * MIB)]
    assert reserved(*events) == 140 * MIB
    report = replay(events, capacity=100 * MIB)
    assert report.out_of_memory is None and report.retries == 1 and report.at_end.reserved == 80 * MIB
    assert report.segments_returned == 1 and report.segments == 1
    # 20 MiB of a segment of 60 MiB are in use, so that 40 MiB are free and of no use.
    report = replay([(0, 60 * MIB), (0, None), (1, 20 * MIB), (2, 50 * MIB)], capacity=100 * MIB)
    failure = report.out_of_memory
    assert failure.event == 3 and failure.nbytes == 50 * MIB and report.events == 3
    assert (failure.state.requested, failure.state.split, failure.state.reserved) == (20 * MIB, 40 * MIB, 60 * MIB)
    assert "52,428,800 bytes are requested" in failure.message
    expandable = replay([(0, 60 * MIB), (0, None), (1, 20 * MIB), (2, 50 * MIB)], "expandable_segments:True", capacity=100 * MIB)
    assert expandable.out_of_memory is None
    with pytest.raises(OutOfMemoryError):
        CachingAllocator(capacity=MIB).allocate(1)
    with pytest.raises(OutOfMemoryError):
        CachingAllocator(AllocatorSettings(expandable_segments=True), capacity=MIB).allocate(1)


def test_oversize_blocks_are_returned_before_everything_is():
    events = [(0, 200 * MIB), (1, 5 * MIB), (0, None), (1, None), (2, 50 * MIB)]
    report = replay(events, "max_split_size_mb:100", capacity=230 * MIB)
    assert report.retries == 0 and report.at_end.reserved == 70 * MIB  # the cached segment of 20 MiB is still there
    assert replay(events[:-1] + [(2, 220 * MIB)], capacity=230 * MIB).retries == 1


def test_garbage_collection_returns_old_blocks_first():
    events = [("young", 40 * MIB), ("old", 30 * MIB), ("old", None), ("other", 31 * MIB), ("young", None), ("new", 45 * MIB)]
    conf = "garbage_collection_threshold:0.5"
    report = replay(events, conf, capacity=160 * MIB)  # 102 MiB are reserved when the last request comes
    assert report.retries == 0 and report.segments_returned == 1
    assert report.at_end.reserved == (40 + 32 + 46) * MIB
    for kept in (replay(events, capacity=160 * MIB), replay(events, conf, capacity=210 * MIB), replay(events, conf)):
        assert kept.segments_returned == 0 and kept.at_end.reserved == (40 + 30 + 32 + 46) * MIB


def test_report():
    report = replay([("a", 3 * MIB), ("b", 1000), ("a", None), ("c", 0), ("c", None)])
    assert list(report.reserved) == [20 * MIB, 22 * MIB, 22 * MIB, 22 * MIB, 22 * MIB]
    assert list(report.allocated) == [3 * MIB, 3 * MIB + 1024, 1024, 1024, 1024]
    assert report.peak_event == 1 and report.events == 5 and report.segments == report.segments_requested == 2
    peak, end = report.at_peak, report.at_end
    assert (peak.requested, peak.rounding, peak.pending, peak.cached) == (3 * MIB + 1000, 24, 0, 0)
    assert (end.requested, end.cached, end.split) == (1000, 20 * MIB, 2 * MIB - 1024)
    for state in (peak, end):
        assert state.reserved == state.requested + state.rounding + state.pending + state.split + state.cached
    assert report.fragmentation == peak.split / peak.reserved
    assert report.to_dict()["at_peak"]["rounding"] == 24 and report.to_dict()["out_of_memory"] is None
    assert not len(replay([("a", 1)], timeline=False).reserved)
    assert replay([]).peak_reserved == 0 and replay([]).peak_event == -1 and replay([]).fragmentation == 0


@pytest.mark.parametrize(("events", "message"), [
    ([(1, None)], "event 0 frees 1, which is not in use"),
    ([(1, 5), (1, None), (1, None)], "event 2 frees 1"),
    ([(1, 5), (1, 5)], "event 1 allocates 1, which is in use"),
    ([(1, -5)], "event 0 allocates -5 bytes"),
    ([3], "event 0 must be"),
    (["flush"], "event 0"),
])  # fmt: skip
def test_wrong_events(events, message):
    with pytest.raises(ValueError, match=message):
        replay(events)


@pytest.mark.parametrize(("text", "message"), [
    ("max_split_size_mb:10", "more than 20 MiB"),
    ("max_split_size_mb:many", "must be a number, got 'many'"),
    ("max_split_sice_mb:100", "unknown option 'max_split_sice_mb'"),
    ("garbage_collection_threshold:1.5", "less than 1"),
    ("expandable_segments:yes", "must be True or False"),
    ("roundup_power2_divisions:3", "power of two"),
    ("roundup_power2_divisions:[100:1]", "100 is not a power of two"),
    ("backend:cudaMallocAsync", "only .* is modelled"),
    ("max_non_split_rounding_mb:1", "at least 20 MiB"),
])  # fmt: skip
def test_wrong_settings(text, message):
    with pytest.raises(ValueError, match=message):
        AllocatorSettings.parse(text)


def test_settings_that_do_not_matter_here():
    assert AllocatorSettings.parse("") == AllocatorSettings()
    assert AllocatorSettings.parse("backend:native, pinned_use_cuda_host_register:True") == AllocatorSettings()


# Invariants after any sequence of operations --------------------------------------------------------------------


def verify(model, live):
    """Check the invariants of the model."""
    totals = {ALLOCATED: 0, FREE: 0, UNMAPPED: 0}
    ranges = []
    for segment in model.segments.values():
        at, before = segment.address, None
        mapped = 0
        for block in segment.blocks():
            assert block.address == at and block.size > 0 and block.size % 512 == 0 and block.previous is before
            assert before is None or not (before.state == block.state and block.state in (FREE, UNMAPPED))  # they would be joined
            listed = segment.free_blocks.at if block.state == FREE else segment.free_blocks.unmapped
            assert (listed.get(block.address) is block) == (block.state in (FREE, UNMAPPED))
            totals[block.state] += block.size
            mapped += block.size * (block.state != UNMAPPED)
            at, before = at + block.size, block
        assert mapped == segment.size
        ranges.append((segment.address, at))
    ranges.sort()
    assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:]))
    assert model.reserved == totals[ALLOCATED] + totals[FREE] >= model.allocated == totals[ALLOCATED] >= model.requested
    assert model.requested == sum(block.requested for block in live)
    for free in model._free.values():
        assert free.keys == sorted((block.size, address) for address, block in free.at.items())
    used = sorted((block.address, block.address + block.size) for block in live)
    assert all(end <= start for (_, end), (start, _) in zip(used, used[1:]))
    assert all(block.size >= block.requested for block in live)
    if model.capacity is not None:
        assert model.reserved <= model.capacity


ROUND = st.sampled_from([MIB, 10 * MIB, 20 * MIB, 40 * MIB])
SIZES = st.one_of(st.integers(1, 4 * KIB), st.integers(1, 3 * MIB), st.integers(MIB, 60 * MIB), ROUND)
STEPS = st.lists(st.tuples(st.sampled_from("aaaaffffe"), SIZES, st.integers(0, 1), st.integers(0, 1 << 30)), min_size=10, max_size=80)


@pytest.mark.slow
@hypothesis_settings(max_examples=120, deadline=None)
@given(
    STEPS,
    st.sampled_from(["", "expandable_segments:True", "max_split_size_mb:21", "roundup_power2_divisions:4",
                     "garbage_collection_threshold:0.4", "max_split_size_mb:30,garbage_collection_threshold:0.6"]),
    st.sampled_from([None, 100 * MIB, 1000 * MIB]),
)  # fmt: skip
def test_invariants(steps, conf, capacity):
    model = CachingAllocator(AllocatorSettings.parse(conf), capacity=capacity)
    live = []
    for action, nbytes, stream, choice in steps:
        if action == "a":
            try:
                live.append(model.allocate(nbytes, stream))
            except OutOfMemoryError:
                assert capacity is not None
        elif action == "f" and live:
            model.free(live.pop(choice % len(live)))
        elif action == "e":
            model.empty_cache()
        verify(model, live)
    for block in live:
        model.free(block)
    verify(model, [])
    model.empty_cache()
    verify(model, [])
    assert model.reserved == model.active == 0 and not model.segments


def test_is_reachable_from_the_package():
    assert mt.analysis.allocator.replay is replay
