/*
 * The index that a file of arrays keeps (kept.h): the sums of choices of its fields, and of deflated members the access
 * points (io/gzip.h).
 *
 *     sums | members | points of all members | windows of all members
 */
#ifndef LEAT_FORMAT_ARRAYS_KEPT_H
#define LEAT_FORMAT_ARRAYS_KEPT_H

#include "format/archive.h"

/* The choices whose sums are kept: the latest. */
#define LEAT_ARRAYS_SUMS 64

struct leat_arrays_sums {
    uint64_t choice, sums[2];
};

/* Of one opening. One thread at a time. */
struct leat_arrays_kept;

/* Reads the index of a file, beside it or in `index_dir`, if it is right; else there is nothing. NOMEM. */
int leat_arrays_kept_load(struct leat_io_file *file, const char *index_dir, struct leat_arrays_kept **out,
                          struct leat_error *error);
/* As a fuzzer does: `path` is what was kept, and is trusted. */
int leat_arrays_kept_trust(const char *path, struct leat_arrays_kept **out, struct leat_error *error);
void leat_arrays_kept_free(struct leat_arrays_kept *kept); /* NULL is allowed */

/* Whether there is a place to keep things at. */
bool leat_arrays_kept_keeps(const struct leat_arrays_kept *kept);
/* Fills the sums of sums->choice. False: there are none. */
bool leat_arrays_kept_sums(const struct leat_arrays_kept *kept, struct leat_arrays_sums *sums);
/* The points of a member, which may be mapped, and the file that they are in. They are valid while `kept` is. False:
 * there are none. */
bool leat_arrays_kept_points(struct leat_arrays_kept *kept, const struct leat_archive_member *member,
                             struct leat_gzip_points *out, const char **index, uint64_t *inode);
/* Those points were wrong: none that are kept stay. */
void leat_arrays_kept_doubt(struct leat_arrays_kept *kept);
/* Takes over the points of a member that was decoded. NOMEM. */
int leat_arrays_kept_add(struct leat_arrays_kept *kept, const struct leat_archive_member *member,
                         struct leat_gzip_points *points, struct leat_error *error);
/* Writes what was added, `sums` (NULL: none are new) and what was there before, if anything is new. A file that cannot
 * be written is a warning in the log. */
void leat_arrays_kept_save(struct leat_arrays_kept *kept, const char *index_dir, const struct leat_arrays_sums *sums);

#endif
