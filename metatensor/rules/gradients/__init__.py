"""Longer rules for gradients, by family. They are imported when they are first used."""
