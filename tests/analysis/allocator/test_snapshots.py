"""Memory snapshots of PyTorch: reading them, and comparing their histories with the model."""

import copy
import os
import pickle
import random

import pytest

import metatensor as mt
from metatensor.analysis.allocator import EMPTY_CACHE, AllocatorSettings, Snapshot, SnapshotError, compare, load_snapshot, replay

MIB = 1 << 20
A, B = 0x7F0000000000, 0x7F0010000000  # addresses of two segments
FRAMES = [{"name": "forward", "filename": "/home/me/model.py", "line": 7}, {"name": "main", "filename": "train.py", "line": 3}]


def event(action, addr, size, stream=0, **more):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 1700000000000000, "frames": FRAMES, **more}


def block(address, size, state, requested=None):
    return {"address": address, "size": size, "requested_size": size if requested is None else requested, "state": state, "frames": []}


def segment(address, blocks, kind="large", expandable=False, device=0):
    used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    return {"device": device, "address": address, "total_size": sum(b["size"] for b in blocks), "allocated_size": used, "active_size": used,
            "requested_size": used, "stream": 0, "segment_type": kind, "segment_pool_id": (0, 0), "is_expandable": expandable,
            "frames": [], "blocks": blocks}  # fmt: skip


def contents():
    """A history worked out by hand. It begins when a block of 4 MiB is in use at the start of the first segment (20 MiB)."""
    return {
        "segments": [
            segment(A, [block(A, 2 * MIB, "active_allocated", 2 * MIB - 100), block(A + 2 * MIB, MIB + 512, "active_allocated", MIB + 1),
                        block(A + 3 * MIB + 512, 17 * MIB - 512, "inactive")]),
            segment(B, [block(B, 512, "active_allocated", 4), block(B + 512, 2 * MIB - 512, "inactive")], "small"),
        ],
        "device_traces": [[
            event("alloc", A + 4 * MIB, 5 * MIB),
            event("free_requested", A, 4 * MIB),
            event("free_completed", A, 4 * MIB),
            event("alloc", A, 2 * MIB - 100),  # the free block of 4 MiB fits better than that of 11 MiB
            event("segment_alloc", B, 2 * MIB),
            event("alloc", B, 4),
            event("free_requested", A + 4 * MIB, 5 * MIB),
            event("free_completed", A + 4 * MIB, 5 * MIB),
            event("alloc", A + 2 * MIB, MIB + 1),
        ]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                               "expandable_segments": False, "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}},
        "external_annotations": [],
    }  # fmt: skip


@pytest.fixture
def load(tmp_path):
    def load(value, protocol=4):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
        return load_snapshot(path)

    return load


@pytest.mark.parametrize("protocol", range(2, 6))
def test_reading(load, protocol):
    snapshot = load(contents(), protocol)
    assert isinstance(snapshot, Snapshot) and snapshot.devices == [0]
    assert snapshot.reserved() == 22 * MIB and snapshot.allocated() == 3 * MIB + 1024
    assert snapshot.settings == AllocatorSettings()
    first = snapshot.segments[0]
    assert (first.address, first.total_size, first.small, first.expandable, first.pool) == (A, 20 * MIB, False, False, (0, 0))
    assert first.blocks[0].requested_size == 2 * MIB - 100 and first.blocks[2].state == "inactive"
    found = snapshot.traces[0][0]
    assert (found.action, found.address, found.size, found.time_us) == ("alloc", A + 4 * MIB, 5 * MIB, 1700000000000000)
    assert found.line == "/home/me/model.py:7"
    assert "2 segments" in repr(snapshot)
    assert mt.analysis.load_snapshot is load_snapshot


def test_history_agrees_with_the_model(load):
    agreement = compare(load(contents()))
    assert agreement.differences == ()
    assert (agreement.allocations_same, agreement.allocations) == (4, 4)
    assert (agreement.requests_same, agreement.requests) == (1, 1)
    assert (agreement.blocks_same, agreement.blocks) == (5, 5)
    assert agreement.reserved == agreement.reserved_model == agreement.peak_reserved == agreement.peak_reserved_model == 22 * MIB
    assert "4 of 4 requests got the expected block" in str(agreement)


def test_differences_are_found(load):
    wrong = contents()
    wrong["device_traces"] = [wrong["device_traces"][0][:4]]
    wrong["device_traces"][0][3]["addr"] = A + 9 * MIB  # not the best fit
    blocks = [block(A, 4 * MIB, "inactive"), block(A + 4 * MIB, 5 * MIB, "active_allocated"),
              block(A + 9 * MIB, 2 * MIB, "active_allocated", 2 * MIB - 100), block(A + 11 * MIB, 9 * MIB, "inactive")]  # fmt: skip
    wrong["segments"] = [segment(A, blocks)]
    agreement = compare(load(wrong))
    assert (agreement.allocations_same, agreement.allocations, agreement.blocks_same) == (1, 2, 4)
    (difference,) = agreement.differences
    assert difference.event == 3 and difference.kind == "block" and f"{A:#x}" in difference.expected
    larger = contents()
    larger["device_traces"][0][4]["size"] = 4 * MIB
    larger["segments"][1]["blocks"][1]["size"] = 4 * MIB - 512
    larger["segments"][1]["total_size"] = 4 * MIB
    agreement = compare(load(larger))
    assert agreement.requests_same == 0 and "a segment of 2,097,152 bytes" in agreement.differences[0].expected
    missing = contents()
    missing["device_traces"][0][5]["addr"] = 0x1000
    assert any(found.kind == "place" for found in compare(load(missing)).differences)


@pytest.mark.parametrize("action", ["segment_free", "segment_unmap"])
def test_histories_that_contradict_the_segments_are_refused(load, action):
    value = contents()
    value["device_traces"][0].insert(0, event(action, A + 4 * MIB, 20 * MIB))  # memory that was never returned
    with pytest.raises(SnapshotError, match="the history contradicts"):
        compare(load(value))


@pytest.mark.slow
def test_senseless_histories_do_no_harm(load):
    generator = random.Random(0)
    actions = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "new"]
    refused = 0
    for _ in range(300):
        value = contents()
        for part in value["segments"]:
            part["is_expandable"] = value["allocator_settings"]["expandable_segments"] = bool(generator.randrange(2))
        trace = value["device_traces"][0]
        for _ in range(generator.randrange(1, 6)):
            address = generator.choice([0, A, A + 4 * MIB, A + 20 * MIB, B, (1 << 64) - 1])
            size = generator.choice([0, 1, 512, 2 * MIB, 20 * MIB, 1 << 45, (1 << 64) - 1])
            trace.insert(generator.randrange(len(trace) + 1), event(generator.choice(actions), address, size))
        try:
            assert compare(load(value)).events == len(trace)
        except SnapshotError:
            refused += 1
    assert 0 < refused < 200


def test_expandable_segments(load):
    start = 0x600000000
    trace = [
        event("segment_map", start, 20 * MIB),
        event("alloc", start, 16 * MIB),
        event("segment_map", start + 20 * MIB, 20 * MIB),
        event("alloc", start + 16 * MIB, 16 * MIB),
        event("free_requested", start, 16 * MIB),
        event("free_completed", start, 16 * MIB),
        event("segment_map", start + 40 * MIB, 20 * MIB),  # 8 MiB at the end and a page are 28 MiB
        event("alloc", start + 32 * MIB, 25 * MIB),
    ]
    blocks = [block(start, 16 * MIB, "inactive"), block(start + 16 * MIB, 16 * MIB, "active_allocated"),
              block(start + 32 * MIB, 25 * MIB, "active_allocated"), block(start + 57 * MIB, 3 * MIB, "inactive")]  # fmt: skip
    settings = {"expandable_segments": True, "max_split_size": -1, "garbage_collection_threshold": 0.0}
    value = {"segments": [segment(start, blocks, expandable=True)], "device_traces": [trace], "allocator_settings": settings}
    agreement = compare(load(value))
    assert agreement.differences == () and agreement.allocations_same == 3 and agreement.requests_same == 3
    assert agreement.blocks_same == 4 and agreement.peak_reserved == agreement.peak_reserved_model == 60 * MIB


def test_returned_memory_and_the_start_of_the_history(load):
    value = {
        "segments": [segment(B, [block(B, 12 * MIB, "active_allocated", 11 * MIB)])],
        "device_traces": [[
            event("free_requested", A, 30 * MIB - 100),
            event("free_completed", A, 30 * MIB - 100),
            event("segment_free", A, 30 * MIB),
            event("oom", 0, 1 << 40, device_free=5),
            event("segment_alloc", B, 12 * MIB),
            event("alloc", B, 11 * MIB),
            event("snapshot", 0, 0),
        ]],
    }  # fmt: skip
    agreement = compare(load(value))
    assert agreement.differences == () and agreement.returns_same == agreement.returns == 1
    assert agreement.peak_reserved == agreement.peak_reserved_model == 30 * MIB
    assert agreement.blocks_same == agreement.blocks == 1


def test_events_for_a_replay_with_other_settings(load):
    snapshot = load(contents())
    events = list(snapshot.events())
    assert events == [(0, 4 * MIB, 0), (1, 5 * MIB, 0), (0, None), (2, 2 * MIB - 100, 0), (3, 4, 0), (1, None), (4, MIB + 1, 0)]
    assert replay(events).peak_reserved == snapshot.reserved() == 22 * MIB
    assert replay(events, "roundup_power2_divisions:2").peak_requested == replay(events).peak_requested == 9 * MIB
    returned = {"segments": [], "device_traces": [[event("free_requested", A, 30 * MIB), event("free_completed", A, 30 * MIB),
                event("segment_free", A, 30 * MIB), event("segment_free", A + 30 * MIB, 2 * MIB)]]}  # fmt: skip
    assert list(load(returned).events()) == [(0, 30 * MIB, 0), (0, None), EMPTY_CACHE]
    assert list(load(returned).events(returns=False)) == [(0, 30 * MIB, 0), (0, None)]
    assert list(snapshot.events(5)) == []


def test_early_versions(load):
    """They saved the segments alone, and blocks had no addresses."""
    value = [{"device": 0, "address": A, "total_size": 2 * MIB, "stream": 0, "segment_type": "small", "blocks": [
        {"size": 512, "state": "active_allocated", "history": [{"addr": A, "real_size": 4, "frames": FRAMES}]},
        {"size": 2 * MIB - 512, "state": "inactive"},
    ]}]  # fmt: skip
    snapshot = load(value)
    first, second = snapshot.segments[0].blocks
    assert first.requested_size == 4 and second.address == A + 512
    assert snapshot.settings is None and snapshot.traces == ()
    assert compare(snapshot).blocks_same == 2


def test_settings_of_a_snapshot(load):
    value = contents()
    value["allocator_settings"].update(max_split_size=128 * MIB, roundup_power2_divisions={str(1 << i): 4 for i in range(16)})
    settings = load(value).settings
    assert settings.max_split_size == 128 * MIB and settings.block_size(1200 * MIB) == 1280 * MIB


# Files that are something else, or worse --------------------------------------------------


class Evil:
    def __reduce__(self):
        return os.mkdir, ("/tmp/metatensor-hostile-snapshot",)


def changed(change):
    value = copy.deepcopy(contents())
    change(value)
    return value


@pytest.mark.parametrize(("value", "message"), [
    (b"", "not a memory snapshot"),
    (b"PK\x03\x04 something else", "not a memory snapshot"),
    (pickle.dumps(contents())[:-100], "not a memory snapshot"),
    ({"a": 1}, "it has no segments"),
    (3, "it has no segments"),
    (changed(lambda v: v.update(segments=3)), "segments must be a list"),
    (changed(lambda v: v["segments"][0].update(address="x")), "address of a segment must be a number"),
    (changed(lambda v: v["segments"][0].update(address=-1)), "address of a segment must be a number"),
    (changed(lambda v: v["segments"][0].update(total_size=1 << 70)), "at most 64 bits"),
    (changed(lambda v: v["segments"][0].update(total_size=5)), "the blocks of the segment at 0x7f0000000000 have"),
    (changed(lambda v: v["segments"][0].update(segment_type="huge")), "the type 'huge'"),
    (changed(lambda v: v["segments"][0].update(segment_pool_id=7)), "segment_pool_id must be two numbers"),
    (changed(lambda v: v["segments"][0]["blocks"][0].update(state="lost")), "the state 'lost'"),
    (changed(lambda v: v["segments"][0]["blocks"][1].update(address=5)), "do not follow one another"),
    (changed(lambda v: v["segments"].append(v["segments"][0])), "two segments have the address"),
    (changed(lambda v: v.update(device_traces=[3])), "device_traces must be a list"),
    (changed(lambda v: v["device_traces"][0].append({})), "an event has no action"),
    (changed(lambda v: v["device_traces"][0][0].update(size=-4)), "size of an event"),
    (changed(lambda v: v["allocator_settings"].update(garbage_collection_threshold=7)), "allocator_settings"),
])  # fmt: skip
def test_other_files_are_refused(load, value, message):
    with pytest.raises(SnapshotError, match=message) as error:
        load(value)
    assert "snapshot.pickle" in str(error.value)


def test_nothing_in_a_file_is_run(load):
    with pytest.raises(SnapshotError, match="mkdir"):
        load(pickle.dumps({"segments": [], "x": Evil()}))
    assert not os.path.exists("/tmp/metatensor-hostile-snapshot")


def test_files_that_expand_are_refused(load):
    bomb = b"\x80\x04]" + b"".join(b"\x94(" + b"h%c" % min(i, 255) * 2 + b"e]" for i in range(40)) + b"."
    with pytest.raises(SnapshotError):
        load(bomb)
    nested = []
    for _ in range(60):
        nested = [nested, nested]
    with pytest.raises(SnapshotError):
        load({"segments": [], "device_traces": [], "x": nested})


def test_large_files_are_refused(tmp_path, monkeypatch):
    from metatensor.analysis.allocator import snapshot

    monkeypatch.setattr(snapshot, "MAX_BYTES", 10)
    path = tmp_path / "large.pickle"
    path.write_bytes(pickle.dumps(contents()))
    with pytest.raises(SnapshotError, match="are not read"):
        load_snapshot(path)
    with pytest.raises(FileNotFoundError):
        load_snapshot(tmp_path / "missing.pickle")
