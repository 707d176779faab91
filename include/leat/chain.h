/*
 * Chains of operators, outside of a loader: the operators of one output, for single values from elsewhere: those behind
 * a function in Python, or those before one that takes images of open size. Results are those of a loader, byte for
 * byte.
 */
#ifndef LEAT_CHAIN_H
#define LEAT_CHAIN_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct leat_chain; /* one thread at a time */

/* The type of a chain's results. */
struct leat_chain_result {
    enum leat_kind kind;
    enum leat_dtype dtype;
    enum leat_layout layout; /* of an image, as it is delivered */
    bool open;               /* an image whose height and width differ from value to value: -1 in `shape` */
    unsigned ndim;
    int64_t shape[LEAT_MAX_DIMS];
    int64_t strides[LEAT_MAX_DIMS]; /* in elements; 0 if `open` */
    uint64_t moves;                 /* bytes of those that targets draw (leat_chain_apply_image) */
};

/* Compiles a program of one output (as in leat_loader_options) for values of `field`. Unlike a loader's output, it may
 * end in images of open size. The table of functions is copied. Errors: INVALID, TYPE, NOT_FOUND, NOMEM. */
LEAT_API int leat_chain_open(const struct leat_field *field, const char *program, const struct leat_native *functions,
                             size_t n_functions, struct leat_chain **out, struct leat_error *error);
LEAT_API void leat_chain_free(struct leat_chain *chain); /* NULL is allowed */
LEAT_API void leat_chain_describe(const struct leat_chain *chain, struct leat_chain_result *out);
/* Bytes that a list of `length` bytes becomes; 0: its results are no lists whose lengths follow from that. */
LEAT_API uint64_t leat_chain_bytes(const struct leat_chain *chain, uint64_t length);
/* Applies the chain to one value of `length` bytes, under the key of its row; `sample` is its id, or LEAT_NO_SAMPLE.
 * `out` is freed with leat_value_clear. Photos are decoded to their end. Errors: DECODE, OPERATOR (the value's fault),
 * INVALID (its length), NOMEM. */
LEAT_API int leat_chain_apply(struct leat_chain *chain, const void *data, uint64_t length, uint64_t key, int64_t sample,
                              struct leat_value *out, struct leat_error *error);
/* The same for an image from the middle of a loader's chain. Its field, an array with a layout, may have the height and
 * width -1: then this image is of `height` x `width`. `moves`, of n_moves bytes, are the draws of the row's targets for
 * such operators as RandomIoUCrop, as the loader's hidden output has them; NULL: they are not known, and the operators
 * do what they can. Errors: as above; INVALID also if there are moves for other operators. */
LEAT_API int leat_chain_apply_image(struct leat_chain *chain, const void *data, uint64_t length, uint32_t height,
                                    uint32_t width, const void *moves, uint64_t n_moves, uint64_t key, int64_t sample,
                                    struct leat_value *out, struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
