/*
 * What writers of chunked arrays (HDF5, Zarr) do to the bytes of a chunk, undone: a pipeline of filters, each of which
 * was given the bytes that the one before it made. Reading goes from the last one to the first.
 */
#ifndef LEAT_IO_FILTERS_H
#define LEAT_IO_FILTERS_H

#include "leat/stored.h"

/* Decodes `n` bytes of a chunk into exactly `room` bytes. Filters whose bit is set in `mask` were left out when it was
 * written. Any thread. DECODE: it is damaged, *what says how; or a library is missing, and it says which. NOMEM. */
int leat_filters_undo(const struct leat_stored_filter *filters, size_t n_filters, uint32_t mask, const uint8_t *bytes,
                      size_t n, uint8_t *to, size_t room, const char **what);
/* Whether leat undoes such a filter, of this argument. */
bool leat_filters_know(const struct leat_stored_filter *filter);

#endif
