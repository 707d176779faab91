/*
 * A folder of photos with annotations of another format beside it: COCO, YOLO, Pascal VOC; or with none but the names
 * of its folders. Each format is a parser that fills the columns below; all the rest of a source is here.
 *
 *     image      the photo's file                          photo_files.h
 *     columns    in memory: of each sample one value, or as many steps as it has instances
 *     mask       where there are semantic masks, a file, too
 *     name       derived: the photo's name in its folder
 *
 * The annotations are read to their end when the source is opened. A mistake in them is a fault (leat_fault): it
 * ends the opening, or the entry is left out and counted, or its sample is marked as broken.
 */
#ifndef LEAT_FORMAT_ANNOTATED_H
#define LEAT_FORMAT_ANNOTATED_H

#include "format/names.h"
#include "format/photo_files.h"

#define LEAT_ANNOTATED_COLUMNS 12
#define LEAT_FAULT_KINDS 32
#define LEAT_TOLD_KINDS 4

struct leat_column {
    const char *name;
    struct leat_field field; /* its name is `name` */
    uint8_t *data;           /* freed with leat_free */
    size_t n, room;          /* steps, while they are pushed */
    uint64_t step;           /* bytes of a value, or of a step of it */
    const uint64_t *first;   /* NULL: a value per sample; else sample i has the steps [first[i], first[i + 1]) */
    uint16_t *pairs;         /* NULL, or those of the field, which are the column's; freed with leat_free */
    uint64_t *own_first;     /* NULL, or `first`, where it is the column's own; freed with leat_free */
    struct leat_io_file *file;
};

struct leat_annotated {
    struct leat_source source;
    struct leat_source_vtable functions; /* those of every such source, with the format's name */
    struct leat_photo_files photos;
    struct leat_photo_files *beside; /* NULL, or a mask for each photo, in their order */
    struct leat_column columns[LEAT_ANNOTATED_COLUMNS];
    size_t n_columns;
    uint64_t *first; /* [count + 1]: of the instances; columns refer to it */
    char **classes;
    size_t n_classes;
    char *metadata; /* NULL: none */
    struct leat_notes notes;
    struct leat_field fields[LEAT_ANNOTATED_COLUMNS + 3]; /* image, columns, mask, name */
    uint8_t storage[LEAT_ANNOTATED_COLUMNS + 3];
    /* while the annotations are read */
    const struct leat_open_options *options;
    int64_t asked_ns;           /* when it was last asked whether to go on; 0: not yet */
    char *path;                 /* of the annotations, absolute */
    struct leat_names sidecars; /* below it, of formats that have a file for each photo */
    enum leat_on_bad on_bad;
    struct leat_fault_kind {
        const char *what;
        uint64_t n;
        unsigned shown;
        char examples[1024];
    } faults[LEAT_FAULT_KINDS], told[LEAT_TOLD_KINDS];
    uint64_t tried;   /* instances that the annotations have of the photos, with those that were left out */
    uint64_t skipped; /* entries that were left out */
    uint64_t *marked; /* samples */
    size_t n_marked, marked_room;
    struct leat_field given; /* what the file says boxes are: role, normalized */
    struct leat_box_counts boxes;
    char strays[640]; /* the first of those that do not lie in their image */
};

/* A source that is empty, with the photos below `path` listed and, for a format that annotates, the annotations that
 * the options name. Errors as leat_photo_files_scan, and INVALID. */
int leat_annotated_new(const struct leat_source_vtable *format, const char *path,
                       const struct leat_open_options *options, struct leat_annotated **out, struct leat_error *error);
void leat_annotated_close(struct leat_source *source);
/* Something is wrong in the annotations. `what` names the kind of fault, a literal: "annotations whose box has no
 * area"; the format says where and which. With LEAT_BAD_RAISE this fails with `code`, else the caller leaves the entry
 * out, or marks its sample. */
int leat_fault(struct leat_annotated *annotated, struct leat_error *error, int code, const char *what,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Kinds of what is told. */
#define LEAT_TOLD_UNSIZED                                                                                              \
    "boxes may reach out of their photo and are not cut off: the annotations do not say its size, and its header "     \
    "cannot be read, or EXIF turns it (give its width and height)"
#define LEAT_TOLD_MASKLESS "instances have no mask, beside others that have one, and get an empty one"
/* Something is no fault, but a person should know how often there is such a thing, and where first. `what` is a
 * literal that goes on behind the number: "boxes are ...". */
void leat_annotated_tell(struct leat_annotated *annotated, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes back all that was told of this kind. */
void leat_annotated_untell(struct leat_annotated *annotated, const char *what);

/* After leat_fault, for the sample that the fault is in: with LEAT_BAD_MARK it will be marked as broken. NOMEM. */
int leat_annotated_mark(struct leat_annotated *annotated, uint64_t sample, struct leat_error *error);

/* To be called while annotations are read, so much of which is done, by the thread that opens: some times a second it
 * asks whether to go on. CANCELLED. */
int leat_annotated_ask(struct leat_annotated *annotated, uint64_t done, uint64_t total, struct leat_error *error);

/* The classes that the options name; none is no error. Blank names at the end are left out, and a mark of byte order
 * before the first one; so is white space around each. INVALID: another name is blank, or one stands twice. NOMEM. */
int leat_annotated_classes(struct leat_annotated *annotated, const struct leat_open_options *options,
                           struct leat_error *error);

/* A box (x0, y0, x1, y1) of an image of w x h pixels: NULL, and it is cut off at the edges, or what is wrong with it
 * ("is inverted"). */
const char *leat_box_fault(float box[4], double w, double h);
/* Counts a box as it stands in the file, in the format `given`; w and h of its image, infinite where they are not
 * known. False: it does not lie in its image, and leat_annotated_stray should say where it stands. */
bool leat_annotated_box(struct leat_annotated *annotated, const float box[4], double w, double h);
void leat_annotated_stray(struct leat_annotated *annotated, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a column; its data and `first` are filled by the caller. */
struct leat_column *leat_annotated_column(struct leat_annotated *annotated, const char *name, enum leat_dtype dtype,
                                          enum leat_role role, bool ragged, int64_t width);
/* Adds one of masks: the values are bytes, and the caller fills `data` and `own_first`, too. */
struct leat_column *leat_annotated_masks(struct leat_annotated *annotated);
/* Room for `n` steps of the column, zeroed; NULL: no memory. */
void *leat_column_fill(struct leat_column *column, uint64_t n);
/* Appends a step to a column that was filled with none before. False: no memory. */
bool leat_column_push(struct leat_column *column, const void *step);
/* Ends the opening, which has returned `rc` so far. If everything is filled, it makes the fields, the fingerprint and
 * the notice; else it closes the source, which may be NULL. CORRUPT: every instance was left out, of half as many as
 * photos or more. */
int leat_annotated_finish(struct leat_annotated *annotated, int rc, const struct leat_open_options *options,
                          struct leat_source **out, struct leat_error *error);

#endif
