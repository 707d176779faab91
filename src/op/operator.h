/*
 * An operator: one file, op_<name>.c, one line of operators.def, and the class of its name in python/leat/ops. Its
 * effect on a value is one of these, and each has its function in struct leat_op_class:
 *
 *     move    takes a box of the image, brings it to a size, mirrors it (crop, resize, flip)
 *     aim     a move whose draw sees the boxes of the row, in the chain of a tuple (RandomIoUCrop)
 *     map     a function of single values (normalize, convert)
 *     adjust  changes the colors of 8-bit pixels, in steps that adjust.h knows (ColorJitter, RandomEqualize)
 *     filter  makes an image of an image in memory, with scratch of its own (blur, rotate)
 *     choose  holds other operators, and says which of them run (RandomApply; branch.h)
 *     joint   changes the boxes and keypoints of a row, in the chain of a tuple (joint.h)
 *     pad     brings a value to a fixed length, as the last of its chain (PadTo)
 *     batch   changes an output of a whole batch, as the last of its chain (MixUp; mix.h)
 *     call    a function of whole values, behind which the chain is cut: of the user's (Native), or on tokens and
 *             residues
 *     none    it changes how the value is read or delivered (Decode, ToLayout), as `infer` says
 *
 * Moves that follow one another are composed, maps of bytes become tables of 256 entries, and a stage (stage.h) carries
 * out the result in one pass; a filter is a stage of its own, and so are the steps of neighbours with `adjust`.
 */
#ifndef LEAT_OP_OPERATOR_H
#define LEAT_OP_OPERATOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "codec/image.h"
#include "kernels/resample.h"
#include "leat/leat.h"
#include "op/args.h"

/* The meaning of the numbers of a value: their own value; 0 to the largest of their type (integers), or 0 to 1
 * (floats). */
enum leat_range { LEAT_RANGE_PLAIN = 0, LEAT_RANGE_MAX, LEAT_RANGE_UNIT };
/* The chain's statement on its result's layout. */
enum leat_ask { LEAT_ASK_NOTHING = 0, LEAT_ASK_NCHW, LEAT_ASK_NHWC, LEAT_ASK_CHANNELS_LAST };

#define LEAT_MAX_CHANNELS 32

/* A value between two operators, as known when the program is compiled. */
struct leat_type {
    enum leat_kind kind; /* ARRAY, or for stored bytes still the field's kind */
    enum leat_dtype dtype;
    enum leat_layout layout; /* of an image: the order of its three axes; NONE: a plain array */
    enum leat_range range;
    enum leat_ask ask;
    const struct leat_codec *codec;        /* the value comes from Decode, of this codec ... */
    bool gray, exif, dct_scaling, lenient; /* ... and how ... */
    bool ids;                              /* ... as a mask of class ids */
    bool icc;                              /* ... in the colours of sRGB */
    uint8_t alpha, background[3];          /* enum leat_alpha, and the colour that transparency is blended with */
    uint32_t frame;                        /* of an animation */
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS]; /* -1: not known before the value is seen */
    enum leat_dtype item;         /* of a sparse row, as of its field */
    int64_t columns;              /* ... ; 0: it is none */
};

/* The type of a sparse row with values of `item`: uint8 of shape (-1, bytes of a column and its value). */
void leat_type_make_sparse(struct leat_type *type, enum leat_dtype item, int64_t columns);
/* The bytes of one step of the first dimension. */
uint64_t leat_type_step(const struct leat_type *type);

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

/* The values of pixels outside an image: a constant, the nearest pixel of the edge, or the image mirrored at its edge,
 * without (REFLECT) or with (SYMMETRIC) the edge's pixel twice; as often as needed. */
enum leat_padding { LEAT_PAD_CONSTANT = 0, LEAT_PAD_EDGE, LEAT_PAD_REFLECT, LEAT_PAD_SYMMETRIC };
/* The pixel of [0, n) that stands at `at`, inside or outside; not for CONSTANT. */
int64_t leat_padded_index(enum leat_padding padding, int64_t at, int64_t n);

/* The effect of an operator on the pixels of one image, in this order. Before `draw`, it is: everything, unchanged. */
struct leat_move {
    int64_t x, y, w, h;                   /* the box that is taken; parts outside the image are padding */
    uint32_t out_w, out_h;                /* the size that it is brought to */
    uint32_t frame_w, frame_h, left, top; /* then put into a frame of this size, there; frame_w 0: into none */
    enum leat_filter filter;
    bool flip, flip_y; /* then mirrored left to right, or turned upside down */
    bool crops; /* the box is that of a crop: boxes of objects are cut off at its edges, though it be the whole image */
};

/* The step of putting into the frame by itself, behind `move` without it. */
static inline struct leat_move leat_move_into_frame(const struct leat_move *move)
{
    return (struct leat_move){.x = -(int64_t)move->left,
                              .y = -(int64_t)move->top,
                              .w = move->frame_w,
                              .h = move->frame_h,
                              .out_w = move->frame_w,
                              .out_h = move->frame_h,
                              .crops = true};
}

#define LEAT_AIM_SHAPES 3

/* The value of pixels from outside an image: another one for a mask of class ids than for images. */
struct leat_fill {
    unsigned n; /* 0: 0; 1: the same for all channels */
    double values[LEAT_MAX_CHANNELS];
    double ids;
};
/* For one channel of a value. */
static inline double leat_fill_of(const struct leat_fill *fill, int64_t channel, bool ids)
{
    return ids ? fill->ids : !fill->n ? 0 : fill->values[fill->n > 1 ? channel : 0];
}

/* The value that an image of whole numbers is filled with for a color: a mean such as 123.675 without its fraction. A
 * share (0.5) stays one, which leat_check_held refuses. */
double leat_color_of(double value, enum leat_dtype dtype);

/* The statement of infer on an operator beside the type: the possible effects of its draws. */
struct leat_effect {
    bool resizes, pads, flips;
    bool moves;                /* of a branch: all that it may run are moves that do not resize, and so is it */
    enum leat_filter filter;   /* if it resizes, so that room is made for its weights; 0: more may be taken later */
    enum leat_padding padding; /* if it pads */
    double fill[LEAT_MAX_CHANNELS]; /* if it pads with a constant */
};

/* An image in memory, or room for one; steps in bytes. */
struct leat_image {
    uint8_t *base;
    enum leat_dtype dtype;
    uint32_t w, h, channels;
    size_t row, column, plane;
    bool ids; /* of the result of a filter: numbers of classes, which cannot be blended */
};

/* The result of a filter for one image, and its needs. Before `plan`, it is: the size of the input, and no scratch. */
struct leat_filter_plan {
    uint32_t w, h;  /* of the result */
    size_t scratch; /* bytes */
};

/* The move of a filter for the points of an image of w x h: (x, y) to (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]),
 * both divided by m[6] x + m[7] y + m[8], counted from the edge of the first pixel; or by its own function. `corner`:
 * the point is that of a box, and whole numbers are edges of pixels, for others their middles. Before `turn`, m leaves
 * everything where it is, and the size stays. */
struct leat_turn {
    uint32_t w, h, out_w, out_h;
    double m[9];
    bool whole; /* all of the image is seen, so that nothing is cut off at its edges or left behind */
    void (*point)(const struct leat_turn *turn, bool corner, float x, float y, float to[2]);
    const void *args; /* for `point` */
    uint64_t key;
};

/* A part of an image, of the size that `infer` said, mirrored left to right and top to bottom. */
struct leat_view_box {
    uint32_t x, y;
    bool flip, flip_y;
};

/* The place of an operator, for messages. */
struct leat_place {
    const char *output, *type; /* "Normalize in output 'image'" */
};

struct leat_row;
struct leat_use;
struct leat_targets;
struct leat_batch_part;
struct leat_pad;
struct leat_adjust;
#define LEAT_MAX_ADJUSTS 8

/* The alternatives of a branch that run for a row. */
enum leat_branch_kind {
    LEAT_BRANCH_ONE = 0, /* one of them */
    LEAT_BRANCH_MAYBE,   /* its only one, or none */
    LEAT_BRANCH_ALL      /* all, in an order that is drawn */
};
#define LEAT_MAX_ALTERNATIVES 256

/* The needs of an operator beside those that its `infer` gives. Those with `joint` or `batch` take tuples alone. */
enum leat_op_input {
    LEAT_INPUT_ANY = 0,
    LEAT_INPUT_IMAGE, /* of any numbers, as geometry needs it */
    LEAT_INPUT_PIXELS /* that can be resampled: bytes, 1 to 4 channels */
};

struct leat_op_class {
    const char *type; /* as in leat.ops and in JSON */
    enum leat_op_input input;
    size_t args_bytes; /* of the operator's own struct, which all functions below get as `args` */
    bool random;       /* it draws: leat_draw_* (base/random.h), under the key that its function gets */
    bool decodes;      /* takes an encoded photo; its stage pulls the rows */
    bool sparse;       /* takes sparse rows */
    bool converts;     /* its map changes the type of numbers, and their range with it, and nothing else */
    bool takes_whole;  /* its map takes an integer of 0 to the largest as it takes a float of 0 to 1 */
    bool in_place;     /* its filter may be asked for the result in the place of its input: of one type, size and
                        * layout */
    bool sanitizes;    /* its joint leaves steps out; the arguments are a struct leat_sanitize_args */
    bool reformats;    /* its joint changes the meaning of the numbers of boxes: for all rows, or for none */
    bool images_only;  /* it turns images and not their targets: tuples with boxes, masks or keypoints refuse it */
    unsigned views;    /* makes so many images of one, whose boxes `view` gives; those behind it work on each */
    unsigned gathers;  /* puts images of so many samples into one: gather.h; its move brings each to its size */
    bool overlays;     /* ... of one size, one over the other: those before its move have brought them to it */
    bool pastes;       /* ... by the masks of their instances */
    bool blends;       /* its batch computes with the values of images, which are floats then */
    /* Reads the arguments into zeroed `args`, each under the name that the Python class gives it (op/args.h). NULL: it
     * has none. Without `hash` it holds no pointers: its bytes are hashed. */
    void (*parse)(void *args, struct leat_args *json);
    /* Releases the memory of `args`. May be NULL. */
    void (*end)(void *args);
    /* Hashes the arguments. NULL: their bytes are hashed. */
    uint64_t (*hash)(const void *args);
    /* Turns the type of the input into that of the output, and names the right ones if it does not fit
     * (leat_op_misfit). NULL: the type stays. */
    int (*infer)(const void *args, const struct leat_place *place, struct leat_type *type, struct leat_effect *effect,
                 struct leat_error *error);

    /* Fills `move` for an image of w x h. Pure in (args, key, w, h). DECODE: this image does not fit. */
    int (*move)(const void *args, uint64_t key, uint32_t w, uint32_t h, struct leat_move *move,
                struct leat_error *error);

    /* In the chain of a tuple, a move that is drawn by the targets of the row as they are here: fills `move`, which is
     * as before `move`. It may change the targets, which are moved afterwards. Pure in (args, key, targets). */
    void (*aim)(const void *args, uint64_t key, struct leat_targets *targets, struct leat_move *move);
    /* For such: a box that no box of its shape exceeds, in an image of w x h, by which memory is reckoned before the
     * targets are seen. Shapes: 0 that of the image, 1 the widest, 2 the tallest. */
    void (*widest)(const void *args, unsigned shape, uint32_t w, uint32_t h, struct leat_move *move);

    /* View v of an image of w x h. DECODE: this image does not fit. */
    int (*view)(const void *args, unsigned v, uint32_t w, uint32_t h, struct leat_view_box *box,
                struct leat_error *error);

    /* Makes n values of the output type of n values of `in`, all of one channel. Pure in (args, channel, value). */
    void (*map)(const void *args, const struct leat_type *in, unsigned channel, const void *src, void *dst, size_t n);
    /* If `map` is a straight line but for rounding: turns v * scale + offset, the line so far, into the line after this
     * operator. False if it is none. May be NULL. */
    bool (*line)(const void *args, const struct leat_type *in, unsigned channel, double *scale, double *offset);

    /* Writes the steps that it takes under this key, and returns how many: at most LEAT_MAX_ADJUSTS. For an operator
     * that is a map (effect->maps) they are functions of single values. Pure in (args, key, channels). */
    unsigned (*adjust)(const void *args, uint64_t key, unsigned channels, struct leat_adjust *steps);

    /* Makes `out` of `in`, images in memory with layout and channels of the operator's types; `scratch`: as many bytes
     * as `plan` said, aligned to 64. Pure in (args, key, in). `plan` may be NULL. */
    void (*filter)(enum leat_isa isa, const void *args, uint64_t key, const struct leat_image *in,
                   const struct leat_image *out, void *scratch);
    void (*plan)(const void *args, uint64_t key, const struct leat_image *in, struct leat_filter_plan *plan);
    /* In place of `filter`: one that may fail. NOMEM, INVALID. */
    int (*remake)(const void *args, uint64_t key, const struct leat_image *in, const struct leat_image *out,
                  void *scratch, struct leat_error *error);
    /* For a filter: whether it does nothing under this key, so that its stage is left out for the row; then its types
     * and the size are the same before and behind it. May be NULL. */
    bool (*skips)(const void *args, uint64_t key);
    /* For an operator that overlays, but for one that pastes: the share of the row's own image that remains. Pure in
     * (args, key). */
    double (*share)(const void *args, uint64_t key);
    /* For a filter that turns images of w x h: the turn, for their targets. */
    void (*turn)(const void *args, uint64_t key, struct leat_turn *turn);

    /* For a branch: the alternatives of its n that run under this key, in order; returns their number. Pure in (args,
     * key, n).
     */
    unsigned (*choose)(const void *args, uint64_t key, unsigned n, uint8_t which[LEAT_MAX_ALTERNATIVES]);
    enum leat_branch_kind branch;

    /* Finds the function that the arguments name. INVALID: the table has no such. `functions` outlives `args`. */
    int (*bind)(void *args, const struct leat_native *functions, size_t n_functions, struct leat_error *error);
    /* "Native(libimage.so:blur)", for messages and statistics; lives as long as the program. */
    const char *(*label)(const void *args);
    /* Calls the function for one value of `length` bytes. `out` is of the type use->out, aligned, and overwritten.
     * OPERATOR: it failed; DECODE: the length is not one of this type. */
    int (*call)(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                uint64_t length, void *out, struct leat_error *error);
    /* In place of `call`: one that makes fewer numbers than `count` says, by the values. *made: how many they are. */
    int (*call_some)(const struct leat_use *use, const char *output, const struct leat_row *row, const void *in,
                     uint64_t length, void *out, uint64_t *made, struct leat_error *error);
    /* How many numbers it makes of a list of n, for a call that takes lists of any length. NULL: the types say it. */
    uint64_t (*count)(const void *args, uint64_t n);
#define LEAT_MOST_PAIRED 8000
    /* As `call` for both outputs of an operator that has two (token_ops.h), if they are made of one value: the labels
     * by `labels`, into `into`. For lists of any length, and for at most LEAT_MOST_PAIRED tokens of a fixed one, which
     * may be mapped memory, so that it allocates nothing. May be NULL. */
    int (*call_both)(const struct leat_use *use, const struct leat_use *labels, const char *output,
                     const struct leat_row *row, const void *in, uint64_t length, void *out, void *into,
                     struct leat_error *error);
    /* Whether `labels` are those of these arguments, in all that matters. Goes with call_both. */
    bool (*pairs)(const void *args, const void *labels);
    /* Whether two of this class draw the same for one key; NULL: if their arguments are the same. */
    bool (*same_draw)(const void *a, const void *b);

    /* In the chain of a tuple: changes the targets of a row (joint.h). */
    void (*joint)(const void *args, struct leat_targets *targets);
    /* Last in a chain: the way a value of the field becomes one of fixed length. */
    void (*pad)(const void *args, const char *field, struct leat_pad *pad);
    /* Last in the chain of a tuple: changes one output of a whole batch, whose first row has this key (mix.h). The
     * arguments begin with a struct leat_mix_args. */
    void (*batch)(const void *args, uint64_t key, const struct leat_batch_part *part, uint64_t rows);
};

/* Whether it makes images or numbers of such, in the work of a stage. */
static inline bool leat_op_makes_values(const struct leat_op_class *class)
{
    return class->move || class->aim || class->map || class->adjust || class->filter || class->remake || class->choose;
}

/* Steps of a value's first dimension: all but the first `n` of a longer one are cut off, or it is broken; a shorter one
 * is filled up. */
struct leat_pad {
    int64_t n;
    double fill;
    bool cut;
};

/* Whether it is a function of whole values, behind which the chain is cut into parts. */
static inline bool leat_op_calls(const struct leat_op_class *class)
{
    return class->call || class->call_some;
}

/* Whether the chain is cut there: its stages end before, and others begin behind. */
static inline bool leat_op_cuts(const struct leat_op_class *class)
{
    return class->gathers || class->views;
}

/* Every operator, ended by NULL. */
extern const struct leat_op_class *const leat_operators[];

/* A value in words: "an encoded photo", "a uint8 image of 3 channels, 32 x 32". */
void leat_type_words(const struct leat_type *type, char *text, size_t room);
/* Says "<type> in output '<output>' takes <wanted>, but gets <type of the value><hint>", LEAT_E_TYPE. */
int leat_op_misfit(const struct leat_place *place, const struct leat_type *got, const char *wanted,
                   struct leat_error *error);
/* Bytes of a value, UINT64_MAX if they vary. */
uint64_t leat_type_bytes(const struct leat_type *type);
/* The value of a stored field, as a chain begins with it. */
void leat_type_of_field(const struct leat_field *field, struct leat_type *type);
/* Checks that a value fits an operator, and infers the result. */
int leat_op_infer(const struct leat_op_class *class, const void *args, const struct leat_place *place,
                  struct leat_type *type, struct leat_effect *effect, struct leat_error *error);
/* Arguments that several operators have: "size" (one side of a square, or height and width), and how pixels are
 * resampled. */
void leat_args_size(struct leat_args *args, int64_t *height, int64_t *width);
/* "padding" (one number, or left and top, or left, top, right and bottom) of `least` on, and "padding_mode". Returns
 * how many numbers there were. */
unsigned leat_args_padding(struct leat_args *args, int64_t least, int64_t sides[4], enum leat_padding *mode);
/* "fill": a number, or one per channel, while masks get 0, or {"image": of these, "mask": a number}. If there is none,
 * that of images is `image`, and that of masks 0. */
void leat_args_fill(struct leat_args *args, double image, struct leat_fill *fill);
/* Says that `value`, by which an operator fills `what`, is none that numbers of a dtype can be: INVALID. */
int leat_check_held(const struct leat_place *place, const char *what, enum leat_dtype dtype, double value,
                    struct leat_error *error);
/* Names the right ones if there is neither one fill nor one per channel (for class ids any count does), or if the dtype
 * does not hold it. */
int leat_fill_check(const struct leat_fill *fill, const struct leat_place *place, const struct leat_type *type,
                    struct leat_error *error);
/* The statement of infer on an operator that pads with it, or in another way if `effect` is changed behind it. */
int leat_effect_pads(const struct leat_fill *fill, const struct leat_place *place, const struct leat_type *type,
                     struct leat_effect *effect, struct leat_error *error);
/* As the bytes of an image's channels. */
void leat_fill_bytes(const struct leat_fill *fill, const struct leat_image *image, uint8_t bytes[LEAT_MAX_CHANNELS]);
/* "interpolation" of operators that do not resize: NEAREST, BILINEAR, BICUBIC. */
enum leat_filter leat_args_warp(struct leat_args *args, enum leat_filter fallback);
enum leat_filter leat_args_filter(struct leat_args *args);
/* `move` of a resize to sides that are cut to whole pixels, at least 1. DECODE: they are too large. */
int leat_move_resize(struct leat_move *move, const char *type, double width, double height, enum leat_filter filter,
                     struct leat_error *error);
/* `infer` of operators that take images of 1 or 3 channels alone. */
int leat_infer_gray_or_rgb(const void *args, const struct leat_place *place, struct leat_type *type,
                           struct leat_effect *effect, struct leat_error *error);
/* `infer` of operators that resize to a size that varies. */
int leat_infer_resize(const void *args, const struct leat_place *place, struct leat_type *type,
                      struct leat_effect *effect, struct leat_error *error);

#endif
