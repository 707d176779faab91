"""`leat.DataLoader`: the orders of its batches, and pinned memory. Nothing here is imported before it is used, as
PyTorch is.
"""
