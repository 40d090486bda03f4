"""Recorded results of PyTorch's operators, as metadata, and a program that replays the calls."""
