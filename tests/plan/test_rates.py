"""Energy by published power, and price by the hour."""

import dataclasses

import pytest

import metatensor as mt
from metatensor.devices.profiles import ProfileError, device_profile
from metatensor.devices.profiles.loading import profile_of_text
from metatensor.plan.rates import Rates, parse_price, rates_of, text_of_energy

CARD = """
title = "Card"
vendor = "ACME"
kind = "gpu"
[power]
maximum = {{ value = "{power}", source = "sheet" }}
[price]
hour = {{ value = "2.5 /h", source = "sheet" }}
[sources.sheet]
title = "Sheet"
"""


def test_profiles_have_power_and_price():
    card = profile_of_text(CARD.format(power="0.3 kW"), "card.toml")
    assert card.power == 300 and card.price == 2.5 and card.to_dict()["power"] == 300
    assert device_profile("h100").power == 700 and device_profile("h100").price is None
    assert device_profile("m1").power is None
    with pytest.raises(ProfileError, match="no unit of watts"):
        profile_of_text(CARD.format(power="300 J"), "card.toml")


def test_rates():
    rates = Rates(500.0, 3.6)
    assert rates.energy(2.0, 4) == 4000 and rates.cost(2.0, 4) == pytest.approx(0.008)
    figures = rates.figures(2.0, 4, {"token": 100, "sample": None})
    assert figures["energy_per_token_j"] == 40 and figures["price_per_token"] == pytest.approx(8e-5) and figures["price_per_sample"] is None
    assert rates.text(2.0, 4, 100) == "at most 4 kJ (40 J per token), price 0.008 (80 per million tokens)"


def test_unknown_rates_stay_unknown():
    assert set(Rates().figures(2.0, 4, {"token": 100}).values()) == {None} and Rates().text(2.0, 4, 100) == ""
    assert Rates(500.0).energy(None, 4) is None
    assert rates_of(device_profile("m1")).power is None and rates_of(None, 2.0) == Rates(None, 2.0)
    assert rates_of(dataclasses.replace(device_profile("t4"), price=1.0)).price == 1.0


@pytest.mark.parametrize(("text", "value"), [("2.50/h", 2.5), ("2", 2.0), ("$3.9/hour", 3.9), (" .5 / h", 0.5)])
def test_prices(text, value):
    assert parse_price(text) == value


@pytest.mark.parametrize("text", ["0", "-2", "two", "", "2/day", "nan", "1e400"])
def test_prices_that_are_none(text):
    with pytest.raises(ValueError, match=r"is not a positive price of a device for an hour, such as 2\.50/h"):
        parse_price(text)


@pytest.mark.parametrize("price", [0, -1.0, float("nan"), float("inf"), "2"])
def test_wrong_prices(price):
    with pytest.raises(ValueError, match="price must be a positive number"):
        rates_of(None, price)


def test_units():
    assert [text_of_energy(e) for e in (7.2e6, 2000.0, 3.0, 0.002)] == ["2 kWh", "2 kJ", "3 J", "2 mJ"]


@pytest.mark.slow
def test_plans_have_energy_and_price():
    class Blocks(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = mt.nn.Embedding(64, 32)
            self.layers = mt.nn.ModuleList(mt.nn.Linear(32, 32) for _ in range(2))

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return x

    with mt.device("meta"):
        model, tokens = Blocks(), mt.empty(1, 16, dtype=mt.int64)
    plan = mt.plan.search(model, tokens, devices="2xH100", global_batch=8, price=3.6)
    best = plan.best
    assert best.tokens == 128 and best.tokens_per_second == pytest.approx(128 / best.seconds)
    assert best.energy == pytest.approx(1400 * best.seconds) and best.price == pytest.approx(2e-3 * best.seconds)
    row = best.to_dict()
    assert row["energy_per_token_j"] == pytest.approx(best.energy / 128) and row["price_per_sample"] == pytest.approx(best.price / 8)
    assert "price" in str(plan) and "a step takes at most" in plan.explain(0, len(plan.layouts) - 1)
