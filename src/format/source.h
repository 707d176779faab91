/*
 * A source: one opened container of samples, whatever its format. Each format is one file in src/format (leat's own is
 * src/store) that fills this table, and a line in formats.def. Nothing above src/data sees a source.
 *
 * The source declares how the values of each field are reached, whatever their dtype and shape (enum leat_storage).
 * Joined sources may differ, so each source is asked.
 */
#ifndef LEAT_FORMAT_SOURCE_H
#define LEAT_FORMAT_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/codec.h"
#include "io/file.h"
#include "leat/leat.h"

/* How the values of a field are reached. */
enum leat_storage {
    /* Those of another data set, or parts of them: `behind` says which one, and its storage is the value's. The
     * functions for that storage take the samples of this source. */
    LEAT_STORAGE_BEHIND = 0,
    /* In place: `rows` gives pointers into memory that stays; pages are verified on first touch. Fixed size only. */
    LEAT_STORAGE_MAPPED = 1,
    /* `extents` gives (file, offset, length), so that reading is scheduled apart from decoding. The bytes are verified
     * after they were read. A file may be anywhere, and may be decoded on the way (blocks of a compressed file), which
     * its readers do not notice. */
    LEAT_STORAGE_EXTENT,
    /* `compute` makes many values in one call. */
    LEAT_STORAGE_COMPUTED
};

/* `asks_many` of sources for which a call is one of Python, and of those that decode whole chunks, of which more
 * samples are wanted for each. */
#define LEAT_ASKED_OF_CALLS 512
#define LEAT_ASKED_OF_CHUNKS 4096

struct leat_pin;

/* Values computed by a source: copies of [n_fields][n_samples] values, in memory that is released together. One
 * thread. */
struct leat_values {
    size_t n_fields, n_samples;
    struct leat_computed {
        const uint8_t *data; /* NULL: not put yet. Aligned to 64 bytes if it was put into memory of its own */
        uint64_t bytes;
        bool lacking; /* the sample has no value: leat_values_lack. `bytes` is 0 */
        bool begun;   /* no value yet: what the source has to make it of, leat_values_begun */
        uint8_t *to;  /* while `data` is NULL: NULL, or memory for a value of `bytes` (leat_values_aim) */
    } * at;           /* [field_index * n_samples + sample_index] */
    struct leat_values_chunk *chunks;
    uint64_t bytes;        /* of memory that the chunks take */
    struct leat_pin *pins; /* blocks of the cache in which values lie (io/blocks.h), until all is released */
    size_t n_pins, pins_room;
    /* NULL, or a flag: a source looks at it now and then, and returns CANCELLED if it is set. */
    const _Atomic bool *cancelled;
    bool may_lack;                      /* who asks takes samples without a value */
    const struct leat_computed *begun;  /* NULL, or of each sample what it is made of; data NULL: it has no value */
    const struct leat_batch_rows *rows; /* of those samples, for sources that `fill`; NULL: of no batch */
};
int leat_values_init(struct leat_values *values, size_t n_fields, size_t n_samples); /* NOMEM */
void leat_values_destroy(struct leat_values *values);
/* leat_values_put is public: leat/leat.h. This gives memory for a value instead, to be filled in. NULL: NOMEM. */
void *leat_values_room(struct leat_values *values, size_t field_index, size_t sample_index, uint64_t bytes);
/* A value that is put and has `bytes` goes to `to`, which need not be aligned; one of another size does not. */
void leat_values_aim(struct leat_values *values, size_t field_index, size_t sample_index, void *to, uint64_t bytes);
/* A value that lies in a block that is held. */
void leat_values_point(struct leat_values *values, size_t field_index, size_t sample_index, const void *data,
                       uint64_t bytes);
/* Takes a pin over, which is unpinned when the values are released. NOMEM: it stays the caller's. */
int leat_values_hold(struct leat_values *values, struct leat_pin *pin);
/* At most so many bytes more than its values does an arena take, for each. */
#define LEAT_VALUES_SPARE (UINT64_C(128) << 10)
/* Copies the values of field `from_field` of `from`, which has at least as many samples less `sample`, to
 * samples sample, sample + 1, ... of `field`. A sample that has no value there gets none here. NOMEM. */
int leat_values_take(struct leat_values *values, size_t field, size_t sample, const struct leat_values *from,
                     size_t from_field);

struct leat_extent {
    uint64_t file; /* index for the source's `file` */
    uint64_t offset, length;
    uint64_t checksum;           /* leat_hash64 of the bytes */
    bool verify;                 /* compare the checksum after this read (recheck policy and first read) */
    bool pages;                  /* ... which is then those of the pages that are read (`check_piece`) */
    uint64_t before, after;      /* bytes around a part of a value that are read along, as they are verified with it */
    struct leat_value_info info; /* of an encoded value */
};

/* While a file is cold, values up to this size are read past the mapping. */
#define LEAT_COLD_VALUE 4096

#define LEAT_LOOKUPS 3

struct leat_source;

/* Texts as numbers into a list of few, for all samples of a source. */
struct leat_source_codes {
    uint32_t n;             /* texts, at most 65536 */
    unsigned width;         /* bytes of a code: 1 or 2, little-endian */
    const uint8_t *lengths; /* of the texts, 4 bytes each, little-endian */
    const uint8_t *texts, *codes;
    void *memory; /* what holds them, freed by leat_free; NULL: there are none */
};

struct leat_source_about {
    unsigned version;             /* of the format; 0: it has none */
    uint64_t bytes;               /* of the file, or of all files of a folder */
    uint64_t broken;              /* samples marked as broken; UINT64_MAX: not known */
    uint64_t skipped;             /* entries of annotations that were left out */
    uint64_t endless;             /* tars that end without the zeros that mark the end */
    struct leat_box_counts boxes; /* as annotations have them; count 0: there are none */
    /* By form (enum leat_form), 0 where it is not known: how many, their bytes, and their original bytes. */
    uint64_t photos[LEAT_FORMS], photo_bytes[LEAT_FORMS], original_bytes[LEAT_FORMS];
};

struct leat_source_left_out {
    const char *path, *reason;
    uint64_t line, offset; /* of what is wrong */
};

/* The rows of a batch, as a source learns of them whose values follow from the batch, too. Its samples ascend. */
struct leat_batch_rows {
    const uint64_t *keys;    /* of each sample that is asked for: the random key of its row */
    uint64_t first, last;    /* samples of the global batch */
    const uint64_t *samples; /* NULL: it has all from `first` to `last`; else the n that it has */
    uint64_t n;
};

struct leat_source_vtable {
    const char *name; /* "leat", "folder": what leat.open(format=) takes */

    /* Whether `path` looks like this format, by the first `n` bytes of a file (0 for a folder). NULL: it annotates. */
    bool (*recognise)(const char *path, bool folder, const uint8_t *head, size_t n);
    /* For a format that annotates the photos of a folder: whether `path` are its annotations. Else NULL. */
    bool (*annotates)(const char *path, bool folder, const uint8_t *head, size_t n);
    bool takes_classes; /* the options may name the classes of its annotations */
    bool judges;        /* has records that may be broken: `on_bad` applies, which is LEAT_BAD_RAISE if not said */
    bool timed;         /* its samples are events: the options `sort` and `features` apply */
    bool takes_block;   /* the options may say how many tokens are a sample */
    bool takes_fields;  /* its files have fields of their own, which the options say while it opens; else chosen.h */
    /* Reads headers and directories only; annotations to their end. */
    int (*open)(const char *path, const struct leat_open_options *options, struct leat_source **out,
                struct leat_error *error);
    /* Opens several files as one source, so that their fields are joined. NULL: they are opened one by one. */
    int (*open_files)(const char *const *paths, size_t n, const struct leat_open_options *options,
                      struct leat_source **out, struct leat_error *error);
    void (*close)(struct leat_source *source);

    /* The functions below: any thread, several at once. On failure *failed is the index in `samples` that failed, and
     * the error names file, field and offset (the caller adds the sample id). Those for a storage that no field has,
     * and all behind `mark`, may be NULL. */

    /* MAPPED fields: a pointer to each value, valid while the source is open; read it inside leat_guarded.
     * `cold` is NULL or room for n values (of at most LEAT_COLD_VALUE bytes each), aligned as the values are: a source
     * may read values there, one after the other, where touching its mapping would make far more of the file count as
     * this process's memory than is used. Pointers into it are valid while the caller keeps it. */
    int (*rows)(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                const void **rows, size_t *failed, struct leat_error *error);
    /* EXTENT fields. `length` is the bytes of a value if the field is of fixed size. */
    int (*extents)(struct leat_source *source, size_t field, const uint64_t *samples, size_t n,
                   struct leat_extent *extents, size_t *failed, struct leat_error *error);
    /* BEHIND fields: the data set, and the field and the position there, that the value of a field and sample is of.
     * `sample` may be NULL. */
    const struct leat_dataset *(*behind)(const struct leat_source *source, size_t *field, uint64_t *sample);
    /* EXTENT fields: makes of `extent`, the place of a sample's value, that of the pages in which its bytes [begin,
     * begin + length) lie, and which can be verified without the rest of it. False: there are none such, or their
     * checksums are damaged. May be NULL. */
    bool (*piece)(struct leat_source *source, uint64_t sample, struct leat_extent *extent, uint64_t begin,
                  uint64_t length);
    /* Verifies such pages; `data`: their bytes as they were read, or `mapped`, in place. CORRUPT, IO. */
    int (*check_piece)(struct leat_source *source, uint64_t sample, const struct leat_extent *pages,
                       const uint8_t *data, bool mapped, struct leat_error *error);
    /* EXTENT fields of a source that `looks_up`: what `extents` reads to find a sample, as file, offset and length of
     * at most LEAT_LOOKUPS ranges; returns how many. The caller may bring them into the cache of their file first, by
     * requests without a buffer: then `extents` does not wait. */
    size_t (*lookups)(struct leat_source *source, size_t field, uint64_t sample, struct leat_extent *ranges);
    /* COMPUTED fields: puts the values of `fields` (at most n_fields of the source's) of up to some hundred samples
     * into `out`, which was initialised for that many. It may take long and is called without locks. On failure *failed
     * is the index in `samples` of the one that is to blame, or `n` if that is not known. */
    int (*compute)(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error);
    /* Samples that a call of `compute` had better be for, at most, because it costs much beside a value: those of
     * several batches. It may grow later. 0, and NULL: a call costs little. */
    size_t (*asks_many)(const struct leat_source *source);
    /* COMPUTED fields of fixed size whose values follow from the batch that a sample is a row of, too. In the place of
     * `compute`: writes the values of n samples to to[i] for fields[i], one behind the other. `rows`: NULL, each sample
     * is read by itself. Loaders keep the order of such a source. *failed as above. */
    int (*fill)(struct leat_source *source, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                const struct leat_batch_rows *rows, uint8_t *const *to, size_t *failed, struct leat_error *error);
    /* The bytes of a value that varies, without reading it; UINT64_MAX: not known here. It does not wait. May be NULL.
     */
    uint64_t (*length)(struct leat_source *source, size_t field, uint64_t sample);
    /* COMPUTED fields: a value that lies in memory as long as the source is open. May be NULL. */
    const uint8_t *(*in_memory)(const struct leat_source *source, size_t field, uint64_t sample, uint64_t *bytes);
    /* EXTENT fields: a file; release it with leat_io_release. It does not wait: what must be opened first is opened by
     * reading it (leat_io_open_listed). A file that differs from what the source was opened with (size, time) is
     * LEAT_E_CHANGED then. */
    int (*file)(struct leat_source *source, uint64_t file, struct leat_io_file **out, struct leat_error *error);
    /* EXTENT fields: `extent`, which may be of a part of the value, is read next. If it is mapped, asks the processor
     * for its first bytes, and returns true. May be NULL. */
    bool (*expect)(const struct leat_source *source, uint64_t sample, const struct leat_extent *extent);
    /* EXTENT fields: remembers for this process that a value was verified, and found good or broken. */
    void (*mark)(struct leat_source *source, size_t field, uint64_t sample, bool verified, enum leat_health health);
    /* EXTENT fields: the bytes at a value's extent are not what was written. The index that led to them is read and
     * verified anew when it is wanted again. May be NULL. */
    void (*doubt)(struct leat_source *source, size_t field, uint64_t sample);
    /* Gives back what `keep` was told of a photo, if its extent says so. Copies the row index if that lies apart (else
     * `length` is 0). `checksum`: NULL, or leat_hash64 of the photo's bytes, which is compared with that of those that
     * were good. False: lost, or other bytes; it may then be kept anew. NULL where no extent says
     * so. */
    bool (*recall)(struct leat_source *source, size_t field, uint64_t sample, uint8_t *to, uint32_t length,
                   const uint64_t *checksum);
    /* Remembers a photo that is good to its end: the checksum of its bytes, and a copy of its row index
     * (codec/jpeg/rows.h; length 0: it has none), which `extents` then gives. A source may forget or refuse any. May be
     * NULL. */
    void (*keep)(struct leat_source *source, size_t field, uint64_t sample, const void *photo, size_t photo_bytes,
                 const uint8_t *rows, size_t length);
    /* Looks whether files that values are reached in have changed since they were verified, by what the system says of
     * them (size, times): then they are verified again when they are reached. CHANGED: they cannot be. May be NULL. */
    int (*refresh)(struct leat_source *source, struct leat_error *error);
    /* The whole column of a fixed field if it lies in one piece, verified, else NULL and LEAT_OK. */
    int (*column)(struct leat_source *source, size_t field, const void **data, struct leat_error *error);
    /* MAPPED fields: values of samples `sample`, sample + 1, ... that lie one behind the other, verified: *got of them,
     * at most n; 0: they do not. Read them inside leat_guarded. May be NULL. */
    int (*span)(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data, uint64_t *got,
                struct leat_error *error);
    /* EXTENT fields of a source whose extents have the checksums of the values without reading these, so that values of
     * equal length and checksum are equal. */
    bool checksums;
    /* The texts of a field as codes, if it keeps them; each code is below n, and each text is one of its kind. May be
     * NULL. */
    int (*codes)(struct leat_source *source, size_t field, struct leat_source_codes *out, struct leat_error *error);
    /* Checks every byte (leat_verify), and tells of each fault by leat_source_tell_fault; one that ends it may be its
     * error alone. CORRUPT: there were some. May be NULL. */
    int (*verify)(struct leat_source *source, const struct leat_verify_options *options, uint64_t first_id,
                  struct leat_error *error);
    /* The part of leat_dataset_about that one file has, without reading payloads. May be NULL. */
    int (*about)(struct leat_source *source, struct leat_source_about *out, struct leat_error *error);
    /* Fills path, line and offset of a record's place; `sample` and `path` are those of the source before. IO, CHANGED,
     * CORRUPT, NOMEM. NULL: there are no lines. */
    int (*place)(struct leat_source *source, uint64_t sample, struct leat_sample_place *out, struct leat_error *error);
    /* The i-th record that was left out because it is broken; false: there are no more. NULL: there are none. */
    bool (*left_out)(struct leat_source *source, uint64_t i, struct leat_source_left_out *out);
};

/* Every format's source begins with this, filled by open. Strings and arrays live as long as the source. */
struct leat_source {
    const struct leat_source_vtable *v;
    const char *path;
    uint64_t count;
    const struct leat_field *fields; /* the user's, then derived ones; what is no array has the dtype LEAT_U8 */
    size_t n_fields;
    const uint8_t *storage;     /* enum leat_storage of each field */
    bool looks_up;              /* `extents` reads an index that may not be in memory */
    const char *const *classes; /* of the field "label"; NULL: it has none */
    size_t n_classes;
    bool classes_apart;      /* they were named later, and are not in the fingerprint */
    const bool *lacks;       /* of each field: whether samples may have no value; NULL: of none */
    const char *metadata;    /* JSON object, "{}" if there is none */
    const char *notice;      /* "" or a note for a person */
    uint64_t fingerprint[2]; /* joinable sums over the samples: format/fingerprint.h */
    bool by_value;           /* these are over the values of its fields, as a writer sums them up */
    bool converted;          /* from another data set, whose sums stand in the place of these: */
    uint64_t of_source[2];
    _Atomic uint64_t changes; /* how often `refresh` has found that files changed */
};

/* The sums of a source in the fingerprint of a data set. */
static inline const uint64_t *leat_source_sums(const struct leat_source *source)
{
    return source->converted ? source->of_source : source->fingerprint;
}

/* Every known format, ended by NULL: leat's own, then those of formats.def. */
extern const struct leat_source_vtable *const leat_formats[];
extern const struct leat_source_vtable leat_format_native; /* store/reader.c */
#define LEAT_FORMAT(name) extern const struct leat_source_vtable leat_format_##name;
#include "format/formats.def"
#undef LEAT_FORMAT

/* Finds the format of `path`, or takes the one that the options name, and opens it.
 * A manifest of shards is opened by src/data, which joins its parts. */
int leat_source_open(const char *path, const struct leat_open_options *options, struct leat_source **out,
                     struct leat_error *error);
/* Several files of one format that opens them together; *out is NULL, and nothing is wrong, if theirs does not, or not
 * all have that format. */
int leat_source_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                           struct leat_source **out, struct leat_error *error);
/* If `path` or its annotations are not there, or these are a folder that holds none, adds to the error that says so
 * what may be meant. */
void leat_source_suggest(const char *path, const struct leat_open_options *options, struct leat_error *error);
/* Whether a source that was opened says all that others rely on: the types of its fields, and the functions for their
 * storage. INVALID: its format has a mistake. */
int leat_source_check(const struct leat_source *source, struct leat_error *error);
void leat_source_close(struct leat_source *source); /* NULL is allowed */
/* The error of leat_verify where `path` has no checksums. */
int leat_source_fail_unsummed(const struct leat_source *source, const char *path, struct leat_error *error);
/* Says to whoever verifies what LEAT_OK stands for; LEAT_VERIFIED_SUMS if it is not said. */
void leat_source_tell_verified(const struct leat_verify_options *options, enum leat_verified verified);
/* Whether an error of a file is a fault of its bytes, not a failure of the check. */
bool leat_source_is_fault(int code);
/* Tells whoever verifies of a fault, and counts it. CANCELLED: that was to be the last. */
int leat_source_tell_fault(const struct leat_verify_options *options, const struct leat_error *fault, const char *path,
                           uint64_t *faults, struct leat_error *error);

#endif
