"""Run the programs of `rank_programs` on this rank: mpiexec -n 4 python -m distributed.run_programs cpu, in the folder ``tests``."""

import sys

from distributed.rank_programs import PROGRAMS
from metatensor import distributed as dist

dist.init_process_group()
for program in PROGRAMS:
    program(sys.argv[1])
    dist.barrier()
    if dist.get_rank() == 0:
        print(program.__name__, "passed", dist.get_backend(), dist.get_world_size(), flush=True)
dist.destroy_process_group()
