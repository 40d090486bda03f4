"""MPI as a communicator of `metatensor.distributed`. MPI is initialized when a process group is created, not on import."""

from metatensor.hookspecs import hookimpl


@hookimpl
def metatensor_communicators(register):
    from metatensor_mpi.communicator import MpiCommunicator

    register(MpiCommunicator())
