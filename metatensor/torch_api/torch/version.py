"""What this build of torch is: none of its own, so the accelerators' versions are None."""

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
