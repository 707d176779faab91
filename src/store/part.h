/*
 * One file being written, a whole data set or a shard: groups are appended in order; ending it adds sections, directory
 * and footer; publishing renames it. Until then it has the suffix .partial.
 */
#ifndef LEAT_STORE_PART_H
#define LEAT_STORE_PART_H

#include "store/codes.h"
#include "store/group.h"
#include "store/layout.h"

struct leat_part {
    char *path, *partial; /* final name; while it is written */
    int fd;               /* -1: not open */
    uint64_t bytes;       /* written so far */
    struct leat_growing entries;
    struct leat_growing paged, page_checksums; /* LEAT_SECTION_PAGES: its index, and the bytes behind it */
    struct leat_store_summary summary;
    struct leat_store_forms forms;   /* counted if the file has LEAT_FEATURE_FORMS */
    struct leat_store_coder *coders; /* [n_coders], per stored field; NULL before the first group */
    uint32_t n_coders;
    uint64_t header_checksum, footer_checksum;
};

/* Takes `path`; creates or opens `path`.partial. With `lock`, no other process may have it: LEAT_E_BUSY. */
int leat_part_open(struct leat_part *part, const char *path, bool lock, struct leat_error *error);
/* Closes; removes the .partial if asked to. */
void leat_part_destroy(struct leat_part *part, bool remove);
/* Empties the file and writes the header. */
int leat_part_start(struct leat_part *part, const uint8_t *header, uint64_t header_bytes, struct leat_error *error);
int leat_part_append(struct leat_part *part, const uint8_t *group, size_t bytes, struct leat_error *error);
/* Counts a group that is at `offset` already (resume). */
int leat_part_count(struct leat_part *part, const struct leat_store_layout *layout, const uint8_t *group,
                    uint64_t offset, struct leat_error *error);
/* Writes sections, directory and footer, and syncs the file. `conversion`: NULL, or what the whole file was converted
 * from. */
int leat_part_end(struct leat_part *part, const struct leat_store_layout *layout, const char *const *classes,
                  size_t n_classes, const char *metadata, const struct leat_store_conversion *conversion,
                  struct leat_error *error);
/* rename, or, unless it is to replace what has that name, EEXIST. */
int leat_part_rename(const char *from, const char *to, bool replace);
/* Gives a finished file its name. */
int leat_part_publish(const char *partial, const char *path, bool replace, struct leat_error *error);
/* "PATH.partial", freed with leat_free. NULL: out of memory. */
char *leat_part_partial(const char *path);

/* Writes all of it; names the remedy when the disk is full. */
int leat_part_write(int fd, const char *path, const void *data, size_t bytes, uint64_t offset,
                    struct leat_error *error);
/* fsync of the folder that holds `path`. */
int leat_part_sync_folder(const char *path, struct leat_error *error);

#endif
