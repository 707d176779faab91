/*
 * What the first decoding of a folder's photos has shown: where their rows begin (codec/jpeg/rows.h), and the checksum
 * of the bytes that were good to their end. Kept in memory within bounds, and in a file (rows_file.h) where the user
 * names a place for it.
 */
#ifndef LEAT_FORMAT_FOLDER_ROWS_H
#define LEAT_FORMAT_FOLDER_ROWS_H

#include "format/listing.h"
#include "format/source.h"

/* Indexes and checksums of a folder in memory: no more are kept there. */
#define LEAT_FOLDER_ROWS_BYTES (UINT64_C(64) << 20)

struct leat_folder_rows;

/* `listing` must stay. `index_dir` NULL: in memory only, and then checksums only if `checksums` says that photos are
 * checked more than once. Reads what a file there knows of these photos; one that cannot be read is no error. NOMEM. */
int leat_folder_rows_open(const char *root, const char *index_dir, bool checksums, const struct leat_listing *listing,
                          struct leat_folder_rows **out);
/* Writes what was not yet written; at most a second is spent on waiting for other processes. NULL is allowed. */
void leat_folder_rows_close(struct leat_folder_rows *rows);

/* Any thread, several at once: as the functions of the vtable. */
void leat_folder_rows_describe(struct leat_folder_rows *rows, uint64_t sample, struct leat_value_info *info);
bool leat_folder_rows_recall(struct leat_folder_rows *rows, uint64_t sample, uint8_t *to, uint32_t length,
                             const uint64_t *checksum);
void leat_folder_rows_keep(struct leat_folder_rows *rows, uint64_t sample, const void *photo, size_t photo_bytes,
                           const uint8_t *bytes, size_t length);

#endif
