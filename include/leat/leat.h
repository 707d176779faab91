/*
 * leat: the data plane of model training.
 *
 * leat takes samples at rest and delivers batches: in a declared order, exactly once, resumable at any batch.
 * The nouns, in the order in which a program meets them:
 *
 *     writer   makes a file (or shards with a manifest) of samples with a schema of named, typed fields
 *     dataset  an opened file, manifest or folder, or a view of one; random access by position
 *     loader   a data set, an order and a program of operators; gives batch after batch
 *     batch    one tensor per output; the caller's for as long as the caller holds it
 *
 * Conventions, for every function below:
 *
 *   - Functions that can fail return 0 (LEAT_OK) or a negative LEAT_E_* code; their last parameter is a caller-owned
 *     `struct leat_error *`, which may be NULL. The library never exits, aborts or prints.
 *   - An object from `_new` or `_open` belongs to the caller, who frees it with the matching `_free`, `_close` or
 *     `_release`. On failure the out parameter is set to NULL.
 *   - Strings are UTF-8 and NUL-terminated; a `char *` that a function returns is freed with leat_free().
 *   - Threads: an object may be used from any thread, from one thread at a time, unless its comment says more.
 *   - fork: data sets may be used on both sides of a fork. A loader may be used only in the process that opened it:
 *     elsewhere its functions return LEAT_E_FORKED.
 *   - Positions and sample ids are below 2^63.
 *
 * Structures of options begin with `struct_size`, which LEAT_*_OPTIONS_INIT sets, so that a program compiled against
 * this header keeps working with a later library.
 */
#ifndef LEAT_LEAT_H
#define LEAT_LEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LEAT_API __attribute__((visibility("default")))
#else
#define LEAT_API
#endif

#define LEAT_VERSION "0.1.0"

/* The version of the library that is running, "major.minor.patch". Never NULL, static. Any thread. */
LEAT_API const char *leat_version(void);

/* Cores that this process may use: the smaller of its affinity mask and its cgroup's (v1 or v2) quota rounded up; at
 * least 1. Each call reads both again, because affinity changes. Any thread. */
LEAT_API unsigned leat_cpu_count(void);

/* Bytes of memory that this process may use: the smallest of physical memory, cgroup limits and RLIMIT_AS. Any
 * thread. */
LEAT_API uint64_t leat_memory_allowed(void);
/* Bytes that batches may still take: half of leat_memory_allowed, less what loaders of this process and memory shared
 * with its workers have. Any thread. */
LEAT_API uint64_t leat_memory_left(void);

/* For programs that Ctrl-C must reach: each thread that waits for a read, for trying it again or for the PNGs of a
 * panoptic file asks `stop` about ten times a second. It may take any time. Once it is true, the read is cancelled, and
 * the thread's call fails with LEAT_E_CANCELLED. It holds for the whole process; NULL: no thread asks, as at first. Any
 * thread. */
LEAT_API void leat_set_interrupt(bool (*stop)(void));

/* ---- errors ---------------------------------------------------------------------------------- */

enum leat_status {
    LEAT_OK = 0,
    LEAT_E_NOMEM = -1,        /* memory could not be allocated */
    LEAT_E_INVALID = -2,      /* an argument is not valid */
    LEAT_E_RANGE = -3,        /* a position, step or size is out of range */
    LEAT_E_IO = -4,           /* the system refused a read, write, map, sync or rename; sys_errno says why */
    LEAT_E_NOT_FOUND = -5,    /* no such file, field, class or record */
    LEAT_E_EXISTS = -6,       /* the target exists and overwriting was not asked for */
    LEAT_E_BUSY = -7,         /* another process writes this target */
    LEAT_E_FORMAT = -8,       /* not a format that leat reads, or a version that this library does not know */
    LEAT_E_CORRUPT = -9,      /* bytes at rest differ from those written: checksum, truncation, impossible value */
    LEAT_E_UNFINISHED = -10,  /* the file was never finished: resume or write again */
    LEAT_E_CHANGED = -11,     /* the source changed since (resume of a pack, file replaced under a loader) */
    LEAT_E_TYPE = -12,        /* a program does not fit its data; the text names the operator and what would fit */
    LEAT_E_DECODE = -13,      /* a sample is broken: its bytes do not decode */
    LEAT_E_BUDGET = -14,      /* the byte budget is too small; the text says how much is needed */
    LEAT_E_HELD = -15,        /* the caller holds more batches than max_held_bytes allows */
    LEAT_E_STATE = -16,       /* a saved state does not belong to this data set, order or version */
    LEAT_E_FORKED = -17,      /* a loader was used in a process that did not open it */
    LEAT_E_CLOSED = -18,      /* the object was closed, or a newer iteration began */
    LEAT_E_CANCELLED = -19,   /* interrupted by request */
    LEAT_E_TIMEOUT = -20,     /* the time that the caller gave has passed; calling again goes on */
    LEAT_E_END = -21,         /* the epoch has no further batch; not a failure */
    LEAT_E_UNSUPPORTED = -22, /* a feature that this build or machine lacks */
    LEAT_E_OPERATOR = -23     /* a sample is broken: a function of the user's failed on it */
};

#define LEAT_NO_SAMPLE INT64_C(-1)
#define LEAT_NO_OFFSET INT64_C(-1)

/* The error and its place. Filled only when a function fails. Without a file or field the text is empty; without a
 * sample or offset the number is -1. `message` is one or more sentences; the last says what to do. */
struct leat_error {
    int code;       /* LEAT_E_* */
    int sys_errno;  /* errno, or 0 */
    int64_t sample; /* sample id, or LEAT_NO_SAMPLE */
    int64_t offset; /* byte offset in `file` or in the sample's value, or LEAT_NO_OFFSET */
    char file[512]; /* path, cut at the front if longer */
    char field[64]; /* field or output */
    char message[1024];
};

/* The name ("LEAT_E_IO") and one line of text of a code. Never NULL, static. Any thread. */
LEAT_API const char *leat_status_name(int code);
LEAT_API const char *leat_status_text(int code);

/* Writes to `out` (of `room` bytes, cut to fit) a form of `text` that is safe to print. The text may be anything, such
 * as a name from a file: control characters, marks that change the direction of writing, and bytes that are not UTF-8
 * become \xNN. Returns `out`. leat's own messages, notes and log are escaped already. Any thread. */
LEAT_API char *leat_escape(const char *text, char *out, size_t room);

/* The one of n names that is probably meant by a word that is none of them, as errors ask "did you mean ...?": a third
 * of its letters differ, or fewer, rounded, in upper or lower case, or the word is a part of the name ("threads" of
 * "num-threads"). NULL: none is near. Any thread. */
LEAT_API const char *leat_nearest(const char *word, const char *const *names, size_t n);

/* Frees a string or array that leat returned. NULL is allowed. Any thread. */
LEAT_API void leat_free(void *p);

/* ---- types and schemas ----------------------------------------------------------------------- */

enum leat_dtype {
    LEAT_U8 = 1,
    LEAT_I8,
    LEAT_U16,
    LEAT_I16,
    LEAT_U32,
    LEAT_I32,
    LEAT_U64,
    LEAT_I64,
    LEAT_F16,
    LEAT_BF16,
    LEAT_F32,
    LEAT_F64,
    LEAT_BOOL
};

enum leat_kind {
    /* a scalar (ndim 0) or array of `dtype`; shape[0] may be -1: it varies from sample to sample */
    LEAT_KIND_ARRAY = 1,
    LEAT_KIND_BYTES, /* any bytes */
    LEAT_KIND_STR,   /* UTF-8 text */
    LEAT_KIND_JSON,  /* a JSON document as UTF-8 text */
    /* from here on values are encoded, and have a codec */
    LEAT_KIND_IMAGE /* a photo's file, unchanged; docs/photos.md lists the formats */
};
/* "array", "bytes", "str", "json", "image"; "" for an unknown kind. Any thread. */
LEAT_API const char *leat_kind_name(enum leat_kind kind);

/* The format that the header of an encoded photo gives: a number as in the derived field F.kind; 0 if it makes no
 * sense. And the name of such a number: "JPEG", "PNG" ...; "other" for 0 and numbers that this version does not know.
 * And the suffix of such files: ".jpg", ".png" ...; ".bin" for those. Never NULL, static. Any thread. */
LEAT_API unsigned leat_photo_kind(const void *data, size_t length);
LEAT_API const char *leat_photo_kind_name(unsigned kind);
LEAT_API const char *leat_photo_kind_suffix(unsigned kind);
/* The EXIF orientation of an encoded photo, 1 to 8: from 5 on, turning it exchanges width and height. 1 if there is
 * none or it makes no sense. Any thread. */
LEAT_API unsigned leat_photo_orientation(const void *data, size_t length);

enum leat_layout { LEAT_LAYOUT_NONE = 0, LEAT_LAYOUT_HWC, LEAT_LAYOUT_CHW };

#define LEAT_MAX_DIMS 8
#define LEAT_FIELD_DERIVED 1u /* made by leat (name, image.width ...), outside the fingerprint */
#define LEAT_FIELD_FILES 2u   /* each value is one file of a folder, byte for byte */
#define LEAT_FIELD_PIXELS 4u  /* images that may be pixels, which were never a file (docs/format.md) */

/* The relation of a field to the image of its sample. A chain over a tuple of fields moves it as it moves the image
 * (docs/targets.md). Boxes are float32 (any, 4); keypoints are float32 (any, k, 3): x, y and visibility; a mask is an
 * encoded image of class ids; masks are those of instances, as polygons or runs in LEAT_KIND_BYTES (docs/format.md).
 * A sparse row is uint8 (any, 4 + bytes of `item`): its n values, and behind them their columns, int32, rising. */
enum leat_role {
    LEAT_ROLE_NONE = 0,
    LEAT_ROLE_BOXES_XYXY,   /* two corners */
    LEAT_ROLE_BOXES_XYWH,   /* a corner, width and height */
    LEAT_ROLE_BOXES_CXCYWH, /* the centre, width and height */
    LEAT_ROLE_MASK,
    LEAT_ROLE_KEYPOINTS,
    LEAT_ROLE_MASKS,
    LEAT_ROLE_SPARSE /* no relation to an image: a row of a sparse matrix */
};

struct leat_field {
    const char *name; /* [A-Za-z_][A-Za-z0-9_.-]*, at most 63 bytes; a dot only in derived fields */
    enum leat_kind kind;
    enum leat_dtype dtype; /* of an array; LEAT_U8 for the other kinds */
    enum leat_layout layout;
    unsigned flags; /* LEAT_FIELD_* */
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS];
    enum leat_role role;
    bool normalized; /* of boxes: in units of the image's width and height, else in pixels */
    /* For keypoints: 2 * n_pairs numbers of points, left and right of each other, which operators that mirror the image
     * exchange. They live as long as the name. NULL if there are none. */
    const uint16_t *pairs;
    size_t n_pairs;
    enum leat_dtype item; /* of sparse rows: that of the values */
    int64_t columns;      /* of sparse rows: how many the matrix has, 1 to 2^31 - 1; of others 0 */
};

/* Counts of boxes by their relation to the images that they lie in. A box that reaches out of its image by a pixel lies
 * in it: annotations are often rounded. Begin with zeroes. */
struct leat_box_counts {
    uint64_t count;                /* all boxes; each is of one of the next four kinds at most */
    uint64_t not_finite;           /* a number that is none, or infinite */
    uint64_t empty;                /* without area, or inverted */
    uint64_t outside;              /* they do not meet their image */
    uint64_t cut;                  /* they reach out of it, by more than a pixel */
    uint64_t tiny;                 /* a side below a pixel; counted apart from the others */
    uint64_t fits[3];              /* as xyxy, xywh and cxcywh in pixels they would lie in it; */
    uint64_t fits_normalized[3];   /* in units of its width and height; */
    uint64_t fits_turned, in_unit; /* were its sides exchanged; no number is beyond 0 to 1 */
};
/* Counts a box of a field of boxes. `width` and `height` of the image, 0 if they are not known. Returns whether it lies
 * in its image. One thread at a time for each struct. */
LEAT_API bool leat_box_counts_add(struct leat_box_counts *counts, const struct leat_field *field, const float box[4],
                                  double width, double height);
LEAT_API void leat_box_counts_join(struct leat_box_counts *to, const struct leat_box_counts *from);
/* Whether so many boxes do not fit (5 and more, and more than one in 20; or half of those in pixels lie in a single
 * pixel) that they probably have another format. `out` (room for 300 bytes is enough) says how many, and which one
 * nearly all of them would fit: "113 of 155 boxes do not fit their image (101 reach out of it, ..): are they xyxy?" */
LEAT_API bool leat_box_counts_suspect(const struct leat_box_counts *counts, const struct leat_field *field, char *out,
                                      size_t room);

/* Bytes per element, 0 for an unknown dtype; its numpy name ("float32"); the reverse (0 if unknown). Any thread. */
LEAT_API size_t leat_dtype_size(enum leat_dtype dtype);
LEAT_API const char *leat_dtype_name(enum leat_dtype dtype);
LEAT_API enum leat_dtype leat_dtype_from_name(const char *name);

/* ---- writer ---------------------------------------------------------------------------------- */

struct leat_writer; /* opaque. One thread at a time. */

enum leat_on_bad {
    LEAT_BAD_MARK = 0,
    LEAT_BAD_SKIP,
    LEAT_BAD_RAISE,
    LEAT_BAD_AUTO /* of opening only: SKIP for annotations, RAISE for records of text */
};

/* The form in which photos are stored. Decoding gives the same pixels from each form, except that RAW ignores
 * dct_scaling. The fingerprint is the same too. */
enum leat_photos {
    /* Byte for byte as given. With `check`, JPEGs get a row index, under 1% of their bytes. */
    LEAT_PHOTOS_ORIGINAL = 0,
    /* JPEGs in a form that is decoded several times faster. Reading a value gives the original bytes. */
    LEAT_PHOTOS_FAST,
    /* 8-bit pixels. Reading a value gives these. */
    LEAT_PHOTOS_RAW
};

struct leat_writer_options {
    size_t struct_size;
    bool check;                 /* decode every photo to its end (entropy decoding only) and mark broken ones */
    bool overwrite;             /* replace an existing target when finished; the old one stays until then */
    bool resume;                /* continue an unfinished target after its last complete sample */
    enum leat_on_bad on_bad;    /* treatment of a broken photo */
    uint64_t shard_bytes;       /* 0: one file; else start a new shard once a file has this many bytes */
    unsigned num_threads;       /* 0: as many as cgroups and affinity allow */
    const char *metadata;       /* a JSON object, or NULL */
    const char *const *classes; /* names of the classes of field `label`, or NULL */
    size_t n_classes;
    unsigned max_side;     /* 0, or: photos whose longer side is above this are resized and stored as JPEG */
    unsigned quality;      /* of those, 1 to 100; 0: 90 */
    const char *source_id; /* NULL, or a text that names the source; a resume with another one is LEAT_E_CHANGED */
    /* The form of photos, after max_side. FAST and RAW read each photo to its end and so find broken ones without
     * `check` too. A photo that cannot have the form (a PNG or WebP has no fast form) is stored unchanged and counted
     * by leat_writer_as_came. */
    enum leat_photos photos;
    /* Without `resume` and `overwrite`: an unfinished target that holds samples stays as it is, and the error is
     * EXISTS. If false, writing starts over. */
    bool keep_unfinished;
    /* Photos that libjpeg-turbo decodes with warnings (extraneous bytes, a premature end) are not broken.
     * leat_writer_warned counts them; a loader decodes them only with Decode(strict=False). */
    bool lenient;
};
#define LEAT_WRITER_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(struct leat_writer_options), true, false, false, LEAT_BAD_MARK, 0, 0, NULL, NULL, 0, 0, 0, NULL,        \
            LEAT_PHOTOS_ORIGINAL, false, false                                                                         \
    }

/* One value of one sample. `data` holds `length` bytes and is read before the call returns. For a field whose first
 * dimension varies, that dimension is length / (bytes of one row). If `path` is not NULL, the value is the contents of
 * that file: a thread of the writer reads it later, `length` must be its size, and `data` is ignored. The string is
 * copied. */
struct leat_value_ref {
    const void *data;
    uint64_t length;
    const char *path;
};

/* Starts writing `path`. Data go to `path`.partial, which is locked against other writers, and become visible under
 * `path` only by leat_writer_finish. `fields` are copied.
 * Errors: INVALID (schema, options), EXISTS (also keep_unfinished), BUSY, CHANGED (resume of another source), IO,
 * NOMEM, CORRUPT. */
LEAT_API int leat_writer_open(const char *path, const struct leat_field *fields, size_t n_fields,
                              const struct leat_writer_options *options, struct leat_writer **out,
                              struct leat_error *error);

/* Number of samples added so far. After a resume it is the number of complete samples, which must not be added again.
 * The file holds all of them but those that LEAT_BAD_SKIP leaves out; leat_writer_progress counts these. */
LEAT_API uint64_t leat_writer_count(const struct leat_writer *writer);

/* Adds one sample: `values` in the order of the fields given at open. `*id` (may be NULL) receives its number among the
 * samples added, which is its sample id unless LEAT_BAD_SKIP leaves out an earlier one.
 * The writer's threads do the work, so a later call may return the error of an earlier sample, with that sample's id.
 * After an error only leat_writer_free is allowed.
 * Errors: INVALID (length does not fit the field, text is not UTF-8 or JSON), IO (disk full), NOMEM, DECODE. */
LEAT_API int leat_writer_add(struct leat_writer *writer, const struct leat_value_ref *values, uint64_t *id,
                             struct leat_error *error);

/* Adds `n` samples whose fields all have fixed size: columns[f] points to n consecutive values of field f. */
LEAT_API int leat_writer_add_columns(struct leat_writer *writer, const void *const *columns, uint64_t n,
                                     struct leat_error *error);

/* The amount written so far, for progress; safe while another thread adds. */
struct leat_writer_progress {
    uint64_t samples; /* written */
    uint64_t bytes;   /* written */
    uint64_t broken;  /* samples marked as broken */
    uint64_t skipped; /* samples left out */
    uint64_t as_came; /* photos that could not have the form asked for and are stored unchanged */
};
LEAT_API void leat_writer_progress(const struct leat_writer *writer, struct leat_writer_progress *out);

/* The i-th broken or skipped sample, in the order of samples; false past the last one. Strings live as long as the
 * writer. Call after leat_writer_finish or between adds. */
struct leat_bad_sample {
    uint64_t index; /* among the samples added */
    bool skipped;
    const char *name; /* its path if it was added by path, else "" */
    const char *reason;
};
LEAT_API bool leat_writer_bad(const struct leat_writer *writer, size_t i, struct leat_bad_sample *out);

/* Why photos could not have the form asked for, the most frequent reason first; false past the last one. `reason` lives
 * as long as the writer. Call after leat_writer_finish or between adds. */
struct leat_as_came {
    const char *reason;
    uint64_t photos;
};
LEAT_API bool leat_writer_as_came(const struct leat_writer *writer, size_t i, struct leat_as_came *out);
/* The same for the warnings that `lenient` accepts. A photo with several kinds of damage counts for each. */
LEAT_API bool leat_writer_warned(const struct leat_writer *writer, size_t i, struct leat_as_came *out);

/* The boxes of a field (of those given at open) beside the photos of their samples, as far as written by this writer.
 * False: it is no field of boxes, or there is no image. Call after leat_writer_finish or between adds. */
LEAT_API bool leat_writer_boxes(const struct leat_writer *writer, size_t field, struct leat_box_counts *out);

/* Completes the file and makes it visible: fsync of file and folder, then rename. The writer must still be freed.
 * Errors: those of earlier samples; INVALID (not all samples of leat_writer_set_source, or more), after which it may be
 * called again; EXISTS, IO, NOMEM. */
LEAT_API int leat_writer_finish(struct leat_writer *writer, struct leat_error *error);
/* As leat_writer_finish, with other metadata (a JSON object) than those given at open: for facts that are known only
 * now, such as counts of records left out. A resumed run still opens with those of the first time. The last shard has
 * them; its metadata are those of the data set. Errors: those of leat_writer_finish; INVALID (no JSON object), after
 * which it may be called again. */
LEAT_API int leat_writer_finish_as(struct leat_writer *writer, const char *metadata, struct leat_error *error);

/* Frees the writer. An unfinished `path`.partial stays for a resume if `keep_partial`, else it is removed. */
LEAT_API void leat_writer_free(struct leat_writer *writer, bool keep_partial);

/* ---- data sets ------------------------------------------------------------------------------- */

struct leat_dataset; /* opaque, reference-counted, immutable. Any thread, several at once. */

/* When the checksum of a value that is read from a file is compared: on the first read in a process, always or never. A
 * photo of a folder that has no checksum yet is decoded to its end instead. Columns of fixed size are mapped, not read.
 * Unless NEVER is given, their pages are verified on first touch, and again after the file's size or times have
 * changed; leat looks at these when an epoch of a loader begins and when a column is read. */
enum leat_recheck { LEAT_RECHECK_FIRST = 0, LEAT_RECHECK_ALWAYS, LEAT_RECHECK_NEVER };
enum leat_labels { LEAT_LABELS_AUTO = 0, LEAT_LABELS_FOLDERS, LEAT_LABELS_NONE };

enum leat_documents { LEAT_DOCUMENTS_LINES = 0, LEAT_DOCUMENTS_PARAGRAPHS, LEAT_DOCUMENTS_FILES };

struct leat_open_options {
    size_t struct_size;
    const char *format;      /* NULL or "auto", or "leat", "folder", "idx", "coco", "yolo", "voc", "masks", "jsonl",
                              * "megatron", "fasta", "fastq", "tar", "beton", "tfrecord", "mds", "litdata", "npy",
                              * "npz", "safetensors", "text", "events", "jodie", "tgn" */
    enum leat_labels labels; /* of a folder; AUTO: by sub-folder, if there are any */
    enum leat_recheck recheck;
    /* NULL, or a folder in which a folder of photos keeps, from process to process, the row indexes of its JPEGs and
     * the checksums of its good photos (docs/datasets.md). It is made when there is something to write. Any number of
     * folders and processes may share it. If it cannot be read or written, the log says so and only time is lost.
     * LEAT_E_INVALID: it is a file, or it lies below the folder of photos, where it would be taken for a class unless
     * its name begins with a dot. Files of text keep their indexes there, and beside themselves without one
     * (docs/text.md). */
    const char *index_dir;
    /* NULL, or the annotations of the photos in the folder that is opened: a COCO file, or the folder of YOLO's or
     * Pascal VOC's files, which are read to their end, or of PNGs of class ids (docs/datasets.md). With the format
     * "masks" a panoptic file of COCO has masks of class ids, too. */
    const char *annotations;
    /* The treatment of faults in the annotations: an entry is left out and counted (LEAT_BAD_SKIP), or its sample is
     * marked as broken, too (MARK), or opening fails with LEAT_E_CORRUPT, or LEAT_E_NOT_FOUND for a missing photo
     * (RAISE). */
    /* Or of faults in records of text: they are left out and counted (SKIP), or keep their places and fail when they
     * are read (MARK), or opening fails with LEAT_E_CORRUPT (RAISE). */
    enum leat_on_bad on_bad;
    /* The names of the classes by their numbers, for YOLO's files and masks, which say only the numbers, and for Pascal
     * VOC's, in which a class outside of them is a fault; NULL: those that the files have. */
    const char *const *classes;
    size_t n_classes;
    /* NULL, or called some times a second if opening takes long, by the thread that opens: so many of the files of
     * annotations were read, or of the PNGs of a panoptic file. Anything but 0 stops: LEAT_E_CANCELLED. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* Compares the width and height that COCO's and Pascal VOC's annotations say with the headers of all photos, not
     * only of 64. Another size is a notice; with LEAT_BAD_RAISE it is LEAT_E_CORRUPT. */
    bool check_sizes;
    /* The fields to take, in this order; NULL: all. Each has its `name`, in which '_' stands for what no name has, and
     * says what it is: `kind` 0, as it is found, or else with dtype, layout, ndim and shape. Of records of text "meta"
     * is all that is below it, and a kind is LEAT_KIND_JSON: the value as it stands in the file, whatever it is. Files
     * in a tar may be of any kind: LEAT_KIND_BYTES is what they are. Fields of a format that fixes them are of the kind
     * that they have, or INVALID; a layout may be another one. */
    const struct leat_field *fields;
    size_t n_fields;
    enum leat_documents documents; /* the unit that is a sample of plain text */
    /* Of files of events (docs/events.md): events out of order are sorted by time, those of equal time as they stand in
     * the file, and are no error. */
    bool sort;
    /* Of files of events, NULL or a file of NumPy (.npy) whose rows are the features of the events, in the order in
     * which these stand in the file; of "tgn" by `idx`. */
    const char *features;
    /* Of chunks of LitData that hold tokens without borders: so many of them are a sample. 0: not said. */
    uint64_t block;
    bool verifying; /* internal: for leat_verify, which needs no fields */
};
#define LEAT_OPEN_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(struct leat_open_options), NULL, LEAT_LABELS_AUTO, LEAT_RECHECK_ALWAYS, NULL, NULL, LEAT_BAD_AUTO,      \
            NULL, 0, NULL, NULL, false, NULL, 0, LEAT_DOCUMENTS_LINES, false, NULL, 0, false                           \
    }

/* The files that n paths and patterns stand for, in their order: part-{000..009}.jsonl, each number with the zeros in
 * front that the first one has; part-*.jsonl, those that are there, sorted bytewise by name, without what leat has put
 * beside them (? and [...] as in a shell, too). A path that exists is itself. Shards that a manifest among the files
 * names are left out. *paths: an array that is one block, freed with leat_free. Any thread. Errors: NOT_FOUND (no file
 * fits a pattern with a star), INVALID (a range does not rise, too many files), NOMEM. */
LEAT_API int leat_paths_expand(const char *const *given, size_t n, char ***paths, size_t *n_paths,
                               struct leat_error *error);

/* Opens a file, a manifest or a folder of photos. Reads only headers and directories, and annotations.
 * Errors: NOT_FOUND, FORMAT, CORRUPT, UNFINISHED, INVALID, IO, NOMEM, CANCELLED (leat_set_interrupt, `progress`). */
LEAT_API int leat_dataset_open(const char *path, const struct leat_open_options *options, struct leat_dataset **out,
                               struct leat_error *error);
/* Several files, one after the other, as leat_dataset_concat joins them; files of records of text become one source,
 * whose fields are those of any of them. Errors: those of leat_dataset_open and leat_dataset_concat; INVALID: none. */
LEAT_API int leat_dataset_open_files(const char *const *paths, size_t n, const struct leat_open_options *options,
                                     struct leat_dataset **out, struct leat_error *error);
LEAT_API struct leat_dataset *leat_dataset_retain(struct leat_dataset *dataset); /* returns its argument */
LEAT_API void leat_dataset_release(struct leat_dataset *dataset);                /* NULL is allowed */

LEAT_API uint64_t leat_dataset_count(const struct leat_dataset *dataset);
/* The fields, derived ones last; the array lives as long as the data set. */
LEAT_API const struct leat_field *leat_dataset_fields(const struct leat_dataset *dataset, size_t *n);
/* Names of the classes of `label` in the order of their numbers; *n is 0 if there are none. */
LEAT_API const char *const *leat_dataset_classes(const struct leat_dataset *dataset, size_t *n);
/* The user's metadata, a JSON object ("{}" if none). */
LEAT_API const char *leat_dataset_metadata(const struct leat_dataset *dataset);
/* 128 bits over schema and contents: see docs/format.md. Equal for a folder and its pack, and for a data set and what
 * was converted from it (leat_writer_set_source). */
LEAT_API void leat_dataset_fingerprint(const struct leat_dataset *dataset, uint8_t out[16]);
/* Notes for a person, such as "the folder holds train/ and val/"; "" if none. */
LEAT_API const char *leat_dataset_notice(const struct leat_dataset *dataset);
/* The containers of the data set as JSON text, freed with leat_free:
 *
 *     {"format": "leat", "format_version": 1, "bytes": 123, "broken": 3, "skipped": 2,
 *      "boxes": {"count": 155, "cut": 2, "outside": 0, "empty": 1, "not_finite": 0},    (of annotations)
 *      "shards": [{"path": .., "count": .., "bytes": ..}],
 *      "photos": {"fast": {"count": 9, "bytes": 1310, "original_bytes": 1000}, "original": ..},
 *      "endless": 1,     (tars that end without the zeros that mark the end)
 *      "skipped_first": [{"file": .., "line": 7, "byte": 812, "reason": ..}],     (of records of text, at most 10)
 *      "fingerprint_of_values": ".."}     (of files of leat with the fingerprint of what they were converted from)
 *
 * A key is absent if its value is not known without reading the data. For a view it describes the files behind it.
 * Errors: NOMEM, IO, CORRUPT. */
LEAT_API int leat_dataset_about(const struct leat_dataset *dataset, char **json, struct leat_error *error);

/* The place from which the value of a field of the sample at `position` is read, for a message to a person. For a
 * compressed file offset and line are those of the decoded bytes. If the file has lines that are no records, they are
 * counted up to the record, or from an earlier one; so this is for errors, not for each sample. `path` lives as long as
 * the data set. Any thread.
 * Errors: RANGE (position or field), NOMEM, and of a file whose lines are counted IO, CHANGED, CORRUPT. */
struct leat_sample_place {
    const char *path; /* "" if there is no file */
    uint64_t sample;  /* its number in that file */
    uint64_t line;    /* from 1: the line on which its record begins; 0: the format has no lines */
    uint64_t offset;  /* of the record; 0 if `line` is */
};
LEAT_API int leat_dataset_place(const struct leat_dataset *dataset, uint64_t position, size_t field,
                                struct leat_sample_place *out, struct leat_error *error);

/* Views. A view refers to its base and shares its files. It takes memory for each interval of consecutive positions.
 * Errors: RANGE (a position or fraction out of range), INVALID (schemas differ), NOMEM. */
LEAT_API int leat_dataset_select(struct leat_dataset *dataset, const int64_t *positions, uint64_t n,
                                 struct leat_dataset **out, struct leat_error *error);
LEAT_API int leat_dataset_slice(struct leat_dataset *dataset, uint64_t begin, uint64_t end, uint64_t step,
                                struct leat_dataset **out, struct leat_error *error);
/* Their metadata stay if they are the same in all, and are {} if not; counts of records left out on the way to each
 * (docs/text.md, "skipped") add up. */
LEAT_API int leat_dataset_concat(struct leat_dataset *const *datasets, size_t n, struct leat_dataset **out,
                                 struct leat_error *error);
/* Parts of about fractions[i] of the samples, disjoint, by a keyed permutation, each in ascending order.
 * The fractions sum to at most 1. `outs` receives n data sets. */
LEAT_API int leat_dataset_split(struct leat_dataset *dataset, const double *fractions, size_t n, uint64_t seed,
                                struct leat_dataset **outs, struct leat_error *error);

/* The samples for which an SQL expression is true, in the order that they have: "language = 'en' AND length > 200". Its
 * columns are the fields that are numbers without dimensions, str, json (its null is NULL) or bytes; "NAME.length", the
 * number of elements of arrays whose first dimension varies; and "id", the sample's id. It is evaluated as SQLite does,
 * over all cores (docs/datasets.md). Subqueries and functions whose result does not follow from their arguments are
 * refused. Any thread; may take long.
 * Errors: INVALID (no such column, no SQL expression, refused), CANCELLED (leat_set_interrupt), NOMEM, and those of
 * reading: IO, CORRUPT, CHANGED. */
LEAT_API int leat_dataset_where(struct leat_dataset *dataset, const char *clause, struct leat_dataset **out,
                                struct leat_error *error);

/* The samples of two views of one data set taken together as sets: each sample once, in the order of the ids. Both are
 * views of the same opened data set, or of two whose files and fingerprints are the same. Any thread.
 * Errors: INVALID (views of other data sets), NOMEM. */
enum leat_combine { LEAT_COMBINE_AND = 0, LEAT_COMBINE_OR, LEAT_COMBINE_MINUS };
LEAT_API int leat_dataset_combine(struct leat_dataset *left, struct leat_dataset *right, enum leat_combine how,
                                  struct leat_dataset **out, struct leat_error *error);

/* The part of a data set that the run of a saved state was over: `view` is the value of "view" in the state, as JSON
 * text. `positions`: those of a select that was too long to stand there, which are compared with its hash; else NULL.
 * Errors: INVALID (no view; the positions are missing, or others), those of the views. */
LEAT_API int leat_dataset_view(struct leat_dataset *dataset, const char *view, const int64_t *positions, uint64_t n,
                               struct leat_dataset **out, struct leat_error *error);

/* Data sets of equal length side by side: fields "left.image" and "right.image" for the names "left" and "right". With
 * `bare`, the field of a data set that has only one takes the data set's name, without a dot. The fields of a data set
 * whose name is "" keep their names. `fields`: NULL, or the n_fields names that are taken, among those of the result;
 * the others are left out. Errors: INVALID (lengths or names that do not fit, a name twice), NOT_FOUND (no such field),
 * NOMEM. */
LEAT_API int leat_dataset_zip(struct leat_dataset *const *datasets, const char *const *names, size_t n, bool bare,
                              const char *const *fields, size_t n_fields, struct leat_dataset **out,
                              struct leat_error *error);

/* Arrays in memory, not copied. Value i of a field f of fixed size is dense and begins at
 * (char *)arrays[f].data + i * arrays[f].stride_bytes. The values of a field that varies in size (an open first
 * dimension, bytes, text, JSON) lie one after the other: value i is steps offsets[i] to offsets[i + 1] of `data`; a
 * step is a row of the value, or a byte. The caller leaves the memory unchanged until `release` (may be NULL) is called
 * with `user`, on any thread; if this function fails, it is not called. `version`: NULL, and all of the memory is read
 * once, for the fingerprint and to check text and JSON. Or a text that names the content: then nothing is read but
 * offsets, and the fingerprint is made of it, the schema and the count. Errors: INVALID (schema; offsets that descend
 * or are missing; text that is not UTF-8 or no JSON), RANGE, NOMEM. */
struct leat_array {
    const void *data;
    int64_t stride_bytes;  /* of a field that varies: not used */
    const void *offsets;   /* NULL, or of a field that varies count + 1 integers in ascending order, ... */
    unsigned offset_bytes; /* ... of 4 or 8 bytes */
};
LEAT_API int leat_dataset_from_arrays(const struct leat_field *fields, const struct leat_array *arrays, size_t n_fields,
                                      uint64_t count, const char *version, void (*release)(void *user), void *user,
                                      struct leat_dataset **out, struct leat_error *error);

/* A source that computes its values: for readers that live in another language or library. `compute` is given field
 * numbers and up to some hundred samples below `count`. It passes each value to leat_values_put, whose field_index and
 * sample_index are indices into these two arrays. It may be called on several threads at once and take as long as it
 * likes. It must be pure, because values may be computed again later. It returns LEAT_OK, or fills `error` and may set
 * *failed to the index in `samples` that is to blame. With LEAT_E_DECODE that sample is broken, and the policy of the
 * loader applies; any other code is raised. A source that may hang calls leat_values_cancelled now and then, and
 * returns LEAT_E_CANCELLED once it is true.
 * `version` (may be NULL) names the content: the fingerprint is made of it, the schema and the count.
 * Errors: INVALID (schema), RANGE, NOMEM. */
struct leat_values; /* opaque */
LEAT_API int leat_values_put(struct leat_values *values, size_t field_index, size_t sample_index, const void *data,
                             uint64_t bytes); /* copies. NOMEM */
LEAT_API bool leat_values_cancelled(const struct leat_values *values);
/* `compute` fails for a sample that has no value of a field (leat_dataset_may_lack), unless leat_values_may_lack says
 * that the caller can do without: leat_dataset_where, for which it is NULL. Then leat_values_lack stands for the
 * value. */
LEAT_API bool leat_values_may_lack(const struct leat_values *values);
LEAT_API void leat_values_lack(struct leat_values *values, size_t field_index, size_t sample_index);
typedef int (*leat_compute_fn)(void *user, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                               struct leat_values *out, size_t *failed, struct leat_error *error);
LEAT_API int leat_dataset_from_source(const struct leat_field *fields, size_t n_fields, uint64_t count,
                                      const char *version, leat_compute_fn compute, void (*release)(void *user),
                                      void *user, struct leat_dataset **out, struct leat_error *error);

/* More about a data set of leat_dataset_from_arrays or leat_dataset_from_source, to be given once, before it is used:
 * the names of the classes of `label`, which are copied and are no part of its fingerprint; and, for a source, the
 * fields in which samples may have no value. Errors: INVALID (another data set; a field that it lacks; said already),
 * NOMEM. */
LEAT_API int leat_dataset_name_classes(struct leat_dataset *made, const char *const *names, size_t n,
                                       struct leat_error *error);
LEAT_API int leat_dataset_may_lack(struct leat_dataset *made, const size_t *fields, size_t n, struct leat_error *error);

/* The masks of instances that `value`, of a field with LEAT_ROLE_MASKS, has: *n, and unless `pixels` is NULL each as
 * height * width bytes, row by row, 1 inside and 0 outside. Any thread. Errors: DECODE (the value is damaged; runs are
 * of an image of another size), NOMEM. */
LEAT_API int leat_masks_draw(const void *value, size_t length, uint32_t width, uint32_t height, uint8_t *pixels,
                             uint64_t *n, struct leat_error *error);

/* Sample ids of positions [position, position + n). */
LEAT_API int leat_dataset_ids(const struct leat_dataset *dataset, uint64_t position, uint64_t n, int64_t *ids,
                              struct leat_error *error);

/* One stored value, verified under the data set's recheck policy. `data` belongs to the value; free it with
 * leat_value_clear. `shape` is that of this sample. A photo is the file that was packed, also if it is stored in the
 * fast form. A photo stored as pixels is `decoded`, u8 [height][width][1 or 3], not turned by its orientation. */
struct leat_value {
    const void *data;
    uint64_t length;
    enum leat_dtype dtype;
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS];
    uint8_t orientation; /* EXIF orientation of a photo that is stored as pixels, 1 to 8; else 0 */
    bool decoded;        /* an encoded value that is stored as the array that it decodes to, with the array's dtype */
    uint32_t before;     /* ... behind a header of so many bytes, which a writer takes with it */
    void *owned;         /* internal */
};
LEAT_API int leat_dataset_read(const struct leat_dataset *dataset, uint64_t position, size_t field,
                               struct leat_value *out, struct leat_error *error);
/* Adds samples at positions [begin, begin + n) to a writer whose fields are these of the data set, in this order. The
 * writer may be used again after CANCELLED, which an interruption is (leat_set_interrupt). Errors: those of
 * leat_dataset_read and leat_writer_add. */
LEAT_API int leat_dataset_write(const struct leat_dataset *dataset, const size_t *fields, size_t n_fields,
                                uint64_t begin, uint64_t n, struct leat_writer *writer, struct leat_error *error);
/* Says that the file is a conversion of `dataset`: that the samples which are added are all of it, in its order and as
 * they are. The file then has its fingerprint, whatever that is made of, so that states of runs over it go on over the
 * file. `dataset` is read in this call only. Call it once, before the first sample is added. A writer that resumes
 * needs a source_id that holds the fingerprint of `dataset` as 32 hexadecimal digits: it shows that the samples which
 * are there are of this data set. Finishing with another number of samples is INVALID. Errors: INVALID: it is a view,
 * whose ids the file does not have; the writer has other fields or classes, has got samples or a source before, leaves
 * out or resizes photos (on_bad, max_side), or resumes without such a source_id; NOMEM. */
LEAT_API int leat_writer_set_source(struct leat_writer *writer, const struct leat_dataset *dataset,
                                    struct leat_error *error);
/* Rows [begin, begin + n) of a value of a field of varying arrays; fewer, or none, if the value ends before. Their
 * bytes alone are read, unless only the whole value has a checksum that is to be compared: a window of a chromosome
 * costs what the window has. Otherwise as leat_dataset_read. Errors: those, TYPE (the field has no varying arrays). */
LEAT_API int leat_dataset_read_part(const struct leat_dataset *dataset, uint64_t position, size_t field, uint64_t begin,
                                    uint64_t n, struct leat_value *out, struct leat_error *error);
LEAT_API void leat_value_clear(struct leat_value *value);
/* The value as leat_writer_add takes it; valid as long as the value is. */
LEAT_API struct leat_value_ref leat_value_given(const struct leat_value *value);

/* All values of a field of fixed size as one array of leat_dataset_count rows, verified. If they lie in one piece and
 * no `copy` is requested, the memory is the data set's and `owned` is NULL. It is a mapped file then: touching it after
 * the file was cut raises SIGBUS, so ask for a copy if that can happen. Otherwise the values are gathered into memory
 * of the column. With `lengths`, a varying field gives the lengths of its values in bytes, as u64. */
LEAT_API int leat_dataset_column(const struct leat_dataset *dataset, size_t field, bool lengths, bool copy,
                                 struct leat_value *out, struct leat_error *error);

/* ---- user functions -------------------------------------------------------------------------- */

/*
 * A program may call user functions among its own operators: leat.ops.Native in Python, "Native" in the JSON. The JSON
 * names a function by its index in leat_loader_options.functions; it never holds an address.
 *
 * Such a function makes one output value from one input value. It runs on the engine's threads, several at a time. It
 * must be a pure function of its input, because rows are computed again when a batch is requested again. It may
 * allocate and lock; it must not throw, jump out, end the thread, or keep a pointer that it was given.
 */
#define LEAT_NATIVE_VERSION 1

/* The type of a value. Values are dense, the last axis fastest, and aligned for their dtype. Images are HWC, or CHW if
 * their field is. */
struct leat_native_type {
    uint32_t dtype;  /* enum leat_dtype; LEAT_U8 of bytes, text, JSON and encoded photos */
    uint32_t layout; /* enum leat_layout */
    uint32_t ndim;
    uint32_t reserved; /* 0 */
    int64_t shape[LEAT_MAX_DIMS];
    int64_t strides[LEAT_MAX_DIMS]; /* in elements */
    uint64_t elements, bytes;
};

/* One call. Later versions append members: a function that uses one of those first looks whether `size` reaches it. */
struct leat_native_call {
    uint32_t version; /* LEAT_NATIVE_VERSION of the library that calls */
    uint32_t size;    /* sizeof(struct leat_native_call) there */
    const void *in;   /* may be NULL if in_type->bytes is 0 */
    const struct leat_native_type *in_type;
    void *out; /* zeroes, to be written */
    const struct leat_native_type *out_type;
    uint64_t key;          /* random: a function of (seed, epoch, row, instance of the operator) */
    int64_t sample;        /* sample id, or LEAT_NO_SAMPLE */
    const double *numbers; /* `args` if it is a number or a list of numbers */
    uint64_t n_numbers;
    const char *text;    /* `args`: a text as it is, anything else as JSON; "" without args */
    uint64_t text_bytes; /* without the NUL that follows */
    char *message;       /* room for one sentence, UTF-8 with a NUL: why it failed */
    uint64_t message_room;
};

/* Returns 0. With any other number the sample is broken, and the policy of the loader applies. */
typedef int (*leat_native_fn)(struct leat_native_call *call);
/* The flat form, for languages in which the structure is awkward (numba.cfunc). n_in and n_out count elements. */
typedef int32_t (*leat_native_flat_fn)(const void *in, void *out, int64_t n_in, int64_t n_out, uint64_t key);

/* A function in one of the two forms; the other is NULL. */
struct leat_native {
    leat_native_fn call;
    leat_native_flat_fn flat;
};

/* ---- loader ---------------------------------------------------------------------------------- */

struct leat_loader; /* opaque */
struct leat_batch;  /* opaque, reference-counted per output */

enum leat_order {
    LEAT_ORDER_SEQUENTIAL = 0,
    LEAT_ORDER_SHUFFLED,
    LEAT_ORDER_BLOCKS,
    LEAT_ORDER_WEIGHTED,
    LEAT_ORDER_LIST
};
enum leat_tail { LEAT_TAIL_PAD = 0, LEAT_TAIL_DROP, LEAT_TAIL_UNEVEN };
enum leat_on_error { LEAT_ON_ERROR_RAISE = 0, LEAT_ON_ERROR_SKIP, LEAT_ON_ERROR_SUBSTITUTE };

struct leat_executor;
struct leat_pinning; /* leat/device.h */
struct leat_loader_options {
    size_t struct_size;
    uint64_t batch_size;        /* rows per rank and batch; or 0, and */
    uint64_t global_batch_size; /* rows of all ranks per batch */
    enum leat_order order;
    uint64_t block_rows;   /* BLOCKS: rows per block */
    const double *weights; /* WEIGHTED: one per position, copied */
    uint64_t n_weights;
    uint64_t num_samples; /* WEIGHTED: rows per epoch, of all ranks */
    bool replacement;
    const int64_t *positions; /* LIST: copied; NULL: given by leat_loader_set_positions before each epoch */
    uint64_t n_positions;
    uint64_t seed;
    int64_t epochs; /* the number that will be read; -1: unknown, and at most one window is prefetched into the next */
    enum leat_tail tail;
    uint32_t rank, world_size; /* rank r of w; 0 of 1 */
    uint32_t local_ranks;      /* processes of this job on this host, which share its cores; 0: 1 */
    enum leat_on_error on_error;
    const char *error_report; /* a path to which broken samples are appended as JSON lines, or NULL */
    unsigned num_threads;     /* at most so many of the engine's threads at a time; 0: auto */
    /* 0: the smaller of a quarter of leat_memory_allowed and 24 batches (of small ones as many as 2 MiB hold, up to
     * 256, as far as they are cheap to make) with the threads' scratch, but at least 3 batches. Programs that decode
     * photos get 64 MiB more (at most an eighth of that memory), for photos of which more than the crop is kept while
     * they are decoded. Once reads turn out to complete later (a web server), there are 16 MiB more for reads in
     * flight. */
    uint64_t budget_bytes;
    uint64_t max_held_bytes; /* 0: as much again, without the part for decoding, at least 64 MiB */
    double weight;           /* share of the engine beside other loaders; 1 */
    const char *program;     /* JSON of leat.program_to_json (no outputs: ids alone), or NULL: every field as stored */
    int region;              /* 0: private memory with huge pages, 1: memfd */
    const char *log_dir;     /* a folder for the record of batches out of order (docs/order.md), or NULL */
    /* The functions that operators "Native" of the program call, by index. The table is copied; the code must stay in
     * place until the loader is closed. */
    const struct leat_native *functions;
    size_t n_functions;
    bool in_order; /* batches as planned; false: in the order in which rows are finished, within bounds */
    const struct leat_pack_options *pack; /* NULL: a row is a sample. Copied */
    /* The executor that runs functions outside of the library ("calls" in the program), for bindings:
     * src/engine/executor.h. It stays until the loader is closed and all its calls are done. */
    struct leat_executor *executor;
    const struct leat_bucket_options *buckets; /* NULL: batch_size rows. Else SEQUENTIAL or SHUFFLED, in order */
    bool decided; /* the rows of an epoch may be decided until it begins (leat_loader_decide_rows): nothing is
                   * prefetched from the epoch after the one that is read */
    const struct leat_pinning *pinning;       /* NULL: memory is not pinned */
    const struct leat_one_of_options *one_of; /* NULL: a row is no group. Without `pack` and `buckets` */
    uint64_t block_window; /* BLOCKS: rows that are shuffled together, a multiple of block_rows; 0: those of 8 blocks */
};
#define LEAT_LOADER_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(struct leat_loader_options), 0, 0, LEAT_ORDER_SEQUENTIAL, 0, NULL, 0, 0, true, NULL, 0, 0, -1,          \
            LEAT_TAIL_PAD, 0, 1, 1, LEAT_ON_ERROR_RAISE, NULL, 0, 0, 0, 1.0, NULL, 0, NULL, NULL, 0, true, NULL, NULL, \
            NULL, false, NULL, NULL, 0                                                                                 \
    }

/* Compiles the program, makes the plan and joins the process's engine. The data set is retained.
 * Errors: INVALID, TYPE, BUDGET (says how many bytes three batches need), NOMEM, FORKED. */
LEAT_API int leat_loader_open(struct leat_dataset *dataset, const struct leat_loader_options *options,
                              struct leat_loader **out, struct leat_error *error);

/* Closes the loader; batches and tensors still held stay valid. NULL is allowed. In a forked child it does nothing. */
LEAT_API void leat_loader_close(struct leat_loader *loader);

/* Begins the epoch after the last one begun, or continues from a loaded state. `*iteration` numbers the iteration:
 * leat_loader_next with an older number returns LEAT_E_CLOSED. */
LEAT_API int leat_loader_start(struct leat_loader *loader, uint64_t *iteration, struct leat_error *error);
/* The next batch, waiting at most timeout_ms (-1: without end). LEAT_E_END after the last batch of the epoch,
 * LEAT_E_TIMEOUT if none is ready in time. After any other error the position has not moved.
 * May be called while another thread calls leat_loader_stats or leat_loader_interrupt. */
LEAT_API int leat_loader_next(struct leat_loader *loader, uint64_t iteration, int64_t timeout_ms,
                              struct leat_batch **out, struct leat_error *error);
/* The batch that leat_loader_next would give now, which is not handed out by this: position, state and counts stay, and
 * the next call of leat_loader_next gives the same pointer. Both are freed, each once, with leat_batch_free; until then
 * it counts as held. A decision, or a state that is loaded in between, gives it up: leat_loader_next then plans anew,
 * and the caller's batch stays valid. In order only. Errors: those of leat_loader_next, LEAT_E_END too (position and
 * epoch stay); INVALID (no epoch has begun), UNSUPPORTED (without in_order). */
LEAT_API int leat_loader_peek(struct leat_loader *loader, int64_t timeout_ms, struct leat_batch **out,
                              struct leat_error *error);
/* Makes a waiting leat_loader_next or leat_loader_peek return LEAT_E_CANCELLED. Any thread; not async-signal-safe. */
LEAT_API void leat_loader_interrupt(struct leat_loader *loader);

/* Sets the epoch that leat_loader_start begins next. *dropped (may be NULL) becomes true if this drops a loaded
 * position in another epoch. */
LEAT_API int leat_loader_set_epoch(struct leat_loader *loader, uint64_t epoch, bool *dropped, struct leat_error *error);
/* The current epoch; before the first start, and once leat_loader_next has returned END, the one that begins next. */
LEAT_API uint64_t leat_loader_epoch(const struct leat_loader *loader);
/* Batches that this rank gets in an epoch. */
LEAT_API uint64_t leat_loader_steps(const struct leat_loader *loader);
/* Replaces the list of an order LEAT_ORDER_LIST from the next epoch on; copied; its hash enters the log. */
LEAT_API int leat_loader_set_positions(struct leat_loader *loader, const int64_t *positions, uint64_t n,
                                       struct leat_error *error);

/* Sets the batch size to `rows` rows per rank from step `at->step` of epoch `at->epoch` on, in later epochs too. With
 * `at` NULL, which needs a single rank, it holds from the first batch not yet handed out. All ranks of a job must make
 * the same decision. Batches in flight beyond it are computed again. The decision enters the log, and so the state.
 * Without in_order it must hold from an epoch's start. Errors: INVALID (rows; that step was handed out, or an earlier
 * decision holds from a later one; several ranks and no step), RANGE (no such step), BUDGET (budget_bytes or
 * max_held_bytes are too small for it). */
struct leat_step {
    uint64_t epoch, step;
};
LEAT_API int leat_loader_set_batch_size(struct leat_loader *loader, uint64_t rows, const struct leat_step *at,
                                        struct leat_error *error);
/* The same, and the same errors, with `rows` rows of all ranks together, where rank r of w has those of
 * [r rows / w, (r + 1) rows / w); at least one for each rank. */
LEAT_API int leat_loader_set_global_batch_size(struct leat_loader *loader, uint64_t rows, const struct leat_step *at,
                                               struct leat_error *error);

/* The state as JSON text, and loading it. It is small and counts the batches handed out. A state of any rank fits all
 * ranks; one taken within an epoch without in_order fits only the rank that took it. Errors of load: STATE (says what
 * differs, or that `later` decisions are missing, which found no room in the state), INVALID (not a state). */
LEAT_API int leat_loader_state(const struct leat_loader *loader, char **json, struct leat_error *error);
LEAT_API int leat_loader_load_state(struct leat_loader *loader, const char *json, struct leat_error *error);

/* Entries of the log (docs/order.md, "The state") as a JSON array in `*json`, freed with leat_free: those from the
 * `first`-th on; the 0th is the opening of the loader. Unlike the state's, they are not bounded: those behind the
 * position are all there. Entries that were folded count, and stand as one if `first` is one of them. For the thread
 * that iterates. Errors: NOMEM, CLOSED, FORKED. */
LEAT_API int leat_loader_log(const struct leat_loader *loader, uint64_t first, char **json, struct leat_error *error);

/* The sample ids planned for this rank's batch `step` of `epoch`, without I/O. `*ids` is freed with leat_free. Errors:
 * RANGE (the epoch has no such step for this rank, or the step lies before decisions that were folded), NOMEM, CLOSED,
 * FORKED. */
LEAT_API int leat_loader_plan(const struct leat_loader *loader, uint64_t epoch, uint64_t step, int64_t **ids,
                              uint64_t *n, struct leat_error *error);
/* That batch, computed again. The loader's position does not move. Without in_order only the record in log_dir knows
 * the batch: INVALID without log_dir, RANGE for a step that was not handed out. Further errors: those of
 * leat_loader_plan and leat_consumer_next. */
LEAT_API int leat_loader_batch_at(struct leat_loader *loader, uint64_t epoch, uint64_t step, struct leat_batch **out,
                                  struct leat_error *error);
/* Rows [first, first + n) of that batch, as leat_loader_batch_at makes them: a part of a batch that somebody else puts
 * together. No epoch need have begun. With on_error "skip" a part whose rows are all broken has none, and is no error.
 * Outputs that `into` names are written to the caller's memory, too, at `data`; name, dtype, ndim, shape (rows first)
 * and strides are as leat_batch_tensor gives them, with n rows or more. Nothing is written if there is an error.
 * Errors: RANGE as well if the batch has fewer rows or n is 0; UNSUPPORTED if rows depend on others (operators that see
 * batches as a whole; without in_order) and it is not all of them, or an output of `into` is ragged; NOT_FOUND,
 * INVALID: there is no such output, or it has another type, shape or strides. */
struct leat_tensor;
LEAT_API int leat_rows_make(struct leat_loader *loader, uint64_t epoch, uint64_t step, uint64_t first, uint64_t n,
                            const struct leat_tensor *into, size_t n_into, struct leat_batch **out,
                            struct leat_error *error);
/* Statistics as JSON text; docs/architecture.md names the keys. Any thread. */
LEAT_API int leat_loader_stats(const struct leat_loader *loader, char **json, struct leat_error *error);

/* Records the work of threads and workers for the loader, with times: at most `max_events` events of 72 bytes, from now
 * on, in the place of the last recording. 0 ends the recording. Without one, a task and a read cost a load each. Any
 * thread. Errors: NOMEM, CLOSED, FORKED. */
LEAT_API int leat_loader_trace(struct leat_loader *loader, uint64_t max_events, struct leat_error *error);
/* The recording so far, as JSON text in the trace event format that Perfetto and Chrome open, freed with leat_free:
 * tasks and reads by thread, the work of an executor's workers, reads in flight, waits and steps of the loader's own
 * consumer, and how many batches of the window were ready. Any thread. Errors: NOMEM, CLOSED, FORKED. */
LEAT_API int leat_loader_trace_json(struct leat_loader *loader, char **json, struct leat_error *error);

/* The memory of a loader of region 1 (memfd), for other processes to map: its descriptor, borrowed, and its size. A
 * buffer lies at leat_buffer_offset as long as a reference to it is held. UNSUPPORTED: private memory. */
LEAT_API int leat_loader_region(const struct leat_loader *loader, int *fd, uint64_t *bytes, struct leat_error *error);

/* ---- consumers ----------------------------------------------------------------------------------------- */

/* A second reader of the same rows in this process. It gets each row of this rank once an epoch, in the same order, in
 * batches of its own size (the last of an epoch may be shorter) and at its own pace. Rows are made once for all
 * consumers that are near each other. A consumer that lags computes the batches that it missed again, and never holds
 * up another. Its batches are its own to write to. Its functions are those of a loader. Each consumer is for one thread
 * at a time; different ones may be used by different threads. Close it before or after its loader; once the loader is
 * closed, its functions return LEAT_E_CLOSED. */
struct leat_consumer; /* opaque */

/* `beginning`: start at the beginning of the loader's current epoch; else at the position of the consumer that is
 * farthest ahead. Errors: INVALID (batch_size; a loader without in_order, or that draws sizes per batch), BUDGET
 * (its first batch takes more batches of the loader than its window holds; leat_consumer_next says so for later ones),
 * NOMEM, CLOSED, FORKED. */
LEAT_API int leat_consumer_open(struct leat_loader *loader, uint64_t batch_size, bool beginning,
                                struct leat_consumer **out, struct leat_error *error);
LEAT_API void leat_consumer_close(struct leat_consumer *consumer);
/* The loader's own consumer, on which leat_loader_start, _next, _set_epoch, _epoch, _steps, _state and _load_state act.
 * Valid until the loader is closed; never closed itself. */
LEAT_API struct leat_consumer *leat_loader_consumer(struct leat_loader *loader);
LEAT_API int leat_consumer_start(struct leat_consumer *consumer, uint64_t *iteration, struct leat_error *error);
/* As leat_loader_next. HELD: max_held_bytes leaves no room for a copy of its rows. BUDGET: its rows are spread over
 * more of the loader's batches than its window has. */
LEAT_API int leat_consumer_next(struct leat_consumer *consumer, uint64_t iteration, int64_t timeout_ms,
                                struct leat_batch **out, struct leat_error *error);
/* As leat_loader_peek. */
LEAT_API int leat_consumer_peek(struct leat_consumer *consumer, int64_t timeout_ms, struct leat_batch **out,
                                struct leat_error *error);
LEAT_API int leat_consumer_set_epoch(struct leat_consumer *consumer, uint64_t epoch, bool *dropped,
                                     struct leat_error *error);
LEAT_API uint64_t leat_consumer_epoch(const struct leat_consumer *consumer);
LEAT_API int leat_consumer_steps(const struct leat_consumer *consumer, uint64_t *steps, struct leat_error *error);
/* Its position as JSON text: the epoch and how many rows of it were received. It fits a consumer of any batch size over
 * the same data set, order and seed; within an epoch, of the same rank. Errors of load: STATE, INVALID. */
LEAT_API int leat_consumer_state(const struct leat_consumer *consumer, char **json, struct leat_error *error);
LEAT_API int leat_consumer_load_state(struct leat_consumer *consumer, const char *json, struct leat_error *error);

/* ---- batches --------------------------------------------------------------------------------- */

/* One output of a batch. Dense: `data` is an array of shape[0] = rows; `strides` in elements. Ragged: `data` holds
 * the values of all rows one after the other, shape[0] their number (shape[1..] that of one), and `offsets` rows + 1
 * int64 indices into shape[0]. Lists of text are ragged u8 with kind LEAT_KIND_STR or LEAT_KIND_JSON. */
struct leat_tensor {
    const char *name; /* lives as long as the batch */
    enum leat_kind kind;
    enum leat_dtype dtype;
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS];
    int64_t strides[LEAT_MAX_DIMS];
    void *data;                 /* 64-byte aligned */
    const int64_t *offsets;     /* NULL: dense */
    struct leat_buffer *buffer; /* the owner that keeps `data` and `offsets` alive */
};

struct leat_buffer;
/* Take and give up a reference to a buffer. When the last one is gone, the memory is used again. Any thread. Neither
 * takes a lock that a caller could hold. */
LEAT_API void leat_buffer_retain(struct leat_buffer *buffer);
LEAT_API void leat_buffer_release(struct leat_buffer *buffer);
/* A hook that is called, without any lock, when the last reference to a buffer is gone and before its memory is used
 * again; it may wait, for a copy to a device for instance. The holder of a reference sets it, before giving that up. */
LEAT_API void leat_buffer_on_release(struct leat_buffer *buffer, void (*release)(void *user), void *user);
/* The start of the buffer in the loader's memory: at `offsets` of a ragged output, at `data` of a dense one. */
LEAT_API uint64_t leat_buffer_offset(const struct leat_buffer *buffer);

LEAT_API size_t leat_batch_outputs(const struct leat_batch *batch);
/* RANGE: there is no such output. NOT_FOUND: it is hidden (an input of functions of the program), and gone. Images of
 * open size are ragged: all their numbers, one image after the other; a further output has the height and width of
 * each. */
LEAT_API int leat_batch_tensor(const struct leat_batch *batch, size_t output, struct leat_tensor *out);
/* One image of an output of open size: three axes, of a mask two, of masks of
 * instances (n, height, width); data, shape and strides are its own. RANGE: there is
 * no such output or row. TYPE: the output is not of that kind. NOT_FOUND: it says how large such images are. */
LEAT_API int leat_batch_image(const struct leat_batch *batch, size_t output, uint64_t row, struct leat_tensor *out);
LEAT_API uint64_t leat_batch_rows(const struct leat_batch *batch);
LEAT_API uint64_t leat_batch_epoch(const struct leat_batch *batch);
LEAT_API uint64_t leat_batch_step(const struct leat_batch *batch);
/* Arrays of leat_batch_rows elements that live as long as the batch: delivered sample ids; random keys of the rows;
 * the number of the source that each row is of (0 if there is one); whether a row is real (not padding). */
LEAT_API const int64_t *leat_batch_ids(const struct leat_batch *batch);
LEAT_API const uint64_t *leat_batch_row_keys(const struct leat_batch *batch);
LEAT_API const int32_t *leat_batch_domains(const struct leat_batch *batch);
LEAT_API const bool *leat_batch_valid(const struct leat_batch *batch);

/* One row that the error policy touched; delivered is -1 if the row was left out. Strings live as long as the batch. */
struct leat_row_error {
    uint64_t row; /* in the planned batch */
    int64_t planned, delivered;
    const char *reason;
};
LEAT_API size_t leat_batch_errors(const struct leat_batch *batch);
LEAT_API int leat_batch_error(const struct leat_batch *batch, size_t i, struct leat_row_error *out);
/* Frees the batch and gives up its references to buffers. NULL is allowed. Any thread. */
LEAT_API void leat_batch_free(struct leat_batch *batch);

/* ---- order without a loader ------------------------------------------------------------------ */

/* Rows [first, first + n) of epoch `epoch` of the order that a loader with shuffle and this seed gives `count` samples.
 * Any thread. RANGE, NOMEM. */
LEAT_API int leat_order_shuffled(uint64_t count, uint64_t seed, uint64_t epoch, uint64_t first, uint64_t n,
                                 int64_t *positions, struct leat_error *error);
/* The random key of a row. */
LEAT_API uint64_t leat_row_key(uint64_t seed, uint64_t epoch, uint64_t row);
/* The position that stands in for a broken one at an attempt from 0 on: one of `count` positions, and another than
 * `broken` where there is one (`count` or more: it is not known). `row_key`: of leat_row_key. A loader tries as many as
 * LEAT_MAX_SUBSTITUTES. Any thread. */
#define LEAT_MAX_SUBSTITUTES 16
LEAT_API uint64_t leat_order_substitute(uint64_t row_key, unsigned attempt, uint64_t count, uint64_t broken);

#include "leat/chain.h"
#include "leat/mixtures.h"
#include "leat/one_of.h"
#include "leat/packing.h"
#include "leat/port.h"
#include "leat/verify.h"

#ifdef __cplusplus
}
#endif

#endif
