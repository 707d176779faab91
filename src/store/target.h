/*
 * The destination of a writer's groups: one file, or shards and a manifest; new or resumed. One thread at a time.
 *
 *     one file:   PATH.partial -> PATH
 *     shards:     stem.00000.leat.partial ... -> stem.00000.leat ..., then PATH.partial (the manifest) -> PATH
 *
 * PATH.partial carries the lock in both cases.
 */
#ifndef LEAT_STORE_TARGET_H
#define LEAT_STORE_TARGET_H

#include "store/check.h"
#include "store/manifest.h"
#include "store/part.h"

struct leat_target {
    const struct leat_store_layout *layout;
    struct leat_store_identity identity;
    const struct leat_writer_options *options;
    const char *metadata;
    uint8_t *header;
    uint64_t header_bytes;
    struct leat_part main;         /* PATH */
    struct leat_part shard;        /* the one being written */
    struct leat_manifest manifest; /* of the finished ones */
    size_t manifest_room;
    bool sharded, published;
    bool converts;                                    /* the fingerprint will be that of `conversion` */
    uint64_t converted_count;                         /* samples of its source */
    struct leat_store_conversion conversion;          /* without `values` */
    uint64_t samples, inputs, broken, skipped, bytes; /* of all files */
    /* Called for each note of a group that a resume found. */
    int (*on_note)(void *user, const struct leat_store_note *note, struct leat_error *error);
    void *user;
};

/* `layout`, `options` and `metadata` must live as long as the target. Fill in identity, on_note and user before.
 * EXISTS, BUSY, CHANGED, IO, NOMEM. */
int leat_target_open(struct leat_target *target, const char *path, const struct leat_store_layout *layout,
                     const struct leat_writer_options *options, const char *metadata, struct leat_error *error);
/* Writes a finished group. */
int leat_target_write(struct leat_target *target, struct leat_group *group, struct leat_error *error);
/* Makes all of it visible. */
int leat_target_finish(struct leat_target *target, struct leat_error *error);
void leat_target_destroy(struct leat_target *target, bool keep_partial);

/* Reads the next group of an unfinished file. LEAT_OK: it is complete, and its bytes are in `buffer`. LEAT_E_END: there
 * is none. IO, NOMEM. */
int leat_target_read_group(int fd, uint64_t size, uint64_t offset, const struct leat_store_layout *layout,
                           uint64_t first_row, uint64_t first_input, struct leat_growing *buffer,
                           struct leat_store_group *group, struct leat_store_shape *shape, struct leat_error *error);

#endif
