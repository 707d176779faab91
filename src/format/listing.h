/*
 * The photos below a folder: one pass over its directories, their names in one block of memory, sorted.
 */
#ifndef LEAT_FORMAT_LISTING_H
#define LEAT_FORMAT_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_LISTING_ROOT UINT32_MAX
#define LEAT_LISTING_KINDS 8
#define LEAT_LISTING_ABSENT INT64_MIN /* mtime_ns: annotations name the photo, and it is not there */

struct leat_listing_file {
    uint64_t name; /* offset in names: path relative to the root, NUL-terminated */
    uint64_t size;
    int64_t mtime_ns;
    uint32_t name_length;
    uint32_t folder; /* sub-folder of the root that it lies in or below, or LEAT_LISTING_ROOT */
};

struct leat_listing_folder {
    char *name;
    uint64_t files; /* photos in it and below */
};

struct leat_listing {
    char *names;
    size_t names_bytes, names_room;
    struct leat_listing_file *files; /* in bytewise order of their names */
    size_t n_files, files_room;
    struct leat_listing_folder *folders; /* in bytewise order */
    size_t n_folders, folders_room;
    /* what was left out, for a notice */
    uint64_t hidden; /* files and folders whose names begin with a dot */
    uint64_t others; /* files without one of the extensions, and what is no file */
    char other[256]; /* the first of those by its name, cut to fit */
    struct leat_listing_kind {
        char extension[12]; /* in small letters; "": none, or a longer one */
        uint64_t n;
    } kinds[LEAT_LISTING_KINDS]; /* of those; what has no place is in none */
    uint64_t links;              /* links to folders below the first level, or to the root: they may form loops */
    uint64_t missing;            /* links to nothing, and files that vanished meanwhile */
    uint64_t unnamed;            /* names that are not UTF-8 */
    uint64_t too_deep;           /* folders nested deeper than LEAT_LISTING_DEPTH */
};

#define LEAT_LISTING_DEPTH 32
extern const char leat_listing_suffixes[]; /* what is looked for, for messages: ".jpg, .jpeg ..., in any case" */

/* NOT_FOUND, INVALID (not a folder), IO (a folder that cannot be read), NOMEM. On failure the listing is destroyed. */
int leat_listing_scan(const char *root, struct leat_listing *listing, struct leat_error *error);
void leat_listing_destroy(struct leat_listing *listing);
/* Leaves out the photos in the root itself, or all but those. */
void leat_listing_keep(struct leat_listing *listing, int in_root);

/* Why a name is not listed although such a file is below the root, and what to do about it; else NULL. Names
 * that lead out of it are not looked up. */
const char *leat_listing_why_not(const char *root, const char *name);

#endif
