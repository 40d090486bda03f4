"""Version information. There is no build of PyTorch, so the versions of CUDA and others are None."""

from metatensor._version import __version__ as metatensor_version
from metatensor.torch_api.torch.torch_version import TORCH_VERSION

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "metatensor_version", "rocm", "xpu"]

__version__ = TORCH_VERSION
debug = False
cuda = None
cudnn = None
hip = None
rocm = None
xpu = None
git_version = "unknown"
