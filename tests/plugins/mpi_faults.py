"""A program that fails in several ways on rank 1, for `test_mpi.py`: mpiexec -n 3 python mpi_faults.py KIND."""

import os
import signal
import sys
import time
from datetime import timedelta

import metatensor as mt
from metatensor import distributed as dist

dist.init_process_group("mpi", timeout=timedelta(seconds=2))
x = mt.ones(4)
dist.all_reduce(x)
if dist.get_rank() == 1:
    kind = sys.argv[1]
    if kind == "raises":
        raise KeyError("no such layer")
    if kind == "hangs":
        time.sleep(60)
    if kind == "finishes":
        sys.exit(0)
    if kind == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "disagrees":
        dist.broadcast(x, 1)
    if kind == "size":
        x = mt.ones(5)
dist.all_reduce(x)
dist.barrier()
print("not reached")
