"""The old names of two functions of `torch.hub`."""

from metatensor.torch_api.torch.hub import _get_torch_home, load_state_dict_from_url

__all__ = ["load_url"]

load_url = load_state_dict_from_url
_ = _get_torch_home
