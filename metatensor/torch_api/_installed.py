"""Importing this module installs metatensor as torch: what the server of `multiprocessing`'s "forkserver" method imports."""

from metatensor.torch_api import install

install()
