"""The names of `models_of_torch.MODELS`, and comparisons of values with PyTorch's."""

import metatensor as mt

ALL, SCRIPT, EXPORT = ("script", "trace", "export"), ("script",), ("export",)
NAMES = {
    "Perceptron": ALL,
    "Convolutions": ALL,
    "TrainedNorms": ("script", "trace"),
    "Lstm": ALL,
    "Recurrent": ALL,
    "Attention": ALL,
    "Encoder": ALL,
    "LanguageModel": ALL,
    "Branches": SCRIPT,
    "Loops": SCRIPT,
    "Lists": SCRIPT,
    "DictOutput": ALL,
    "Named": SCRIPT,
    "Methods": SCRIPT,
    "InPlace": ALL,
    "Counter": ("script", "trace"),
    "Bags": ALL,
    "Resize": ALL,
    "IndexPut": ALL,
    "Strings": SCRIPT,
    "Mathematics": SCRIPT,
    "Checks": SCRIPT,
    "WithoutGradients": SCRIPT,
    "Interfaces": SCRIPT,
    "Enumerations": SCRIPT,
    "Objects": SCRIPT,
    "Functions": ("script", "trace"),
    "Shapes": ALL,
    "Reductions": ALL,
    "Losses": ALL,
    "Activations": ALL,
    "Pools": ("script", "export"),
    "Conversions": ALL,
    "Algebra": ALL,
    "Packed": SCRIPT,
    "Conditions": EXPORT,
    "Sizes": EXPORT,
    "TracedScript": ("trace",),
    "Unet": ALL,
    "Mixture": ALL,
}


def converted(value):
    """Return a value of PyTorch with metatensor's tensors."""
    if hasattr(value, "detach"):
        return mt.from_numpy(value.detach().numpy().copy())
    return type(value)(map(converted, value)) if isinstance(value, (list, tuple)) else value


def same(found, expected, where="result"):
    """Check that a result is that of PyTorch: structure, shapes, dtypes, and values but for rounding."""
    if hasattr(expected, "detach"):
        wanted = converted(expected)
        assert isinstance(found, mt.Tensor), where
        assert (tuple(found.shape), found.dtype) == (tuple(wanted.shape), wanted.dtype), where
        assert mt.allclose(found.detach().double(), wanted.double(), rtol=1e-4, atol=1e-5, equal_nan=True), where
    elif isinstance(expected, (list, tuple)):
        assert isinstance(found, (list, tuple)), where
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected)):
            same(one, other, f"{where}[{i}]")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            same(found[key], expected[key], f"{where}[{key!r}]")
    else:
        assert type(found) is type(expected) and found == expected, where
