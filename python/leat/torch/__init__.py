"""`leat.DataLoader`, the orders of its batches, pinned memory. Imported at first use, because it imports PyTorch."""
