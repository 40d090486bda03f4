"""NCCL as a communicator of `metatensor.distributed`. Without CuPy it still imports, and reports what is missing."""

from metatensor.hookspecs import hookimpl


@hookimpl
def metatensor_communicators(register):
    from metatensor_nccl.communicator import NcclCommunicator

    register(NcclCommunicator())
