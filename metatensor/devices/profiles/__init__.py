"""Device profiles: what an accelerator can hold and how fast it is, each figure with its source.

`device_profile` returns the profile of a device by name, `device_profiles` all names, `register` adds profiles of one's
own. Profiles are TOML files; those of this package are beside this module. ``docs/profiles.md`` describes the format.
"""

from metatensor.devices.profiles.costs import OperatorCost
from metatensor.devices.profiles.loading import PATH_VARIABLE, ProfileError, device_profile, device_profiles, load_profile, register
from metatensor.devices.profiles.profile import DeviceProfile, Figure, Link, Source

__all__ = ["PATH_VARIABLE", "DeviceProfile", "Figure", "Link", "OperatorCost", "ProfileError", "Source", "device_profile",
    "device_profiles",
           "load_profile", "register"]  # fmt: skip
