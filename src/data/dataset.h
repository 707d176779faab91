/*
 * A data set as the engine sees it: one or many sources joined, seen through a selection.
 *
 *     position in this data set  --selection-->  sample id  --parts-->  (source, sample in it)
 *
 * src/data implements leat_dataset_* of leat/leat.h. This header declares only the needs of the engine and the faces of
 * leat. Any thread may call these functions, several at once. The data set must be retained while anything they give is
 * used.
 */
#ifndef LEAT_DATA_DATASET_H
#define LEAT_DATA_DATASET_H

#include "format/source.h"
#include "leat/leat.h"

struct leat_sample_ref {
    struct leat_source *source;
    uint64_t sample; /* in that source */
    int64_t id;      /* in the opened data set */
};

/* Replaces a reference of a field that is of another data set (LEAT_STORAGE_BEHIND) by that of the sample and field
 * behind it. Others stay as they are. `id` never changes. */
void leat_ref_resolve(struct leat_sample_ref *ref, size_t *field);
/* The way to the value of a field. */
static inline enum leat_storage leat_ref_storage(const struct leat_sample_ref *ref, size_t field)
{
    struct leat_sample_ref found = *ref;
    if (!found.source->storage[field])
        leat_ref_resolve(&found, &field);
    return (enum leat_storage)found.source->storage[field];
}

/* The bytes of a value that varies, if its source knows them without the value; else UINT64_MAX. */
uint64_t leat_ref_length(const struct leat_sample_ref *ref, size_t field);

/* The number of the field of that name; that of fields if there is none. */
size_t leat_dataset_field(const struct leat_dataset *dataset, const char *name);
/* The steps of each sample in a field, for leat_free: elements along the first dimension, or bytes. NOMEM, and the
 * errors of reading. */
int leat_dataset_lengths(const struct leat_dataset *dataset, size_t field, uint64_t **lengths,
                         struct leat_error *error);

/* positions must be below leat_dataset_count. */
void leat_dataset_locate(const struct leat_dataset *dataset, const uint64_t *positions, size_t n,
                         struct leat_sample_ref *refs);

/* Data sets one behind the other, for a loader: if all are views of one data set, ids are those of that one, else as
 * leat_dataset_concat makes them. Positions of the joined data set are located and read; it has no other use: no view
 * is made of it, and no one asks for its ids. Errors: those of leat_dataset_concat. */
int leat_dataset_join(struct leat_dataset *const *datasets, size_t n, struct leat_dataset **out,
                      struct leat_error *error);
/* The same with the named fields alone, as far as the data sets differ in others; ids are those of leat_dataset_concat.
 * Errors: NOT_FOUND (one lacks a field), those of leat_dataset_concat. */
int leat_dataset_join_fields(struct leat_dataset *const *datasets, size_t n, const char *const *fields, size_t n_fields,
                             struct leat_dataset **out, struct leat_error *error);

/* The steps that made a view, as JSON text (view.c): for a state, and for leat_dataset_view. NULL: it is no view, or
 * this is not known. Lives as long as the data set. */
const char *leat_dataset_view_text(const struct leat_dataset *dataset);

/* The ways of the sources to a field: bits 1 << enum leat_storage. */
unsigned leat_dataset_storages(const struct leat_dataset *dataset, size_t field);

/* The path of the first file, for an error; "": it has none. */
const char *leat_dataset_path(const struct leat_dataset *dataset);
/* NOT_FOUND: there is no field `name`; the error names the file, and the fields that there are. `what` follows the
 * name: " to cut rows from". */
int leat_dataset_no_field(const struct leat_dataset *dataset, const char *name, const char *what,
                          struct leat_error *error);
/* Whether some source looks up the places of values in an index that may not be in memory. */
bool leat_dataset_looks_up(const struct leat_dataset *dataset);

#define LEAT_MAX_FILLED 64 /* fields in one call of leat_dataset_fill, of at most 256 samples */
/* Whether values of some field follow from the batch that a sample is a row of (`fill` of format/source.h), and whether
 * those of this field do. */
bool leat_dataset_follows_batches(const struct leat_dataset *dataset);
bool leat_dataset_is_filled(const struct leat_dataset *dataset, size_t field);
/* Writes the values of such fields, which are of one source, of samples that are rows of a batch. */
int leat_dataset_fill(const struct leat_dataset *dataset, const size_t *fields, size_t n_fields,
                      const struct leat_sample_ref *refs, size_t n, const struct leat_batch_rows *rows,
                      uint8_t *const *to, size_t *failed, struct leat_error *error);
/* Of one that follows batches: whether it is that source's own, with samples in their order, and no zip or list of
 * such. */
bool leat_dataset_is_in_order(const struct leat_dataset *dataset);

/* As the vtable's functions, with the same `cold` and `*failed`, for references of any sources. Errors name the sample
 * id. */
int leat_dataset_rows(const struct leat_dataset *dataset, size_t field, const struct leat_sample_ref *refs, size_t n,
                      void *cold, const void **rows, size_t *failed, struct leat_error *error);
int leat_dataset_extents(const struct leat_dataset *dataset, size_t field, const struct leat_sample_ref *refs, size_t n,
                         struct leat_extent *extents, size_t *failed, struct leat_error *error);

/* Calls `refresh` of all sources, as an epoch begins. CHANGED, IO. */
int leat_dataset_refresh(const struct leat_dataset *dataset, struct leat_error *error);
/* A number that is another one once a refresh has found that files changed. */
uint64_t leat_dataset_changes(const struct leat_dataset *dataset);

/* Puts the values of `fields`, all COMPUTED, into `out`, which was initialised for n_fields and n. Each has a size that
 * fits its field. May take long. On failure *failed is the reference that failed, or n. */
int leat_dataset_compute(const struct leat_dataset *dataset, const size_t *fields, size_t n_fields,
                         const struct leat_sample_ref *refs, size_t n, struct leat_values *out, size_t *failed,
                         struct leat_error *error);

/* `asks_many` of this source (format/source.h), or of those behind it; the most of any source. */
size_t leat_source_asks_many(const struct leat_source *source);
size_t leat_dataset_asks_many(const struct leat_dataset *dataset);

/* One value in an extent. `buffer` has leat_fetch_room bytes: for the value, and behind it for a photo's row index, if
 * `with_rows` asks for it and the source does not have it in memory, and for what is read along. leat_fetch_bytes of
 * these are read from extent.before bytes in front of the value on, and leat_fetch_check adds the rest. UINT64_MAX: the
 * extent makes no sense. */
struct leat_fetch {
    struct leat_sample_ref ref; /* resolved, as is `field` */
    size_t field;
    struct leat_extent extent;
    bool with_rows;
    bool mapped; /* the buffer is the file's mapping */
    bool made; /* its source has computed it: it has no extent, but for its length and what leat_fetch_know fills in */
    void *buffer; /* of the value: bytes that are read along (extent.before) lie in front of it */
};
uint64_t leat_fetch_room(const struct leat_extent *extent, bool with_rows);
uint64_t leat_fetch_bytes(const struct leat_extent *extent, bool with_rows);
/* Makes the extent of a value, which a resolved reference names, that of its bytes [begin, begin + length). If they are
 * to be verified, the pages in which they lie are read along, or all of the value if these have no checksums. */
void leat_extent_narrow(const struct leat_sample_ref *ref, struct leat_extent *extent, uint64_t begin, uint64_t length);
/* Reads the extent into new memory, waits, and verifies it; `out` has its bytes, also if the error is CORRUPT. */
int leat_fetch_read(struct leat_fetch *fetch, struct leat_value *out, struct leat_error *error);
/* After reading: verifies the checksum if extent.verify says so, and those of a piece's pages. With `with_rows`, an
 * unchecked photo becomes good in `extent` if the source remembers that its bytes were. LEAT_OK, or LEAT_E_CORRUPT with
 * file, sample, field and offset. */
int leat_fetch_check(struct leat_fetch *fetch, struct leat_error *error);
/* Fills in what this process knows of the bytes of a computed photo, as it has decoded them before (good_photos.h). */
void leat_fetch_know(struct leat_fetch *fetch);
/* The photo's row index, after leat_fetch_check; NULL: there is none. It is not verified, since it has a checksum of
 * its own (codec/jpeg/rows.h). */
const uint8_t *leat_fetch_rows(const struct leat_fetch *fetch);
/* Adds a value's file to an error about it, such as that it does not decode. */
void leat_error_at_extent(struct leat_error *error, struct leat_source *source, const struct leat_extent *extent);
/* Tells the source the result of decoding to the end. */
void leat_fetch_mark(const struct leat_fetch *fetch, enum leat_health health);
/* Tells a source that remembers it that a photo's bytes are good to their end, with the row index that decoding made
 * (length 0: none). */
void leat_fetch_keep(const struct leat_fetch *fetch, const uint8_t *rows, size_t length);

/* Whether it is of leat_dataset_lent. */
bool leat_dataset_is_lent(const struct leat_dataset *dataset);
/* How many samples are lent now, and the bytes of all values of the longest. INVALID: it is no data set of
 * leat_dataset_lent. */
int leat_dataset_lent_now(const struct leat_dataset *dataset, uint64_t *n, uint64_t *longest, struct leat_error *error);

#endif
