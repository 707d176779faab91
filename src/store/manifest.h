/*
 * The manifest of a sharded data set: JSON text that names the shards in their order, with the numbers that identify
 * them. It lies beside its shards and names nothing outside its own folder.
 *
 *     {"format": "leat-manifest", "version": 1,
 *      "shards": [
 *       {"file": "photos.00000.leat", "count": 512, "bytes": 1048576,
 *        "sums": ["0123456789abcdef", "..."], "footer": "..."}
 *      ],
 *      "source": {"sums": ["0123456789abcdef", "..."], "values": ["...", "..."], "classes_apart": false},
 *      "checksum": "0123456789abcdef"}
 *
 * "source" is there if the data set was converted from another one, and has the fingerprint of that.
 *
 * The checksum covers every byte before the word "checksum" with its quote.
 */
#ifndef LEAT_STORE_MANIFEST_H
#define LEAT_STORE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/source.h"
#include "leat/leat.h"
#include "store/layout.h"

struct leat_manifest_shard {
    char *file;            /* relative to the manifest's folder, without a slash */
    uint64_t count, bytes; /* samples; size of the file */
    uint64_t sums[2];      /* of the fingerprint */
    uint64_t footer;       /* the checksum that the shard's last 8 bytes hold */
};

struct leat_manifest {
    struct leat_manifest_shard *shards;
    size_t n_shards;
    uint64_t count, sums[2]; /* of all shards */
    bool converted;          /* from another data set: `conversion` */
    struct leat_store_conversion conversion;
};

/* Whether a file that begins with these bytes is a manifest. */
bool leat_manifest_recognise(const uint8_t *head, size_t n);
/* FORMAT, CORRUPT, IO, NOT_FOUND, NOMEM. Release the manifest with leat_manifest_destroy. */
int leat_manifest_read(const char *path, struct leat_manifest *manifest, struct leat_error *error);
/* As leat_manifest_read, of text in memory. */
int leat_manifest_parse(const char *text, size_t length, struct leat_manifest *manifest, struct leat_error *error);
void leat_manifest_destroy(struct leat_manifest *manifest);
/* The text of a manifest; *text is freed with leat_free. NOMEM. */
int leat_manifest_text(const struct leat_manifest *manifest, char **text, size_t *length, struct leat_error *error);

/* The path of a shard, freed with leat_free. NULL: out of memory. */
char *leat_manifest_shard_path(const char *manifest_path, const char *file);
/* Checks that an opened file (a source of leat_format_native) is the shard of the manifest. LEAT_E_CHANGED if not. */
int leat_manifest_check_shard(const struct leat_manifest_shard *shard, const struct leat_source *source,
                              struct leat_error *error);

#endif
