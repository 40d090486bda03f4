"""A stand-in for ``cupy.cuda.nccl`` whose ranks are threads of one process. Addresses are those of host memory."""

import ctypes
import itertools
import queue
import threading
from functools import reduce

import numpy as np

TYPES = {0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8"}
OPS = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum, 4: np.add}

available = True
_numbers = itertools.count(1)
_worlds, _lock = {}, threading.Lock()
_grouped = threading.local()


def get_unique_id():
    return (next(_numbers), *[0] * 127)


def groupStart():
    _grouped.depth = getattr(_grouped, "depth", 0) + 1


def groupEnd():
    _grouped.depth -= 1
    if not _grouped.depth:
        calls, _grouped.calls = getattr(_grouped, "calls", []), []
        for call in sorted(calls, key=lambda call: call[0]):  # sends first: they do not wait
            call[1]()


def _later(order, call):
    if getattr(_grouped, "depth", 0):
        _grouped.calls = [*getattr(_grouped, "calls", []), (order, call)]
    else:
        call()


def memory(address, count, kind="u1"):
    """Return memory as an array. The numbers of bfloat16 have only the upper half of float32."""
    size = count * np.dtype(kind).itemsize
    return np.frombuffer((ctypes.c_char * max(size, 1)).from_address(address), kind, count)


class _World:
    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=20)
        self.given = [None] * size
        self.messages = {(a, b): queue.Queue() for a in range(size) for b in range(size)}


class NcclCommunicator:
    def __init__(self, ndev, commId, rank):
        assert len(commId) == 128 and 0 <= rank < ndev
        with _lock:
            self.world = _worlds.setdefault(commId, _World(ndev))
        self.ndev, self.rank = ndev, rank
        self.world.barrier.wait()

    def _share(self, array):
        """Return copies of what all ranks give."""
        self.world.given[self.rank] = array.copy()
        self.world.barrier.wait()
        given = list(self.world.given)
        self.world.barrier.wait()
        return given

    def _reduced(self, address, count, datatype, op):
        if datatype == 9:
            wide = [(part.astype("u4") << 16).view("f4") for part in self._share(memory(address, count, "u2"))]
        else:
            wide = self._share(memory(address, count, TYPES[datatype]))
        total = reduce(OPS[op], wide)
        if op == 4:
            total = (total / self.ndev).astype(total.dtype)
        if datatype == 9:
            bits = total.view("u4")
            total = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
        return total

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        total = self._reduced(sendbuf, count, datatype, op)
        memory(recvbuf, count, total.dtype)[...] = total

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        total = self._reduced(sendbuf, count, datatype, op)
        if self.rank == root:
            memory(recvbuf, count, total.dtype)[...] = total

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        total = self._reduced(sendbuf, recvcount * self.ndev, datatype, op)
        memory(recvbuf, recvcount, total.dtype)[...] = total[self.rank * recvcount : (self.rank + 1) * recvcount]

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        memory(recvbuff, count, TYPES[datatype])[...] = self._share(memory(sendbuff, count, TYPES[datatype]))[root]

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        memory(recvbuf, count * self.ndev, TYPES[datatype])[...] = np.concatenate(self._share(memory(sendbuf, count, TYPES[datatype])))

    def send(self, sendbuf, count, datatype, peer, stream):
        _later(0, lambda: self.world.messages[self.rank, peer].put(memory(sendbuf, count, TYPES[datatype]).copy()))

    def recv(self, recvbuf, count, datatype, peer, stream):
        def receive():
            memory(recvbuf, count, TYPES[datatype])[...] = self.world.messages[peer, self.rank].get(timeout=20)

        _later(1, receive)

    def destroy(self):
        pass
