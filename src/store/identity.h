/*
 * The schema, options and source that a file is begun with, as hashes in its header. A resume with others would make a
 * mixed file.
 */
#ifndef LEAT_STORE_IDENTITY_H
#define LEAT_STORE_IDENTITY_H

#include "store/layout.h"

/* `metadata` is a JSON object. All but `shard`, which is 0. */
struct leat_store_identity leat_identity_of(const struct leat_writer_options *options,
                                            const struct leat_store_layout *layout, const char *metadata);

/* Writes for a person the differences of the file that was begun (`then`) from the requested one (`now`): "the source
 * and the options (check: on then, off now)". Options are found by searching for the hash, in a second or two at most.
 * If that fails, the text says so. */
void leat_identity_differences(const struct leat_store_identity *then, const struct leat_store_layout *then_layout,
                               const struct leat_store_identity *now, const struct leat_store_layout *now_layout,
                               const struct leat_writer_options *options, const char *metadata, char *out, size_t room);

#endif
