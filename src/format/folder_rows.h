/*
 * The findings of the first decoding of a folder's photos: where their rows begin (codec/jpeg/rows.h), and the checksum
 * of photos that are good to their end. They are kept in bounded memory, and in a file (rows_file.h) if the user names
 * a folder for it.
 */
#ifndef LEAT_FORMAT_FOLDER_ROWS_H
#define LEAT_FORMAT_FOLDER_ROWS_H

#include "format/listing.h"
#include "format/source.h"

/* The bound of a folder's indexes and checksums in memory. */
#define LEAT_FOLDER_ROWS_BYTES (UINT64_C(64) << 20)

struct leat_folder_rows;

/* `listing` must stay; without `index_dir` its files and names are not looked at, only how many there are. `index_dir`
 * NULL: in memory only, and checksums only if `checksums` says that photos are checked more than once. Else reads the
 * file there; if it cannot be read, that is no error. NOMEM. */
int leat_folder_rows_open(const char *root, const char *index_dir, bool checksums, const struct leat_listing *listing,
                          struct leat_folder_rows **out);
/* Writes the records that the file lacks, waiting at most a second for other processes. NULL is allowed. */
void leat_folder_rows_close(struct leat_folder_rows *rows);

/* Any thread, several at once: as the functions of the vtable. */
void leat_folder_rows_describe(struct leat_folder_rows *rows, uint64_t sample, struct leat_value_info *info);
bool leat_folder_rows_recall(struct leat_folder_rows *rows, uint64_t sample, uint8_t *to, uint32_t length,
                             const uint64_t *checksum);
void leat_folder_rows_keep(struct leat_folder_rows *rows, uint64_t sample, const void *photo, size_t photo_bytes,
                           const uint8_t *bytes, size_t length);

#endif
