/*
 * Verifying data at rest. leat.h includes this: it stands apart for its length alone.
 */
#include "leat/leat.h" /* which includes this, if it is the first */
#ifndef LEAT_VERIFY_H
#define LEAT_VERIFY_H

/* What LEAT_OK of leat_verify stands for. */
enum leat_verified {
    LEAT_VERIFIED_SUMS = 0,     /* all bytes were compared with checksums or hashes */
    LEAT_VERIFIED_SUMS_OF_SOME, /* all compressed blocks decode, and those that have checksums were compared */
    LEAT_VERIFIED_BLOCKS,       /* all compressed blocks decode; none has a checksum */
    LEAT_VERIFIED_READ          /* all bytes were read; there are no checksums */
};

/* Checks every byte of the files at `path` (a file, manifest or folder). Each photo in the fast form must give back the
 * file that it was made from and decode as that does; for this, each thread takes the memory of a photo's coefficients.
 * `report` is called for each fault, from the calling thread, with a filled error; if it returns non-zero, verifying
 * stops. `progress` (may be NULL) is called now and then. Returns LEAT_OK if no fault was found, LEAT_E_CORRUPT if one
 * was reported, else the error that stopped it. */
struct leat_verify_options {
    size_t struct_size;
    unsigned num_threads;
    int (*report)(void *user, const struct leat_error *fault);
    int (*progress)(void *user, uint64_t bytes, uint64_t total_bytes);
    void *user;
    enum leat_verified *verified; /* NULL, or set to what LEAT_OK stands for */
};
LEAT_API int leat_verify(const char *path, const struct leat_verify_options *options, struct leat_error *error);

#endif
