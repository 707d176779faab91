/*
 * What the files of src/data share.
 *
 *     leat_dataset  --selection: runs of ids, or none-->  leat_base  --parts: by id-->  sources
 *
 * A base is what was opened or joined: ids 0 to count - 1 over one or many sources. Its views share it. A base that
 * joins others keeps them alive and borrows their sources.
 */
#ifndef LEAT_DATA_INTERNAL_H
#define LEAT_DATA_INTERNAL_H

#include <jansson.h>

#include "data/dataset.h"

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
    const char *metadata;
    char *notice;
    uint64_t sums[2];
};

/* Ids begin, begin + 1, ... stand at positions `at`, at + 1, ... up to the next run. */
struct leat_run {
    uint64_t begin, at;
};

struct leat_selection {
    struct leat_run *runs;
    size_t n_runs, room;
    uint64_t count;
    /* index[p >> shift] is the run that holds the first position of that bucket; a bucket holds about one run. */
    uint32_t *index;
    unsigned shift;
};

struct leat_dataset {
    _Atomic uint32_t references;
    struct leat_base *base;
    bool selected; /* else the whole base */
    struct leat_selection selection;
    uint64_t count;
    char *view; /* how it was made from the base: view.c. NULL: all of it, or not known */
    uint8_t fingerprint[16];
};

/* Takes over the reference to `base` and what `selection` (NULL: all) holds, even on failure. */
int leat_dataset_make(struct leat_base *base, struct leat_selection *selection, struct leat_dataset **out,
                      struct leat_error *error);
/* A data set of one source. Takes the source over, and closes it on failure. */
int leat_dataset_of_source(struct leat_source *source, struct leat_dataset **out, struct leat_error *error);
/* The source of a zipped data set (zip.c), which keeps the parts. */
int leat_zip_open(struct leat_dataset *const *parts, const char *const *names, size_t n, bool bare,
                  struct leat_source **out, struct leat_error *error);
/* As leat_dataset_storages, of such a source. */
unsigned leat_zip_storages(const struct leat_source *source, size_t field);
/* The memory of a whole column if it lies in one piece, else NULL and LEAT_OK. */
int leat_dataset_in_place(const struct leat_dataset *dataset, size_t field, const void **data,
                          struct leat_error *error);
struct leat_base *leat_base_retain(struct leat_base *base);
void leat_base_release(struct leat_base *base);

/* The description of a view of `dataset` (view.c; NULL: of all) with one more step, which is taken over. NULL: it is
 * not known. Below: the steps. */
char *leat_view_add(const struct leat_dataset *dataset, json_t *step);
json_t *leat_view_select(const int64_t *positions, uint64_t n);
json_t *leat_view_split(const double *fractions, size_t n, uint64_t seed, size_t part);
json_t *leat_view_concat(struct leat_dataset *const *datasets, size_t n);

/* Appends ids [begin, begin + count). LEAT_E_NOMEM. */
int leat_selection_push(struct leat_selection *selection, uint64_t begin, uint64_t count);
/* Releases spare memory and makes the index. */
void leat_selection_seal(struct leat_selection *selection);
void leat_selection_destroy(struct leat_selection *selection);
/* The run that holds `position`. */
size_t leat_selection_find(const struct leat_selection *selection, uint64_t position);
/* The position after the run's last. */
static inline uint64_t leat_selection_end(const struct leat_selection *s, size_t run)
{
    return run + 1 < s->n_runs ? s->runs[run + 1].at : s->count;
}
/* Appends what `dataset` has at positions [begin, end), each id moved by `offset`. */
int leat_selection_push_view(struct leat_selection *selection, const struct leat_dataset *dataset, uint64_t begin,
                             uint64_t end, uint64_t offset);
int64_t leat_dataset_id(const struct leat_dataset *dataset, uint64_t position);

#endif
