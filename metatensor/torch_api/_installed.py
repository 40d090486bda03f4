"""Installs metatensor as torch on import, in the server of the "forkserver" method of `multiprocessing`."""

from metatensor.torch_api import install

install()
