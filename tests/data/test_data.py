"""Data loading: datasets, samplers, collating and the loader, compared with PyTorch's where nothing is random."""

import collections
import threading

import pytest

import metatensor as mt
from metatensor import data as ours

Point = collections.namedtuple("Point", "x y")


def both():
    yield mt, ours
    try:
        import torch
        import torch.utils.data
    except ImportError:
        return
    yield torch, torch.utils.data


def plain(value):
    """Return tensors as (dtype, values) and containers with their names."""
    if hasattr(value, "tolist"):
        return str(value.dtype).split(".")[-1], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value


def agree(make):
    results = [plain(make(t, d)) for t, d in both()]
    assert all(r == results[0] for r in results[1:]), results
    return results[0]


@pytest.mark.parametrize(
    "batch",
    [
        lambda t: [t.tensor([1.0, 2.0]), t.tensor([3.0, 4.0])],
        lambda t: [1, 2], lambda t: [1.5, 2.0], lambda t: [True, False], lambda t: ["a", "b"], lambda t: [b"a", b"b"],
        lambda t: [{"a": 1, "b": [1.0, 2]}, {"a": 2, "b": [3.0, 4]}],
        lambda t: [(1, t.zeros(2)), (2, t.ones(2))],
        lambda t: [Point(1, 2.0), Point(3, 4.0)],
        lambda t: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
        lambda t: [[1, 2, 3], [4, 5, 6]],
        lambda t: [range(2), range(2)],
    ],
)  # fmt: skip
def test_collate(batch):
    agree(lambda t, d: d.default_collate(batch(t)))
    agree(lambda t, d: d.default_convert(batch(t)))


def test_collate_numpy():
    np = pytest.importorskip("numpy")
    for batch in ([np.arange(3), np.arange(3)], [np.float32(1), np.float32(2)], [np.int64(1), np.int64(2)], [np.array(1.0), np.array(2.0)]):
        agree(lambda t, d, batch=batch: d.default_collate(batch))
        agree(lambda t, d, batch=batch: d.default_convert(batch))
    for _, d in both():
        with pytest.raises(TypeError):
            d.default_collate([np.array(["a"]), np.array(["b"])])


@pytest.mark.parametrize("batch, error", [([object(), object()], TypeError), ([[1, 2], [3]], RuntimeError), ([None], TypeError)])
def test_collate_refuses(batch, error):
    for _, d in both():
        with pytest.raises(error):
            d.default_collate(batch)


def squares(d, count=10):
    class Squares(d.Dataset):
        def __len__(self):
            return count

        def __getitem__(self, i):
            return {"i": i, "square": float(i * i)}

    return Squares()


def counting(d, count=10):
    class Counting(d.IterableDataset):
        def __iter__(self):
            worker = d.get_worker_info()
            yield from range(worker.id if worker else 0, count, worker.num_workers if worker else 1)

    return Counting()


OPTIONS = [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}, {"batch_sampler": [[1, 2], [5]]},
    {"sampler": [4, 2, 9], "batch_size": 2}, {"batch_size": 4, "collate_fn": list},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("workers", [0, 2])
def test_batches(options, workers):
    def load(t, d):
        loader = d.DataLoader(squares(d), num_workers=workers if t is mt else 0, **options)
        return [*loader, len(loader)]

    agree(load)


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}], ids=str)
def test_iterable(options):
    agree(lambda t, d: list(d.DataLoader(counting(d), **options)))


def test_iterable_by_workers():
    """The order is that of PyTorch with two worker processes."""
    batches = [b.tolist() for b in ours.DataLoader(counting(ours), batch_size=2, num_workers=3)]
    assert batches == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]


def test_shuffling_visits_everything_once_and_follows_its_generator():
    orders = []
    for _ in range(2):
        loader = ours.DataLoader(squares(ours, 50), batch_size=7, shuffle=True, generator=mt.Generator().manual_seed(3))
        orders.append([i for b in loader for i in b["i"].tolist()])
    assert orders[0] == orders[1] and sorted(orders[0]) == list(range(50)) and orders[0] != sorted(orders[0])


def test_persistent_workers_start_again():
    threads, inits = set(), []

    class Watching(ours.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            threads.add(threading.get_ident())
            return ours.get_worker_info().id, i

    loader = ours.DataLoader(Watching(), num_workers=2, persistent_workers=True, worker_init_fn=inits.append)
    first, second = ([[v.item() for v in b] for b in loader] for _ in range(2))
    assert first == second == [[0, 0], [1, 1], [0, 2], [1, 3], [0, 4], [1, 5]]
    assert len(threads) == 2 and sorted(inits) == [0, 1]
    iterator = iter(loader)
    next(iterator)
    assert iter(loader) is iterator
    assert [b[1].item() for b in iterator] == list(range(6))
    assert ours.get_worker_info() is None


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_the_dataset_come_through(workers):
    class Broken(ours.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            if i == 1:
                raise KeyError("broken sample")
            return i

    iterator = iter(ours.DataLoader(Broken(), num_workers=workers))
    assert next(iterator).item() == 0
    with pytest.raises(KeyError, match="broken sample"):
        next(iterator)
    assert next(iterator).item() == 2


def test_timeout():
    gate = threading.Event()

    class Slow(ours.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            gate.wait(5)
            return i

    iterator = iter(ours.DataLoader(Slow(), num_workers=1, timeout=0.05))
    with pytest.raises(RuntimeError, match="timeout"):
        next(iterator)
    gate.set()


def test_workers_know_the_default_device():
    class Making(ours.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return mt.empty(3)

    before = mt.get_default_device()
    mt.set_default_device("meta")
    try:
        assert all(b.is_meta for b in ours.DataLoader(Making(), num_workers=1))
    finally:
        mt.set_default_device(before)


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"persistent_workers": True},
        {"shuffle": True, "sampler": [1]}, {"batch_sampler": [[1]], "shuffle": True}, {"batch_size": None, "drop_last": True},
        {"batch_size": 0}, {"multiprocessing_context": "spawn"}, {"num_workers": 1, "multiprocessing_context": "no"},
    ],
    ids=str,
)  # fmt: skip
def test_loader_refuses(options):
    for _, d in both():
        with pytest.raises(ValueError):
            d.DataLoader(squares(d), **options)


def test_iterable_refuses_samplers_and_loaders_stay_as_made():
    for _, d in both():
        for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
            with pytest.raises(ValueError):
                d.DataLoader(counting(d), **options)
        loader = d.DataLoader(squares(d))
        with pytest.raises(ValueError):
            loader.batch_size = 3
        loader.collate_fn = list


def test_datasets():
    def make(t, d):
        x = t.arange(12).view(6, 2)
        rows = d.TensorDataset(x, x[:, 0])
        both_ = rows + d.Subset(rows, [5, 0])
        stacked = d.StackDataset(a=rows, b=squares(d, 6))
        chained = counting(d, 3) + counting(d, 2)
        return [
            rows[1], rows[1:3], len(rows), both_[7], both_[-1], len(both_), both_.cumulative_sizes, stacked[2],
            stacked.__getitems__([0, 1]), d.StackDataset(squares(d), squares(d))[3], len(stacked), list(chained),
            d.Subset(rows, [3, 4]).__getitems__([1, 0]), len(d.Subset(rows, [3])), d.Subset(squares(d), [4])[0],
        ]  # fmt: skip

    agree(make)


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda t, d: d.TensorDataset(t.zeros(2), t.zeros(3)), AssertionError),
        (lambda t, d: d.ConcatDataset([]), AssertionError),
        (lambda t, d: d.ConcatDataset([counting(d)]), AssertionError),
        (lambda t, d: list(d.ChainDataset([squares(d)])), AssertionError),
        (lambda t, d: (squares(d) + squares(d))[-21], ValueError),
        (lambda t, d: d.StackDataset(), ValueError),
        (lambda t, d: d.StackDataset(squares(d, 3), squares(d, 4)), ValueError),
        (lambda t, d: d.random_split(squares(d), [3, 3]), ValueError),
        (lambda t, d: d.Dataset()[0], NotImplementedError),
        (lambda t, d: d.RandomSampler([]), ValueError),
        (lambda t, d: d.RandomSampler([1], replacement=1), TypeError),
        (lambda t, d: d.WeightedRandomSampler([1.0], 0), ValueError),
        (lambda t, d: d.WeightedRandomSampler([[1.0]], 1), ValueError),
        (lambda t, d: d.BatchSampler([1], 0, False), ValueError),
        (lambda t, d: d.BatchSampler([1], 1, 0), ValueError),
        (lambda t, d: d.DistributedSampler([1], 2, 2), ValueError),
    ],
)
def test_refused(make, error):
    for t, d in both():
        with pytest.raises(error):
            make(t, d)


@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.5], [0.33, 0.33, 0.34], [10]])
def test_random_split(lengths):
    parts = ours.random_split(range(10), lengths, generator=mt.Generator().manual_seed(1))
    assert sorted(i for p in parts for i in p) == list(range(10))
    agree(lambda t, d: [len(p) for p in d.random_split(range(10), lengths)])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [10, 11, 2])
def test_distributed_sampler(size, drop_last):
    def shares(t, d):
        return [list(d.DistributedSampler(range(size), 4, r, shuffle=False, drop_last=drop_last)) for r in range(4)]

    agree(shares)
    samplers = [ours.DistributedSampler(range(size), 4, rank, drop_last=drop_last) for rank in range(4)]
    seen = [i for s in samplers for i in s]
    assert len(seen) == sum(len(s) for s in samplers)
    if not drop_last:
        assert set(seen) == set(range(size))
    if size > 4:
        order = list(samplers[0])
        samplers[0].set_epoch(5)
        assert list(samplers[0]) != order


def test_samplers():
    mt.manual_seed(0)
    assert sorted(ours.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    drawn = list(ours.WeightedRandomSampler([0.0, 1.0, 3.0], 200))
    assert set(drawn) == {1, 2} and drawn.count(2) > drawn.count(1)
    assert sorted(ours.WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False)) == [0, 1, 2]
    assert len(list(ours.RandomSampler(range(5), replacement=True, num_samples=40))) == 40
    assert len(list(ours.RandomSampler(range(5), num_samples=12))) == 12
    agree(lambda t, d: [*d.BatchSampler(d.SequentialSampler(range(7)), 3, False), len(d.BatchSampler(range(7), 3, True))])


def test_names_where_libraries_look():
    from metatensor.data._utils.collate import default_collate_fn_map
    from metatensor.data.dataloader import _BaseDataLoaderIter, _DatasetKind, default_collate
    from metatensor.data.dataset import Dataset
    from metatensor.data.distributed import DistributedSampler
    from metatensor.data.sampler import Sampler

    assert default_collate is ours.default_collate and Dataset is ours.Dataset and Sampler is ours.Sampler
    assert DistributedSampler is ours.DistributedSampler and mt.Tensor in default_collate_fn_map
    assert isinstance(iter(ours.DataLoader(squares(ours))), _BaseDataLoaderIter) and _DatasetKind.Map == 0
    with pytest.raises(AttributeError):
        ours.datapipes_of_dreams


class Waiting(ours.Dataset):
    """A dataset whose first sample is ready only when another batch has been received."""

    def __init__(self):
        self.received = threading.Event()

    def __len__(self):
        return 4

    def __getitem__(self, i):
        assert i or self.received.wait(20)
        return i


def test_workers_yield_what_is_ready_if_the_order_does_not_matter():
    dataset = Waiting()
    batches = iter(ours.DataLoader(dataset, batch_size=None, num_workers=2, in_order=False))
    assert next(batches) == 1
    dataset.received.set()
    assert sorted(batches) == [0, 2, 3]
    loader = ours.DataLoader(ours.TensorDataset(mt.arange(40, device="cpu")), batch_size=3, num_workers=3, in_order=False)
    for _ in range(2):
        assert sorted(x for (batch,) in loader for x in batch.tolist()) == list(range(40))


def test_batches_are_pinned_if_a_device_can_do_it(monkeypatch):
    pytest.importorskip("metatensor_cpu")
    import numpy as np

    from metatensor.devices import pinning

    source = ours.TensorDataset(mt.arange(4, device="cpu"))
    monkeypatch.setattr(pinning, "_memory", lambda n, device: np.zeros(n, np.uint8).view(pinning.PinnedBlock))
    for workers in (0, 1):
        batches = [batch for (batch,) in ours.DataLoader(source, batch_size=2, num_workers=workers, pin_memory=True)]
        assert [b.tolist() for b in batches] == [[0, 1], [2, 3]] and all(b.is_pinned() for b in batches)
        assert not any(b.is_pinned() for (b,) in ours.DataLoader(source, num_workers=workers))

    class Own:
        def pin_memory(self):
            return "pinned"

    one = mt.ones(1, device="cpu")
    found = ours._utils.pin_memory.pin_memory({"p": Point(one, 1), "l": [one, "text", Own()], "m": mt.ones(1, device="meta")})
    assert type(found["p"]) is Point and found["p"].x.is_pinned() and found["l"][0].is_pinned()
    assert found["l"][1:] == ["text", "pinned"] and found["m"].is_meta and not one.is_pinned()

    def none(nbytes, device):
        raise RuntimeError("no device")

    monkeypatch.setattr(pinning, "_memory", none)
    with pytest.warns(UserWarning, match="pin_memory=True has no effect") as caught:
        assert len(list(ours.DataLoader(source, pin_memory=True))) == 4
    assert [w.filename for w in caught] == [__file__]


def test_a_worker_init_fn_of_the_dataset_sets_up_the_workers_own_copy():
    class Numbers(ours.Dataset):
        worker = None

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.worker

        def begin(self, worker):
            self.worker = worker

    dataset = Numbers()
    loader = ours.DataLoader(dataset, batch_size=2, num_workers=2, worker_init_fn=dataset.begin)
    assert [batch.tolist() for batch in loader] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert dataset.worker is None
