"""Predictions for published training runs, from runs of one rank's share of the layers on meta."""
