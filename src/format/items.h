/*
 * Folders of items, as MosaicML Streaming (mds.c) and LitData (litdata.c) write them: an index.json names files, and
 * each file has a table of offsets and the items themselves. An item is a sample:
 *
 *     file    u32 N | u32 offset[N + 1] | ...  | item 0 | item 1 | ...
 *     item    u32 size of each column that has one | body of each column, in order
 *
 * A file may be compressed: as a whole, item by item, or some items together; what is here speaks of the decoded bytes.
 *
 * One pass over the items (items_index.c) finds where the bodies lie, what arrays say of their shapes, and compares the
 * hashes that index.json may have. A second one, over the values of the fields, makes the fingerprint. Both are kept
 * beside index.json or in index_dir.
 */
#ifndef LEAT_FORMAT_ITEMS_H
#define LEAT_FORMAT_ITEMS_H

#include "format/array_shapes.h"
#include "format/kept.h"
#include "format/photo_files.h"
#include "format/source.h"
#include "format/their_file.h"
#include "format/wanted.h"
#include "io/digests.h"
#include "io/frames.h"
#include "leat/stored.h"

#define LEAT_ITEM_COLUMNS 256
/* What is decoded together has no more bytes. */
#define LEAT_ITEMS_DECODED (UINT64_C(384) << 20)

/* What the body of a column is. */
enum leat_item_form {
    LEAT_ITEM_BYTES,  /* the value itself, of the kind that `type` says; 0: bytes, or photos if most begin so */
    LEAT_ITEM_ARRAY,  /* an array as `type` says; one dimension of any length if it says none */
    LEAT_ITEM_HEADED, /* one behind a header of MDS, of the dtype that `type` says, or any */
    LEAT_ITEM_NUMPY,  /* one behind a header of LitData; or a tensor behind its own */
    LEAT_ITEM_TENSOR,
    LEAT_ITEM_NUMBER, /* decimal text */
    LEAT_ITEM_PIXELS, /* an image of Pillow, as pixels */
    LEAT_ITEM_PICKLE,
    LEAT_ITEM_OTHER /* unknown: only its bytes can be taken */
};

/* Where bodies end is kept as numbers, `parts`: one of each column whose length varies, and before it one for the
 * header of an array. */
struct leat_item_column {
    char name[LEAT_FIELD_NAME], encoding[LEAT_FIELD_NAME];
    enum leat_item_form form;
    struct leat_field type;
    uint64_t fixed; /* bytes; 0: they vary */
    bool sized;     /* its size stands before the bodies */
    bool nameless;  /* its name, of which `name` is the beginning, is longer than that of a field */
    /* set by leat_items_open: */
    size_t part;   /* its first one, if it varies */
    uint64_t skip; /* bytes from the end of the part before that to its body */
};
static inline bool leat_item_is_headed(const struct leat_item_column *c)
{
    return c->form == LEAT_ITEM_HEADED || c->form == LEAT_ITEM_NUMPY || c->form == LEAT_ITEM_TENSOR;
}

enum leat_items_packing {
    LEAT_ITEMS_PLAIN = 0,
    LEAT_ITEMS_WHOLE,  /* the file is compressed */
    LEAT_ITEMS_SINGLE, /* its table is not, and each item is */
    LEAT_ITEMS_BATCHES /* LitData's frames of some items */
};

struct leat_items_hash {
    char name[LEAT_DIGEST_NAME], text[LEAT_DIGEST_TEXT];
    bool decoded; /* of the decoded bytes, else of the file */
};

struct leat_items_file {
    struct leat_their_file is;
    uint64_t samples;
    uint64_t stated, decoded; /* bytes of the file, and decoded, as index.json says; UINT64_MAX: it does not */
    uint64_t uncounted;       /* the bytes of its table, which both may leave out: 0: they do not */
    enum leat_items_packing packing;
    enum leat_stored_filter_kind filter;
    struct leat_items_hash *hashes;
    size_t n_hashes, hashes_room;
    uint64_t base; /* of rows: where they begin */
};

/* As they are kept. */
struct leat_items_kept_file {
    uint64_t size, decoded, frame, n_frames; /* of `frames`, n_frames + 1 from there on */
    int64_t mtime_ns;
};
struct leat_items_fact { /* of a column */
    uint64_t photos;     /* values that begin as photos do */
    uint64_t lowest;     /* the lowest bits that are set in where bodies of fixed size begin */
};
struct leat_items_sum {
    uint64_t fields; /* a hash of which fields it is over */
    uint64_t sums[2];
};
#define LEAT_ITEMS_SUMS 16

struct leat_items_index {
    uint64_t count, parts;
    const uint64_t *at;   /* count: where the bodies of an item begin */
    const uint32_t *ends; /* count * parts: from there on */
    const struct leat_items_kept_file *files;
    const struct leat_items_fact *facts;
    const struct leat_array_shape *shapes;
    const struct leat_frame *frames;
    struct leat_items_sum sums[LEAT_ITEMS_SUMS];
    uint64_t n_files, n_facts, n_shapes, n_frames, n_sums;
    struct leat_kept kept; /* that it was read from; or else: */
    void *own[6];
};

enum leat_item_use {
    LEAT_ITEM_WHOLE,  /* the body */
    LEAT_ITEM_VALUES, /* what stands behind the header in it */
    LEAT_ITEM_MADE,   /* what is made of it (made_values.h) */
    LEAT_ITEM_PHOTO   /* a photo made of pixels */
};
struct leat_item_field {
    enum leat_item_use use;
    size_t column;
    struct leat_photo_files photos; /* of images that are extents */
};

struct leat_items {
    struct leat_source source;
    char *index_path, *folder; /* the latter ends in a slash */
    uint64_t index_bytes;      /* of index.json */
    struct leat_items_file *files;
    struct leat_their_files all; /* the same, set by leat_items_open */
    size_t n_files, files_room;
    struct leat_item_column *columns;
    size_t n_columns, columns_room, n_sized;
    uint64_t stride; /* above 0: items are rows of so many bytes, without a table; one column */
    bool ends_known; /* an Arrow footer is refused */
    uint64_t key;    /* hash of what is kept, beside index.json */
    struct leat_items_index index;
    struct leat_field fields[LEAT_ITEM_COLUMNS];
    struct leat_item_field origins[LEAT_ITEM_COLUMNS];
    uint8_t storage[LEAT_ITEM_COLUMNS];
};

/* ---- for the formats ---- */

/* Whether a text begins as an object of JSON whose first key is one of these, in its quotes. */
bool leat_items_begins(const char *text, size_t n, const char *const keys[2]);
/* Whether a folder holds an index.json, or a file is one, that begins as `is` wants. */
bool leat_items_recognise(const char *path, bool folder, const uint8_t *head, size_t n,
                          bool (*is)(const char *text, size_t n));
/* Begins: finds index.json of a folder, or of the path of one. `file` is that, opened. */
int leat_items_new(const char *path, const struct leat_source_vtable *v, struct leat_items **out,
                   struct leat_io_file **file, struct leat_error *error);
/* A file of the folder; a name that leads out of it is CORRUPT. NULL: the error says why. */
struct leat_items_file *leat_items_add_file(struct leat_items *items, const char *name, struct leat_error *error);
/* Whether a file of that path is on this machine. */
bool leat_items_is_there(const char *path);
/* A column; its name becomes one of a field, if that may be so long. NULL likewise. */
struct leat_item_column *leat_items_add_column(struct leat_items *items, const char *name, const char *encoding,
                                               struct leat_error *error);
/* Does the rest, once files and columns are known. Closes `items` if it fails. */
int leat_items_open(struct leat_items *items, const struct leat_open_options *options, struct leat_source **out,
                    struct leat_error *error);
void leat_items_close(struct leat_source *source);
/* The functions of a source, from `open_files` on. */
#define LEAT_ITEMS_FUNCTIONS                                                                                           \
    .takes_fields = true, .close = leat_items_close, .rows = leat_items_rows, .extents = leat_items_extents,           \
    .compute = leat_items_compute, .file = leat_items_file_of, .expect = leat_items_expect, .mark = leat_items_mark,   \
    .recall = leat_items_recall, .keep = leat_items_keep, .refresh = leat_items_refresh, .verify = leat_items_verify,  \
    .about = leat_items_about, .place = leat_items_place_of
int leat_items_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                    const void **rows, size_t *failed, struct leat_error *error);
int leat_items_extents(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                       struct leat_extent *extents, size_t *failed, struct leat_error *error);
int leat_items_compute(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples,
                       size_t n, struct leat_values *out, size_t *failed, struct leat_error *error);
int leat_items_file_of(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error);
bool leat_items_expect(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent);
void leat_items_mark(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health found);
bool leat_items_recall(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                       const uint64_t *checksum);
void leat_items_keep(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                     const uint8_t *rows, size_t length);
int leat_items_refresh(struct leat_source *source, struct leat_error *error);
int leat_items_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error);
int leat_items_place_of(struct leat_source *source, uint64_t sample, struct leat_sample_place *out,
                        struct leat_error *error);

/* ---- inside ---- */

/* The file of a sample. */
struct leat_items_file *leat_items_find(const struct leat_items *items, uint64_t sample);
int leat_items_open_frames(const struct leat_items_file *file, struct leat_io_file *stored,
                           const struct leat_frame *frames, uint64_t n, struct leat_io_file **out,
                           struct leat_error *error);

/* Where a body lies in the decoded bytes of its file. */
struct leat_item_place {
    uint64_t begin, length, header; /* bytes of the header; of a headed one 0: it is no array, or of another shape */
};
/* IO: the index cannot be read. */
int leat_items_place(const struct leat_items *items, size_t column, uint64_t sample, struct leat_item_place *out,
                     struct leat_error *error);
/* Fills the error about a body. Returns `code`. */
int leat_items_fail(const struct leat_items *items, size_t field, uint64_t sample, const struct leat_item_place *at,
                    int code, const char *what, struct leat_error *error);

/* Bytes of a file that is read in order, mostly. */
#define LEAT_ITEMS_WINDOW (UINT64_C(256) << 10)
struct leat_items_window {
    struct leat_io_file *file;
    uint8_t *buffer; /* freed by leat_items_window_end, which releases the file */
    uint64_t at, n;
};
/* `n` bytes, at most LEAT_ITEMS_WINDOW, valid until the next call. CORRUPT: the file has not as many. */
int leat_items_window_get(struct leat_items_window *window, uint64_t offset, uint64_t n, const uint8_t **out,
                          struct leat_error *error);
void leat_items_window_end(struct leat_items_window *window);

/* items.c: notes size and time of a file, before anything of it is read, and keeps it open as leat_their_file_keep does
 * if it `stays`. NOT_FOUND: it is missing. CORRUPT: it has other bytes than index.json says. IO, NOMEM. */
int leat_items_look_at(struct leat_items *items, struct leat_items_file *file, bool stays, struct leat_error *error);

/* items_index.c: finds the index where it is kept, or makes it. */
int leat_items_find_index(struct leat_items *items, const struct leat_open_options *options, struct leat_error *error);
/* Keeps it, if it can be. */
void leat_items_save_index(struct leat_items *items, const struct leat_open_options *options);
void leat_items_index_destroy(struct leat_items_index *index);

/* As `verify`, of a source that was opened to verify: makes the pass over each file again, compares its hashes, and
 * decodes all of one that is compressed. UNSUPPORTED: a file has neither hashes nor frames. */
int leat_items_verify(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                      struct leat_error *error);

/* items_values.c */
/* Reads the header of an array: its column's shape, the bytes of the header in *header, and `first`. NULL, or what is
 * wrong. `n` bytes of `total` are there. */
#define LEAT_ITEM_HEADER (8 + 8 * LEAT_MAX_DIMS)
const char *leat_item_array(const struct leat_item_column *column, const uint8_t *bytes, uint64_t n, uint64_t total,
                            struct leat_array_shape *shape, uint64_t *first, uint64_t *header);
/* The dtype of a number in LitData's lists of them; 0: leat has none for it. */
enum leat_dtype leat_item_dtype_of_numpy(uint64_t index);
enum leat_dtype leat_item_dtype_of_torch(uint64_t index);
/* Adds all samples to the fingerprint. */
int leat_items_sum(struct leat_items *items, const struct leat_open_options *options, struct leat_error *error);

/* items_fields.c: makes fields and storage. */
int leat_items_make_fields(struct leat_items *items, const struct leat_open_options *options, struct leat_error *error);

#endif
