"""Estimate many models at once, on any executor: processes, Dask, Ray or MPI.

    python examples/sweep.py                                  # one process for each processor
    python examples/sweep.py --executor dask                  # a Dask cluster on this machine
    python examples/sweep.py --executor dask:tcp://host:8786  # one that runs already
    python examples/sweep.py --executor ray
    mpiexec -n 4 python -m mpi4py.futures examples/sweep.py --executor mpi

Each line is one decoder: its parameters and the peak memory of a training step. The models are on meta, so the workers need no memory
for them. The last line is a deferred model whose parameters were computed by the workers.
"""

import argparse
import itertools

import metatensor as mt
from metatensor import nn
from metatensor.analysis import estimate
from metatensor.utils.executors import open_executor

WIDTHS, DEPTHS, LENGTHS = (512, 1024, 2048), (6, 12), (512, 2048)
VOCABULARY = 32_000


def decoder(width, depth):
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(VOCABULARY, width), nn.TransformerEncoder(layer, depth), nn.Linear(width, VOCABULARY))


def candidate(width, depth, length):
    """Return the parameters and the peak bytes of a training step of one model, batch 4. Workers run this."""
    with mt.device("meta"):
        report = estimate(decoder(width, depth), mt.zeros(4, length, dtype=mt.int64), training=True)
    return report.trainable_parameters, report.total_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executor", default="process")
    with open_executor(parser.parse_args().executor) as executor:
        settings = list(itertools.product(WIDTHS, DEPTHS, LENGTHS))
        futures = [executor.submit(candidate, *one) for one in settings]
        for (width, depth, length), future in zip(settings, futures, strict=True):
            parameters, peak = future.result()
            print(f"width {width:5}  depth {depth:3}  length {length:5}  {parameters / 1e6:7.1f} M  {peak / 2**30:6.2f} GiB")
        mt.manual_seed(0)
        with mt.deferred_init(), mt.device("cpu"):
            model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
        mt.materialize(model, executor=executor)
        print(f"mean of the materialized weights {mt.cat([p.flatten() for p in model.parameters()]).mean().item():.6f}")


if __name__ == "__main__":
    main()
