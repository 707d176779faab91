"""`leat.Loader`: orders, batches, ragged outputs, data-parallel ranks."""
