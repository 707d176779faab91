/*
 * Archives of zip, whose members are read where they lie:
 *
 *     local header | name | extra | bytes | local header | ... | directory | (zip64) end of the directory
 *
 * The directory decides, and local headers must agree with it: members that overlap, names that stand twice, sizes that
 * cannot be, and encryption are errors. Deflated members are decoded once from beginning to end, which compares their
 * CRC-32, and from then on read from anywhere (io/gzip.h), also by the next opening if the caller keeps the access
 * points. The CRC-32 of stored ones is for the caller to compare.
 */
#ifndef LEAT_FORMAT_ARCHIVE_H
#define LEAT_FORMAT_ARCHIVE_H

#include "io/gzip.h"

#define LEAT_ARCHIVE_MEMBERS 65536

struct leat_archive_member {
    const char *name; /* not ended by a NUL */
    size_t name_bytes;
    uint64_t header;      /* where its local header is */
    uint64_t bytes, size; /* stored, and decoded */
    uint32_t crc;
    bool deflated;
};

struct leat_archive {
    struct leat_archive_member *members; /* in the order of the directory */
    size_t n;
    uint8_t *directory;
    uint64_t directory_at;
};

/* Whether a file may be one by its first bytes. */
bool leat_archive_recognise(const uint8_t *head, size_t n);
/* Reads the directory. CORRUPT, UNSUPPORTED (encryption, methods), IO, NOMEM. */
int leat_archive_read(struct leat_io_file *file, struct leat_archive *out, struct leat_error *error);
void leat_archive_destroy(struct leat_archive *zip);
/* Opens a member as bytes [*at, *at + size) of a file: the archive itself, or the decoded bytes, whose CRC-32 was
 * compared; that calls the progress of `options`, if any. `keep`: NULL, or what an index may keep of a deflated one
 * (io/gzip.h). Errors: CORRUPT, IO, NOMEM, CANCELLED. */
int leat_archive_open(struct leat_io_file *file, const struct leat_archive *zip,
                      const struct leat_archive_member *member, const struct leat_open_options *options,
                      struct leat_gzip_points *keep, struct leat_io_file **out, uint64_t *at, struct leat_error *error);
/* Opens a deflated one by what was kept, in the file `index` (kept.h), and decodes nothing. If its bytes turn out to be
 * others when they are read, that is CHANGED, and removes the index. CORRUPT: it was kept of another file; IO, NOMEM.
 */
int leat_archive_reopen(struct leat_io_file *file, const struct leat_archive *zip,
                        const struct leat_archive_member *member, const struct leat_gzip_points *kept,
                        const char *index, uint64_t inode, struct leat_io_file **out, struct leat_error *error);
/* The first n bytes of a deflated one, compared with nothing. Errors as those of opening. */
int leat_archive_first(struct leat_io_file *file, const struct leat_archive *zip,
                       const struct leat_archive_member *member, uint8_t *to, size_t n, struct leat_error *error);
/* Compares the CRC-32 of a member. Errors likewise. */
int leat_archive_check(struct leat_io_file *file, const struct leat_archive *zip,
                       const struct leat_archive_member *member, struct leat_error *error);

#endif
