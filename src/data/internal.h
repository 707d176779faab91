/*
 * The common part of the files of src/data.
 *
 *     leat_dataset  --selection: runs of ids, or none-->  leat_base  --parts: by id-->  sources
 *
 * A base is an opened or joined data set: ids 0 to count - 1 over one or many sources. Its views share it. A base that
 * joins others keeps them alive and borrows their sources.
 */
#ifndef LEAT_DATA_INTERNAL_H
#define LEAT_DATA_INTERNAL_H

#include <jansson.h>

#include "data/dataset.h"
#include "data/packed.h"
#include "leat/windows.h"

struct leat_base_part {
    struct leat_source *source;
    uint64_t first_id;
};

struct leat_base {
    _Atomic uint32_t references;
    struct leat_base_part *parts; /* by first_id; without empty parts, unless there is no other */
    size_t n_parts;
    struct leat_source **owned; /* opened by this base, in order; NULL if it joins others */
    size_t n_owned;
    struct leat_base **joined;
    size_t n_joined;
    uint64_t count;
    const struct leat_field *fields;
    size_t n_fields;
    const char *const *classes;
    size_t n_classes;
    bool classes_apart; /* no part of the fingerprint */
    const char *metadata;
    char *joined_metadata; /* the differences of joined data sets in these, or NULL */
    char *notice;
    uint64_t sums[2];
    bool converted;     /* of some file the sums are those of what it was converted from, ... */
    uint64_t values[2]; /* ... and these are over its own values, ... */
    bool values_known;  /* ... if those of all files are known: else these say nothing */
    /* For each field, or NULL: its texts as codes, made by the first query that asks (query_codes.c). */
    _Atomic(struct leat_codes *) *codes;
};

/* Ids begin, begin + 1, ... stand at positions `at`, at + 1, ... up to the next run. */
struct leat_run {
    uint64_t begin, at;
};

/* Either runs, or, if that takes less memory, a packed set. */
struct leat_selection {
    struct leat_run *runs;
    size_t n_runs, room;
    uint64_t count;
    /* index[p >> shift] is the run that holds the first position of that bucket; a bucket holds about one run. */
    uint32_t *index;
    unsigned shift;
    bool ascending; /* ids ascend, each stands once: from sealing on */
    bool is_packed;
    struct leat_packed packed;
    struct leat_set_making *packing; /* while a selection of many runs is made */
};

struct leat_dataset {
    _Atomic uint32_t references;
    struct leat_base *base;
    bool selected; /* else the whole base */
    bool joined;   /* by leat_dataset_join: its ids are those of the selection, modulo those of the base */
    struct leat_selection selection;
    uint64_t count;
    char *view; /* how it was made from the base: view.c. NULL: all of it, or not known */
    /* Made on demand, as that takes a walk over the runs of a view; any thread may, and makes the same. */
    _Atomic uint64_t fingerprint[2];
    _Atomic bool fingerprinted;
};

/* Takes over the reference to `base`, the contents of `selection` (NULL: all) and `view`, the description of that
 * (NULL: none), even on failure. */
int leat_dataset_make(struct leat_base *base, struct leat_selection *selection, char *view, struct leat_dataset **out,
                      struct leat_error *error);
/* A data set of one source. Takes the source over, and closes it on failure. */
int leat_dataset_of_source(struct leat_source *source, struct leat_dataset **out, struct leat_error *error);
/* The source of a zipped data set (zip.c), which keeps the parts: leat_dataset_zip. */
int leat_zip_open(struct leat_dataset *const *parts, const char *const *names, size_t n, bool bare,
                  const char *const *fields, size_t n_fields, struct leat_source **out, struct leat_error *error);
/* The source of windows over the records of a data set (windows.c), which it keeps. */
int leat_windows_open(struct leat_dataset *records, const char *field, uint64_t length, uint64_t stride,
                      enum leat_windows_tail tail, struct leat_source **out, struct leat_error *error);
/* The bytes of a value of a sample, without making it; UINT64_MAX: not known. Any thread; `user` as of the data set. */
typedef uint64_t (*leat_length_fn)(void *user, size_t field, uint64_t sample);
/* For a data set of leat_dataset_from_source, before anything is read: asked in the place of making values, if only
 * lengths are wanted. INVALID: it is another one. */
int leat_dataset_know_lengths(struct leat_dataset *dataset, leat_length_fn length, struct leat_error *error);
/* Whether samples may have no value of a field. */
bool leat_dataset_lacks(const struct leat_dataset *dataset, size_t field);
/* The memory of a whole column if it lies in one piece, else NULL and LEAT_OK. */
int leat_dataset_in_place(const struct leat_dataset *dataset, size_t field, const void **data,
                          struct leat_error *error);
/* Bytes of a value of fixed size, or of one step of the first dimension of a varying one. CORRUPT. */
int leat_field_row_bytes(const struct leat_field *field, uint64_t *bytes, struct leat_error *error);
/* The values (`to`; each has `bytes`), or else the lengths in bytes, of a field at positions [begin, end). `valid`:
 * NULL, or of each position whether it has a value: then one without is no error, and 0 stands for it. With `valid`,
 * both others may be NULL. */
int leat_dataset_gather(const struct leat_dataset *dataset, size_t field, uint64_t begin, uint64_t end, uint64_t bytes,
                        uint8_t *to, uint64_t *lengths, bool *valid, struct leat_error *error);
void leat_codes_free(struct leat_codes *codes); /* NULL is allowed */
/* Whether two bases have the same samples under the same ids: they are one, or were opened from the same files. */
bool leat_base_is_same(const struct leat_base *a, const struct leat_base *b);
struct leat_base *leat_base_retain(struct leat_base *base);
void leat_base_release(struct leat_base *base);
/* The number of the part that holds an id. */
size_t leat_base_part_of(const struct leat_base *base, uint64_t id);
/* Metadata of two data sets that are joined, each a JSON object, freed with leat_free. NULL: no memory. */
char *leat_metadata_join(const char *a, const char *b);

/* A view of `dataset`: `step`, which is taken over, says how it was made from it (view.c). Takes over `selection`. */
int leat_dataset_made_view(struct leat_dataset *dataset, struct leat_selection *selection, json_t *step,
                           struct leat_dataset **out, struct leat_error *error);
/* The description of a view of `dataset` (view.c; NULL: of all) with one more step, which is taken over. NULL: it is
 * not known. Below: the steps. */
char *leat_view_add(const struct leat_dataset *dataset, json_t *step);
json_t *leat_view_select(const int64_t *positions, uint64_t n);
json_t *leat_view_split(const double *fractions, size_t n, uint64_t seed, size_t part);
char *leat_view_combine(const struct leat_dataset *left, const struct leat_dataset *right, const char *how);
json_t *leat_view_concat(struct leat_dataset *const *datasets, size_t n);

/* Appends ids [begin, begin + count). LEAT_E_NOMEM. */
int leat_selection_push(struct leat_selection *selection, uint64_t begin, uint64_t count);
/* Takes the form that needs least memory, and makes the index. LEAT_E_NOMEM. */
int leat_selection_seal(struct leat_selection *selection);
void leat_selection_destroy(struct leat_selection *selection);
/* The id at a position, and how many consecutive ones begin there, at least, if `run` is not NULL. */
uint64_t leat_selection_at(const struct leat_selection *selection, uint64_t position, uint64_t *run);
/* Walks the runs of consecutive ids of a sealed selection, in their order. False: there are no more. */
struct leat_selection_cursor {
    size_t run;
    struct leat_packed_cursor packed;
};
bool leat_selection_next(const struct leat_selection *selection, struct leat_selection_cursor *cursor, uint64_t *begin,
                         uint64_t *count);
/* Appends the ids of `dataset` at positions [begin, end), each moved by `offset`. */
int leat_selection_push_view(struct leat_selection *selection, const struct leat_dataset *dataset, uint64_t begin,
                             uint64_t end, uint64_t offset);
int64_t leat_dataset_id(const struct leat_dataset *dataset, uint64_t position);

#endif
