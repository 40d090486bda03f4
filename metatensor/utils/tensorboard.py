"""TensorBoard logs, written with the package `tensorboardX`, which does not need PyTorch.

Importing this module raises ImportError if tensorboardX is not installed.
"""

try:
    from tensorboardX import FileWriter, SummaryWriter
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard: metatensor writes logs for TensorBoard with the package tensorboardX; pip install tensorboardX"
    ) from error

__all__ = ["FileWriter", "SummaryWriter"]
