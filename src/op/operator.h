/*
 * An operator: one row of the table in operators.c. What it can do to a value is one of three things, and each has its
 * function in the table:
 *
 *     draw    a movement of pixels: take a box of the image, bring it to a size, mirror it (crop, resize, flip)
 *     map     a function of single values: normalise, convert
 *     neither it changes how the value is read or delivered (Decode, ToLayout), which `infer` says
 *
 * Native stands aside: a function of the user's, between whose calls the chain is cut (native.h).
 *
 * Operators never touch images themselves: movements that follow one another are composed, maps of bytes become tables
 * of 256 entries, and a stage (stage.h) carries out the result in one pass.
 */
#ifndef LEAT_OP_OPERATOR_H
#define LEAT_OP_OPERATOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "leat/leat.h"
#include "op/args.h"

/* What the numbers of a value mean: their own value; 0 to the largest of their type (integers), or 0 to 1 (floats). */
enum leat_range { LEAT_RANGE_PLAIN = 0, LEAT_RANGE_MAX, LEAT_RANGE_UNIT };
/* What the chain says of its result's layout. */
enum leat_ask { LEAT_ASK_NOTHING = 0, LEAT_ASK_NCHW, LEAT_ASK_NHWC, LEAT_ASK_CHANNELS_LAST };

#define LEAT_MAX_CHANNELS 32

/* A value between two operators, as known when the program is compiled. */
struct leat_type {
    enum leat_kind kind; /* ARRAY, or of what is still stored bytes the field's kind */
    enum leat_dtype dtype;
    enum leat_layout layout; /* of an image: how its three axes stand; NONE: a plain array */
    enum leat_range range;
    enum leat_ask ask;
    bool decoded, gray, exif, dct_scaling; /* the value comes from Decode, and how */
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS]; /* -1: not known before the value is seen */
};

static inline bool leat_type_is_image(const struct leat_type *t)
{
    return t->kind == LEAT_KIND_ARRAY && t->layout != LEAT_LAYOUT_NONE && t->ndim == 3;
}
static inline int64_t leat_type_height(const struct leat_type *t)
{
    return t->shape[t->layout == LEAT_LAYOUT_CHW ? 1 : 0];
}
static inline int64_t leat_type_width(const struct leat_type *t)
{
    return t->shape[t->layout == LEAT_LAYOUT_CHW ? 2 : 1];
}
static inline int64_t leat_type_channels(const struct leat_type *t)
{
    return t->shape[t->layout == LEAT_LAYOUT_CHW ? 0 : 2];
}
static inline void leat_type_resize(struct leat_type *t, int64_t height, int64_t width)
{
    t->shape[t->layout == LEAT_LAYOUT_CHW ? 1 : 0] = height;
    t->shape[t->layout == LEAT_LAYOUT_CHW ? 2 : 1] = width;
}

enum leat_filter { LEAT_FILTER_ANTIALIAS = 0, LEAT_FILTER_BILINEAR, LEAT_FILTER_NEAREST };

/* What pixels outside an image are: a constant, the nearest pixel of the edge, or the image mirrored at its edge, without
 * (REFLECT) or with (SYMMETRIC) the edge's pixel twice; as often as needed. */
enum leat_padding { LEAT_PAD_CONSTANT = 0, LEAT_PAD_EDGE, LEAT_PAD_REFLECT, LEAT_PAD_SYMMETRIC };

/* What an operator does to the pixels of one image, in this order. Before `draw`, it is: everything, unchanged. */
struct leat_move {
    int64_t x, y, w, h;    /* the box that is taken; what lies outside the image is padding */
    uint32_t out_w, out_h; /* what it is brought to */
    enum leat_filter filter;
    bool flip; /* then mirrored left to right */
};

/* What infer says of an operator beside the type: what its draws may do. */
struct leat_effect {
    bool resizes, pads, flips;
    enum leat_padding padding;      /* if it pads */
    double fill[LEAT_MAX_CHANNELS]; /* if it pads with a constant */
};

/* Where an operator stands, for messages. */
struct leat_place {
    const char *output, *type; /* "Normalize in output 'image'" */
};

struct leat_op_class {
    const char *type; /* as in leat.ops and in JSON */
    size_t args_bytes;
    bool random;
    /* Reads the arguments into zeroed `args`. Without `hash` it holds no pointers: its bytes are hashed. */
    void (*parse)(void *args, struct leat_args *json);
    /* Gives up what `args` points to, and hashes it. May be NULL. */
    void (*end)(void *args);
    uint64_t (*hash)(const void *args);
    /* Turns the type of the input into that of the output, and says what fits if it does not. */
    int (*infer)(const void *args, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error);
    /* Fills `move` for an image of w x h. Pure in (args, key, w, h). May be NULL. DECODE: this image does not fit. */
    int (*draw)(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move, struct leat_error *error);
    /* Makes n values of the output type of n values of `in`, all of one channel. May be NULL. */
    void (*map)(const void *args, const struct leat_type *in, unsigned channel, const void *src, void *dst, size_t n);
    /* Where `map` is a straight line but for rounding: turns v * scale + offset, the line so far, into the line after
     * this operator. False where it is none. May be NULL. */
    bool (*line)(const void *args, const struct leat_type *in, unsigned channel, double *scale, double *offset);
};

/* Every operator, ended by NULL: the only place that lists them. */
extern const struct leat_op_class *const leat_operators[];
extern const struct leat_op_class leat_op_native, leat_op_decode, leat_op_resize, leat_op_center_crop, leat_op_random_crop,
    leat_op_random_resized_crop, leat_op_random_horizontal_flip, leat_op_normalize, leat_op_to_dtype, leat_op_to_layout;

/* Says "<type> in output '<output>' takes <wanted>, but gets <type of the value><hint>", LEAT_E_TYPE. */
int leat_op_misfit(const struct leat_place *place, const struct leat_type *got, const char *wanted, struct leat_error *error);
/* The value in words: "an encoded photo", "a uint8 image of 3 channels, 32 x 32". */
void leat_type_words(const struct leat_type *type, char *text, size_t room);
/* The value of a stored field, as a chain begins with it. */
void leat_type_of_field(const struct leat_field *field, struct leat_type *type);
/* Checks that the value is an image (of any numbers), as geometry needs it. */
int leat_op_needs_image(const struct leat_place *place, const struct leat_type *type, struct leat_error *error);
/* Checks that the value is an image that can be resampled. */
int leat_op_needs_pixels(const struct leat_place *place, const struct leat_type *type, struct leat_error *error);

#endif
