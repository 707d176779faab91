/*
 * COCO annotations while they are read: what is kept of their entries (coco.c), and the values in them
 * (coco_values.c, coco_keypoints.c, coco_panoptic.c, coco_semantic.c).
 */
#ifndef LEAT_FORMAT_COCO_H
#define LEAT_FORMAT_COCO_H

#include "codec/shapes.h"
#include "format/annotated.h"
#include "format/json_text.h"
#include "format/photo_sizes.h"

/* The place of an entry, for messages. */
struct leat_coco_place {
    uint32_t number, line;
    uint64_t byte; /* files of one line are usual */
};

struct leat_coco_image {
    int64_t id;
    double w, h;             /* infinite where they are not given */
    size_t name;             /* in `names`, SIZE_MAX: none */
    size_t sample;           /* SIZE_MAX: its photo is missing */
    size_t mask, mask_bytes; /* of class ids: its PNG in `masks`; 0 bytes: none */
    struct leat_photo_size photo;
    bool exceeded; /* a box reaches out of its size */
    bool has_png;  /* of segments, though it may be wrong, which was said then */
    struct leat_coco_place place;
};

struct leat_coco_category {
    int64_t id;
    char *name;
    struct leat_coco_place place;
};

#define LEAT_COCO_NO_SEGMENT UINT32_MAX /* no pixel has it: 0 are those of no segment */

struct leat_coco_instance {
    int64_t image, category; /* ids; then the sample and the class */
    float box[4];            /* x, y, w, h; then two corners */
    float area;
    uint8_t crowd;
    bool bad, has_category, maskless;           /* maskless: its mask cannot be, which was said */
    bool classed;                               /* it has its sample and class, though it may be bad */
    uint8_t wrong_box, wrong_area, wrong_crowd; /* which text says what is wrong with it; 0: nothing */
    const char *wrong, *wrong_points;           /* with its mask, its keypoints; NULL: nothing */
    size_t shape;                               /* where its record begins in `shapes` */
    uint32_t shape_bytes;
    uint32_t runs_h, runs_w; /* of runs */
    size_t points;           /* where its keypoints begin in `points`, */
    uint32_t n_points;       /* so many numbers; 0: it has none */
    uint32_t segment;        /* of a panoptic file: its number in the PNG, or LEAT_COCO_NO_SEGMENT */
    struct leat_coco_place place;
};

/* In a panoptic file, the PNG of an image, whose segments are the instances [begin, end). */
struct leat_coco_png {
    size_t name;   /* in `names`, SIZE_MAX: it is no text */
    int64_t image; /* its id */
    size_t begin, end;
    struct leat_coco_place place;
};

struct leat_coco {
    struct leat_annotated *a;
    const struct leat_open_options *options;
    struct leat_json json;
    struct leat_coco_image *images;
    size_t n_images, images_room;
    struct leat_coco_category *categories;
    size_t n_categories, categories_room;
    struct leat_coco_instance *instances;
    size_t n_instances, instances_room;
    char *names;
    size_t names_bytes, names_room;
    struct leat_names photos; /* those that are there */
    struct leat_shape_bytes shapes;
    float *points;
    size_t n_points, points_room;
    uint32_t skeleton; /* keypoints of a category; 0: none has any, UINT32_MAX: they differ */
    uint16_t *pairs;   /* of these */
    size_t n_pairs;
    struct leat_coco_png *pngs;
    size_t n_pngs, pngs_room;
    bool semantic; /* masks of class ids are asked for, too */
    struct leat_shape_bytes masks;
    bool has_shapes;
    uint64_t n_wrong; /* masks that cannot be */
    size_t listed;    /* entries of the list that was read last */
    int64_t *faulty;  /* ids of images of which an annotation or a segment was left out before they were known */
    size_t n_faulty, faulty_room;
    bool segment_left_out; /* of the annotation that is being read */
    uint64_t bytes;        /* of the file */
    char where[64];
    /* of the entry that is being read */
    double *xy;
    uint32_t *ends, *runs;
    size_t xy_room, ends_room, runs_room;
    struct leat_error *error;
};

/* An instance takes 12 bytes for each, also where it has none. */
#define LEAT_COCO_KEYPOINTS 1024

/* Each takes a value, whatever it is, and says whether it is one of its kind. */
bool leat_coco_number(struct leat_json *json, double *out);
bool leat_coco_id(struct leat_json *json, int64_t *out);
/* Takes the value of a key that instances and segments have in common. False: it is none, and nothing is taken. */
bool leat_coco_member(struct leat_json *json, const char *key, struct leat_coco_instance *instance);
/* An instance of which nothing is read yet, and so one without a box. */
struct leat_coco_instance leat_coco_instance(struct leat_coco_place place);
/* The fault in the values of the instance themselves ("has no bbox"); NULL: none. */
const char *leat_coco_box_fault(const struct leat_coco_instance *instance);
const char *leat_coco_area_fault(const struct leat_coco_instance *instance);
const char *leat_coco_crowd_fault(const struct leat_coco_instance *instance);
/* An instance that is read: NOMEM. */
int leat_coco_add(struct leat_coco *coco, const struct leat_coco_instance *instance);
/* "line 1, byte 261", until the next call. */
const char *leat_coco_where(struct leat_coco *coco, struct leat_coco_place place);
struct leat_coco_place leat_coco_place(struct leat_json *json, size_t number);
/* The mask and the keypoints of an instance; what is wrong with them is `wrong` of it. NOMEM. */
int leat_coco_segmentation(struct leat_coco *coco, struct leat_coco_instance *instance);
int leat_coco_keypoints(struct leat_coco *coco, struct leat_coco_instance *instance);
/* Says what kind of value an element of a list is that is no object ("null"); it is skipped. NULL: it is one, or not
 * there. */
const char *leat_coco_no_object(struct leat_json *json);
/* The segments of an annotation of a panoptic file, each an instance of the image that `of` will name. */
int leat_coco_segments(struct leat_coco *coco, const struct leat_coco_instance *of);
/* The value of pixels of no class in a mask of class ids, and so the most classes that there can be. */
#define LEAT_COCO_IGNORED 255
/* The masks of segments, from the PNGs in the folder that has the name of the file. */
int leat_coco_read_pngs(struct leat_coco *coco);
/* Whether masks of class ids can be made of the file. INVALID, UNSUPPORTED. */
int leat_coco_check_semantic(struct leat_coco *coco);
/* Keeps that of an image; of several the first. NOMEM. */
int leat_coco_keep_semantic(struct leat_coco *coco, struct leat_coco_image *image, struct leat_coco_place place,
                            const struct leat_shape_bytes *png);
/* Faults of images without a PNG, which are of no class. Those of an error, and NOMEM. */
int leat_coco_check_maskless(struct leat_coco *coco);
/* The column of them. If the size of an image without a mask is not known either, since its photo cannot be read, its
 * mask is as small as can be, and so it is above 2^26 pixels, which no mask has. False: no memory. */
bool leat_coco_add_semantic(struct leat_coco *coco);
/* Sorts the images by their ids, and makes samples of those whose photos are there. Those of a fault, and NOT_FOUND. */
int leat_coco_match_images(struct leat_coco *coco);
/* Asks the header of an image's photo for its size, if the image does not say it. NOMEM. */
int leat_coco_find_size(struct leat_coco *coco, struct leat_coco_image *image);
/* Compares the sizes of images with those of photos: photo_sizes.h. */
int leat_coco_check_sizes(struct leat_coco *coco);
/* By ids, of equal ones by their numbers in the list. */
int leat_coco_compare_ids(int64_t x, uint32_t x_number, int64_t y, uint32_t y_number);
/* The first with this id of n structs of `size` bytes, sorted by the ids that they begin with, or SIZE_MAX. */
size_t leat_coco_find_id(const void *sorted, size_t n, size_t size, int64_t id);
/* The image with this id, or SIZE_MAX. */
size_t leat_coco_find_image(const struct leat_coco *coco, int64_t id);
/* The list of the names of a category's keypoints. Those of an error, and NOMEM. */
int leat_coco_skeleton(struct leat_coco *coco, size_t category, struct leat_coco_place place);
int leat_coco_no_memory(const struct leat_coco *coco);

#endif
