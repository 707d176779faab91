/*
 * A file in which a folder that is opened in place keeps, from process to process, where the rows of its photos begin
 * (codec/jpeg/rows.h) and the checksums of good ones. Losing any of it costs only time, so it is never waited for and
 * never an error. Several processes may read and append at once.
 */
#ifndef LEAT_FORMAT_ROWS_FILE_H
#define LEAT_FORMAT_ROWS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest index, and the most records that are written at once. */
#define LEAT_ROWS_LONGEST ((UINT32_C(1) << 22) - 1)
#define LEAT_ROWS_AT_ONCE 4096
/* Places in the file are below this. */
#define LEAT_ROWS_PLACES (UINT64_C(1) << 40)
/* Bytes of a record beside the index itself. */
#define LEAT_ROWS_RECORD 48

/* The photo of a record: leat_hash64 of its name relative to the folder, and what the file system says of it. */
struct leat_rows_key {
    uint64_t name, size;
    int64_t mtime_ns;
};

struct leat_rows_record {
    struct leat_rows_key key;
    uint32_t hint;       /* number of the photo in the listing of the writer of the record, or any */
    uint32_t length;     /* of the index, up to LEAT_ROWS_LONGEST; 0: the photo has none */
    uint64_t photo;      /* leat_hash64 of the photo's bytes: to be written; 0 in records that are found ... */
    const uint8_t *rows; /* ... and so is this, NULL there */
    uint64_t place;      /* where it stands, for leat_rows_file_read */
};

struct leat_rows_file {
    char *path, *root; /* of the file; of the folder that it is about */
    uint64_t limit;    /* the file does not grow beyond this */
    bool restart;      /* start it again at the next write: most of it is obsolete */
    _Atomic int reader;
    int writer;
    _Atomic uint64_t generation, end; /* of the file as it was walked last; the end of what was walked */
};

/* The file for the folder `root` (absolute) in the folder `dir`, which need not exist yet. NOMEM. */
int leat_rows_file_init(struct leat_rows_file *file, const char *dir, const char *root, uint64_t limit);
void leat_rows_file_destroy(struct leat_rows_file *file);

/* Calls `found` for each record of the file, in the order in which they were written. A file that is damaged, or of
 * something else, has none. One thread. */
typedef void leat_rows_found(void *user, const struct leat_rows_record *record);
void leat_rows_file_load(struct leat_rows_file *file, leat_rows_found *found, void *user);

/* Reads a record: the index and the checksum of the photo. False: it is not there any more. Any thread, also while
 * another appends. */
bool leat_rows_file_read(struct leat_rows_file *file, const struct leat_rows_key *key, uint64_t place, uint32_t length,
                         uint8_t *to, uint64_t *photo);

/* Locks the file against other processes, creates it and its folder if they are missing, and calls `found` for each
 * record that was added since the last time. One thread. After LEAT_OK, write any number of times, then end.
 * LEAT_E_BUSY: others have held the lock for `wait_ms`. LEAT_E_IO: it cannot be written; the log says why. */
int leat_rows_file_begin(struct leat_rows_file *file, int wait_ms, leat_rows_found *found, void *user);
/* Appends n records, at most LEAT_ROWS_AT_ONCE, and sets their places. False: none was written; the log says why. */
bool leat_rows_file_write(struct leat_rows_file *file, struct leat_rows_record *records, size_t n);
void leat_rows_file_end(struct leat_rows_file *file);

#endif
