"""Worker processes: the pool seen from outside, what runs in one, what goes between, batches in flight, how many there
should be.
"""
