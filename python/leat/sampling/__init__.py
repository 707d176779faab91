"""Samplers of PyTorch's that loaders read, and the generators that they draw from."""
