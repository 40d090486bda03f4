"""Conversions between distributed checkpoints and PyTorch's files, by one process."""

from __future__ import annotations

import os
from typing import Any

import metatensor as mt
from metatensor.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from metatensor.distributed.checkpoint.state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str], no_dist: bool = True) -> None:
    """Save the nested state dict in a distributed checkpoint as one file in PyTorch's format. All of it is held in memory.

    Parameters
    ----------
    dcp_checkpoint_dir : str or path
        The folder of the checkpoint.
    torch_save_path : str or path
        The file to write.
    no_dist : bool
        Must be True: this process does it alone.
    """
    _alone("dcp_to_torch_save", no_dist)
    mt.save(_load_state_dict_from_keys(checkpoint_id=dcp_checkpoint_dir), torch_save_path, format="torch")


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str], no_dist: bool = True) -> None:
    """Save the state dict in a file of PyTorch's, or in a checkpoint of another format, as a distributed checkpoint.

    All of it is held in memory. `resharding.reshard` holds one block at a time, and divides the checkpoint among ranks.

    Parameters
    ----------
    torch_save_path : str or path
        The file to read.
    dcp_checkpoint_dir : str or path
        The folder to write.
    no_dist : bool
        Must be True: this process does it alone.
    """
    _alone("torch_save_to_dcp", no_dist)
    found: Any = mt.load(torch_save_path, "cpu")
    if not isinstance(found, dict):
        raise TypeError(f"torch.distributed.checkpoint.format_utils.torch_save_to_dcp: expected a state dict in the file, got "
                        f"{type(found).__name__}")
    save(found, checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def _alone(name: str, no_dist: bool) -> None:
    if not no_dist:
        raise NotImplementedError(f"torch.distributed.checkpoint.format_utils.{name}: only one process can do it (no_dist=True)")
