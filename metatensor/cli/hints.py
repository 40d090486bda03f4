"""Hints for errors that occur while a model is loaded."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys

__all__ = ["hint_for", "how_to_install"]

ON_TORCH = {
    "timm": ("timm torchvision", "pillow PyYAML huggingface_hub safetensors"),
    "torchvision": ("torchvision", "numpy pillow"),
    "torchaudio": ("torchaudio", ""),
    "accelerate": ("accelerate", "numpy packaging psutil PyYAML huggingface_hub safetensors"),
    "peft": ("peft accelerate", "numpy packaging psutil PyYAML transformers tqdm huggingface_hub safetensors"),
    "open_clip": ("open_clip_torch timm torchvision", "pillow regex ftfy tqdm huggingface_hub safetensors"),
    "lightning": ("lightning lightning-utilities torchmetrics", "numpy PyYAML fsspec packaging tqdm typing-extensions"),
}
"""Modules that require PyTorch: packages to install without dependencies, and other packages that they import."""
PACKAGES = {"PIL": "pillow", "yaml": "PyYAML", "cv2": "opencv-python-headless", "sklearn": "scikit-learn", "skimage":
"scikit-image"}
"""Packages by module name, where the two names differ."""


def how_to_install(module: str) -> str:
    """Return how to install the package of a module in an environment where metatensor replaces PyTorch."""
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if module in ON_TORCH:
        alone, others = ON_TORCH[module]
        second = f" && {pip} {others}" if others else ""
        return f"{module} is not installed; to install it without PyTorch: {pip} --no-deps {alone}{second}"
    package = PACKAGES.get(module, module)
    return f"{module} is not installed: {pip} {package} (with --no-deps if it requires PyTorch, which is not needed)"


def hint_for(error: BaseException, target: str, torch: bool) -> str | None:
    """Return a hint for an error that loading ``target`` raised, or None. ``torch`` is the value of ``--torch``."""
    place, _, name = target.rpartition(":")
    if isinstance(error, SystemExit):
        return "the code ended the process; keep calls such as sys.exit(main()) below `if __name__ == \"__main__\":`"
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.partition(".")[0]
        if module == "torch":
            return None if torch else "the code is written for PyTorch; run it with --torch"
        return how_to_install(module) if torch and not _is_there(module) else None
    if isinstance(error, ImportError) and "relative import" in str(error) and place.endswith(".py"):
        root, module = _in_package(place)
        where = "" if os.path.samefile(root, os.getcwd()) else f" in {root}"
        return f"a file with relative imports is named as a part of its package: {module}:{name}{where}"
    return None


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _in_package(path: str) -> tuple[str, str]:
    """Return the folder that contains the package of a file, and the qualified name of the file as a module."""
    folder, file = os.path.split(os.path.abspath(path))
    parts = [file.removesuffix(".py")]
    while True:
        folder, part = os.path.split(folder)
        parts.append(part)
        if not part or not os.path.isfile(os.path.join(folder, part, "..", "__init__.py")):
            break
    return folder, ".".join(reversed(parts))
