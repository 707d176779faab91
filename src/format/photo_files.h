/*
 * The photos of a folder as values: what every format shares that has them there. A photo is an extent of its file, and
 * its name one of a file in memory, the listing's.
 *
 *     leat_photo_files_scan     lists the folder; the format may then drop files of `listing`, or sort them
 *     leat_photo_files_ready    from here on sample i is listing.files[i]
 *
 * No photo is read before it is wanted, so its dimensions are unknown and nothing has checked it. `mark` keeps in two
 * bitmaps what decoding has shown; `keep` stores where its rows begin and the checksum of its bytes (folder_rows.h).
 */
#ifndef LEAT_FORMAT_PHOTO_FILES_H
#define LEAT_FORMAT_PHOTO_FILES_H

#include "format/folder_rows.h"
#include "format/listing.h"
#include "format/source.h"

struct leat_photo_files {
    struct leat_listing listing;
    char *root; /* absolute */
    struct leat_io_file *names;
    _Atomic uint64_t *good, *broken; /* a bit per photo */
    struct leat_folder_rows *rows;
    enum leat_recheck recheck;
    struct leat_io_pace pace;
    bool are_masks; /* of photos, for what errors say */
};

/* The absolute path, without slashes at its end or double ones; NULL: no memory. The working directory may change
 * later. */
char *leat_absolute_path(const char *path);

/* NOT_FOUND, INVALID (no folder; an index_dir that is a file, or would be taken for a class), IO, NOMEM. The caller
 * destroys `photos` in any case. */
int leat_photo_files_scan(struct leat_photo_files *photos, const char *path, const struct leat_open_options *options,
                          struct leat_error *error);
int leat_photo_files_ready(struct leat_photo_files *photos, const struct leat_open_options *options,
                           struct leat_error *error); /* NOMEM */
/* Of photos that lie within files: the file, and where in it. */
struct leat_photo_place {
    const char *path;
    int64_t mtime_ns;
    uint64_t offset, bytes;
};
typedef int (*leat_photo_place_fn)(void *user, uint64_t sample, struct leat_photo_place *out, struct leat_error *error);
/* In the place of leat_photo_files_scan and _ready: what is known of the n photos of a field of `path`. `place` is
 * asked for each if there is an index_dir, where they are known again by it. NOMEM; what `place` returns. */
int leat_photo_files_within(struct leat_photo_files *photos, const char *path, const char *field, uint64_t n,
                            const struct leat_open_options *options, leat_photo_place_fn place, void *user,
                            struct leat_error *error);
void leat_photo_files_destroy(struct leat_photo_files *photos);

/* As the source's functions. Files 0, 1, ... are the photos, and the next one has their names. */
void leat_photo_files_extents(struct leat_photo_files *photos, const uint64_t *samples, size_t n,
                              struct leat_extent *extents);
/* What is known of a photo beside its place. */
void leat_photo_files_describe(struct leat_photo_files *photos, uint64_t sample, struct leat_value_info *info);
void leat_photo_files_names(struct leat_photo_files *photos, const uint64_t *samples, size_t n,
                            struct leat_extent *extents);
int leat_photo_files_open(struct leat_photo_files *photos, uint64_t file, struct leat_io_file **out,
                          struct leat_error *error);
/* The first bytes of a photo's file, at most `room`; how many. 0: it cannot be read. */
size_t leat_photo_files_head(struct leat_photo_files *photos, uint64_t file, uint8_t *to, size_t room);
void leat_photo_files_mark(struct leat_photo_files *photos, uint64_t sample, enum leat_health found);
/* Reads every file to its end. There are no checksums, so this finds only files that cannot be read or have changed. */
int leat_photo_files_verify(struct leat_photo_files *photos, const char *field,
                            const struct leat_verify_options *options, uint64_t first_id, struct leat_error *error);
uint64_t leat_photo_files_bytes(const struct leat_photo_files *photos);

/* Notes for a person, one per line; a source has them as its notice. If memory runs out, they are cut. */
struct leat_notes {
    char *text; /* NULL: none; freed with leat_free */
    size_t room;
};
/* Adds an example behind others in a list of them, if it fits whole; of the first one the end may be missing. */
bool leat_add_example(char *list, size_t room, const char *text);
void leat_note(struct leat_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
