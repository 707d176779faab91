"""Worker processes: the pool, the loop inside a worker, messages, batches in flight, the number of workers."""
