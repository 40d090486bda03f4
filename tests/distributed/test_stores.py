"""Key-value stores, and futures of works."""

import os
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from metatensor import distributed as dist
from metatensor.distributed.work import PendingWork, Work


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "tcp":
        made = dist.TCPStore("localhost", 0, is_master=True)
        yield made
        made.close()
    elif request.param == "file":
        yield dist.FileStore(str(tmp_path / "store"), 2)
    else:
        yield dist.HashStore() if request.param == "hash" else dist.PrefixStore("a", dist.HashStore())


def test_stores(store):
    store.set("key", "value")
    store.set("bytes", bytes(range(256)))
    assert store.get("key") == b"value" and store.get("bytes") == bytes(range(256)) and store.num_keys() == 2
    assert [store.add("count", 2), store.add("count", -5)] == [2, -3] and store.get("count") == b"-3"
    assert store.check(["key", "count"]) and not store.check(["key", "other"])
    assert store.compare_set("key", "wrong", "new") == b"value" and store.compare_set("key", "value", "new") == b"new"
    assert store.compare_set("fresh", "", "first") == b"first" and store.compare_set("none", "expected", "x") == b"expected"
    store.append("key", "er")
    assert store.multi_get(["key", "fresh"]) == [b"newer", b"first"]
    assert store.delete_key("key") and not store.delete_key("key")
    with pytest.raises(dist.DistStoreError, match=r"nobody stored \['key'\] within 0.05 s"):
        store.wait(["count", "key"], timedelta(seconds=0.05))
    threading.Timer(0.05, store.set, ["late", "x"]).start()
    assert store.get("late") == b"x"


@pytest.mark.slow
def test_a_file_is_shared_between_processes(tmp_path):
    path = str(tmp_path / "store")
    code = f"from metatensor.distributed import FileStore; s = FileStore({path!r}); [s.add('n', 1) for _ in range(20)]"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    assert dist.FileStore(path).get("n") == b"40"


def test_tcp_errors():
    with pytest.raises(dist.DistNetworkError, match="cannot be reached within 0.1 s"):
        dist.TCPStore("localhost", 1, timeout=timedelta(seconds=0.1))
    server = dist.TCPStore("localhost", 0, is_master=True)
    try:
        other = dist.TCPStore("localhost", server.port)
        other.set("a", "b")
        assert server.get("a") == b"b"
        with pytest.raises(dist.DistNetworkError, match="cannot be used"):
            dist.TCPStore("localhost", server.port, is_master=True)
    finally:
        server.close()


def test_rendezvous(tmp_path, monkeypatch):
    found, rank, size = next(dist.rendezvous(f"file://{tmp_path}/store?rank=1&world_size=3"))
    assert (type(found), rank, size) == (dist.FileStore, 1, 3) and os.path.exists(tmp_path / "store")
    with pytest.raises(ValueError, match="scheme"):
        next(dist.rendezvous("ftp://host?rank=0&world_size=1"))
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ValueError, match="MASTER_ADDR"):
        next(dist.rendezvous("env://", rank=0, world_size=1))


class Later(Work):
    """A work that completes when it is asked for the second time."""

    def __init__(self, error=None):
        super().__init__("result")
        self.asked, self.error = 0, error

    def is_completed(self):
        self.asked += 1
        return self.asked > 1

    def wait(self, timeout=None):
        if self.error:
            raise self.error
        return True


def test_pending_works_and_futures():
    done = []
    work = PendingWork([Later(), Later()], lambda: done.append(1), "all")
    assert not work.is_completed() and not work.is_completed() and not done
    assert work.is_completed() and done == [1] and work.is_success() and work.result() == "all"
    assert work.wait() and done == [1]
    future = PendingWork([Later()], None, 5).get_future()
    doubled = future.then(lambda f: f.value() * 2)
    assert not doubled.done() or doubled.value() == 10
    assert doubled.wait() == 10 and future.done()
    failed = PendingWork([Later(RuntimeError("broken"))], lambda: done.append(2))
    with pytest.raises(RuntimeError, match="broken"):
        failed.wait()
    assert isinstance(failed.exception(), RuntimeError) and not failed.is_success() and done == [1]
    with pytest.raises(RuntimeError, match="broken"):
        PendingWork([Later(RuntimeError("broken"))]).get_future().wait()
