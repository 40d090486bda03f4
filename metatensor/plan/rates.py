"""The energy that devices use, from published power, and their price, from a price for an hour."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from metatensor.devices.profiles import DeviceProfile

__all__ = ["Rates", "parse_price", "rates_of", "text_of_energy"]

_PRICE = re.compile(r"[$€£]?\s*(\d+(?:\.\d*)?|\.\d+)\s*[$€£]?\s*(?:/\s*(?:h|hour))?", re.I)


@dataclass(frozen=True)
class Rates:
    """Power and price of a device. Unknown ones are None, and so are the figures made of them."""

    power: float | None = None
    """Watts that a device takes at most."""
    price: float | None = None
    """Price of a device for an hour, in any currency."""

    def energy(self, seconds: float | None, devices: int) -> float | None:
        """Return the most joules that devices can use in a time."""
        return None if self.power is None or seconds is None else self.power * devices * seconds

    def cost(self, seconds: float | None, devices: int) -> float | None:
        """Return the price of devices for a time, in seconds."""
        return None if self.price is None or seconds is None else self.price * devices * seconds / 3600

    def figures(self, seconds: float | None, devices: int, counts: dict[str, float | None]) -> dict[str, float | None]:
        """Return the energy and the price of a time, in total and for one of each of ``counts``, by their names in JSON."""
        energy, cost = self.energy(seconds, devices), self.cost(seconds, devices)
        found = {"energy_j": energy, "price": cost}
        for name, count in counts.items():
            found[f"energy_per_{name}_j"] = energy / count if energy is not None and count else None
            found[f"price_per_{name}"] = cost / count if cost is not None and count else None
        return found

    def text(self, seconds: float | None, devices: int, tokens: float | None) -> str:
        """Return what is known in words, such as "3.1 kJ (0.02 J per token), 0.004 (0.5 per million tokens)"."""
        parts = []
        energy, cost = self.energy(seconds, devices), self.cost(seconds, devices)
        if energy is not None:
            parts.append(f"at most {text_of_energy(energy)}" + (f" ({text_of_energy(energy / tokens)} per token)" if tokens else ""))
        if cost is not None:
            parts.append(f"price {cost:.4g}" + (f" ({cost / tokens * 1e6:.4g} per million tokens)" if tokens else ""))
        return ", ".join(parts)


def rates_of(profile: DeviceProfile | None, price: float | None = None) -> Rates:
    """Return the rates of a profile, with a price that replaces the profile's.

    Raises
    ------
    ValueError
        If the price is not a positive number.
    """
    if price is not None and not (isinstance(price, (int, float)) and math.isfinite(price) and price > 0):
        raise ValueError(f"plan: price must be a positive number, the price of a device for an hour, got {price!r}")
    if profile is None:
        return Rates(None, price)
    return Rates(profile.power, profile.price if price is None else price)


def parse_price(text: Any) -> float:
    """Return the price of an hour in a text such as "2.50/h", "2.5" or "$2.50/h".

    Raises
    ------
    ValueError
        If the text is not a price, or the price is not positive.
    """
    match = _PRICE.fullmatch(str(text).strip())
    value = float(match[1]) if match else 0.0
    if not value or not math.isfinite(value):
        raise ValueError(f"{text!r} is not a positive price of a device for an hour, such as 2.50/h")
    return value


def text_of_energy(joules: float) -> str:
    """Return an energy with a unit that suits it: from one kilowatt-hour on in kilowatt-hours, else in joules."""
    if joules >= 3.6e6:
        return f"{joules / 3.6e6:.4g} kWh"
    for factor, unit in ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")):
        if joules >= factor:
            return f"{joules / factor:.4g} {unit}"
    return f"{joules:.3g} J"
