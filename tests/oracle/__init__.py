"""Recorded results of PyTorch's operators (metadata only), and a program that replays the calls."""
