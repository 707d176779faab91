/*
 * Annotations in a file per photo: images/a/1.jpg goes with labels/a/1.txt. The part that the formats with such files
 * share.
 */
#ifndef LEAT_FORMAT_SIDECARS_H
#define LEAT_FORMAT_SIDECARS_H

#include "format/annotated.h"

#define LEAT_SIDECAR_BYTES (UINT64_C(64) << 20)

struct leat_sidecars {
    struct leat_annotated *a;
    const char *extension;    /* ".txt" */
    uint64_t found;           /* photos that have one */
    bool *used;               /* of each of a->sidecars */
    struct leat_names photos; /* what files of each photo are called, once that is needed to say what is wrong */
    char *path;               /* of the last one that was read */
    size_t path_room;
    uint8_t *text;
    size_t text_room;
};

/* Opens what the options name, whose annotations are a folder; `format` as leat_annotated_new. */
int leat_sidecars_begin(struct leat_sidecars *sidecars, const struct leat_source_vtable *format, const char *path,
                        const char *extension, const struct leat_open_options *options, struct leat_error *error);
/* Finds the one of a->sidecars that goes with a photo. */
enum leat_names_found leat_sidecars_find(const struct leat_annotated *annotated, uint64_t photo, const char *extension,
                                         size_t *number);
/* Reads that of photo i: *n bytes at sidecars->text, and a NUL. *there: whether there is one. IO, NOMEM, CORRUPT,
 * CANCELLED. */
int leat_sidecars_read(struct leat_sidecars *sidecars, uint64_t i, bool *there, size_t *n, struct leat_error *error);
/* Faults of files without a photo, in the folders that photos are in. NOT_FOUND: no photo has a file. */
int leat_sidecars_check(struct leat_sidecars *sidecars, struct leat_error *error);
void leat_sidecars_end(struct leat_sidecars *sidecars); /* of its memory; `a` stays */

/* For `annotates`: the files with this extension in a folder, or in a folder of it. `begins` says of the first bytes of
 * a file, at most LEAT_SIDECAR_HEAD, whether it is one of the format; NULL: it is not asked. A text may be a README. */
enum { LEAT_SIDECAR_HEAD = 512 };
typedef bool leat_sidecar_begins(const char *head, size_t n);
enum leat_sidecars_found {
    LEAT_SIDECARS_NONE,
    LEAT_SIDECARS_NAMED, /* none of those that were looked at begins so */
    LEAT_SIDECARS_SURE
};
enum leat_sidecars_found leat_sidecars_in(const char *folder, const char *extension, leat_sidecar_begins *begins);

#endif
