"""The allocator's requests of a memory log, and the reserved memory of a profiled run."""

import metatensor as mt
from metatensor._core.memory_events import MemoryEvent
from metatensor.analysis import allocator

MIB = 2**20


def test_births_and_deaths_are_allocations_and_frees():
    with mt.analysis.MemoryLog() as log:
        a = mt.empty(1000, device="meta")
        b = a + a
        del a, b
    made = list(allocator.requests(log.events()))
    assert made == [((1, 0), 4000), ((2, 0), 4000), ((1, 0), None), ((2, 0), None)]


def test_a_resize_allocates_before_it_frees():
    events = [MemoryEvent("birth", 7, 100, 0, 0), MemoryEvent("resize", 7, 50, 0, 0), MemoryEvent("resize", 7, -120, 0, 0),
              MemoryEvent("death", 7, -30, 0, 0)]  # fmt: skip
    made = list(allocator.requests(events))
    assert made == [((1, 0), 100), ((1, 1), 150), ((1, 0), None), ((1, 2), 30), ((1, 1), None), ((1, 2), None)]
    assert allocator.replay(made).peak_requested == 250


def test_a_real_resize_is_replayed():
    with mt.analysis.MemoryLog() as log:
        a = mt.empty(1000, device="meta")
        a.untyped_storage().resize_(8000)
        del a
    report = allocator.replay(allocator.requests(log.events()))
    assert (report.peak_requested, report.at_end.requested) == (12000, 0)


def test_resident_memory_comes_first():
    made = list(allocator.requests([MemoryEvent("birth", 3, 5, 0, 0)], [10, 20]))
    assert made == [(("resident", 0), 10), (("resident", 1), 20), ((1, 0), 5)]


def test_reserved_memory_of_a_training_step():
    model = mt.nn.Sequential(*(mt.nn.Linear(1024, 1024, device="meta") for _ in range(4)))
    optimizer = mt.optim.AdamW(model.parameters())

    def step():
        model(mt.empty(512, 1024, device="meta")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    run = mt.analysis.profile(step)
    report = run.reserved()
    assert report.peak_requested == run.peak
    assert report.at_end.requested == sum(run.resident.values())
    # 4 weights with two moments of 4 MiB each: five blocks fit in a segment of 20 MiB
    assert sum(run.resident.values()) > 12 * 4 * MIB
    assert report.peak_reserved >= report.peak_allocated >= report.peak_requested
    assert report.peak_reserved % (2 * MIB) == 0


def test_reserved_memory_of_whole_segments():
    made = []
    run = mt.analysis.profile(lambda: made.extend(mt.empty(3 * MIB, device="meta") for _ in range(3)))  # 12 MiB each
    assert run.reserved().peak_reserved == 36 * MIB == run.peak
    assert run.reserved("expandable_segments:True").peak_reserved == 40 * MIB
    assert run.reserved(capacity=30 * MIB).out_of_memory.nbytes == 12 * MIB


def test_what_existed_before_is_replayed_by_storage():
    x = [mt.empty(100, device="meta") for _ in range(3)]
    run = mt.analysis.profile(lambda *xs: sum(xs), *x)
    report = run.reserved()
    assert run.resident == {"input": 1200}
    assert report.at_end.rounding == 4 * (512 - 400)  # three inputs and the sum
