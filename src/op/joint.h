/*
 * The chain of a tuple on the targets of one row: boxes, keypoints, and ragged columns with a value per box.
 *
 * Pixels go through stages (stage.h), which compose the moves of a chain. Targets need no composing: the same moves are
 * drawn again, for the same key and size, and applied one after the other. Coordinates are float32, and each step is
 * the arithmetic of torchvision.transforms.v2 on its boxes; so a slow reference gives the same bits. Keypoints are at
 * their pixels, whose middles are whole numbers; torchvision's are not, if an image is resized or turned.
 */
#ifndef LEAT_OP_JOINT_H
#define LEAT_OP_JOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/role.h"
#include "leat/leat.h"
#include "op/operator.h"

/* One field of a row: `n` steps of `step` bytes, in memory of the scratch. */
struct leat_target_part {
    const char *name;
    enum leat_role role; /* NONE: a column that goes along */
    bool normalized;
    bool follows;          /* its steps are kept or dropped with the boxes */
    const uint16_t *pairs; /* of keypoints: 2 * n_pairs points, left and right of each other */
    size_t n_pairs;
    uint64_t n, step;
    uint8_t *data; /* aligned to 16 */
};

struct leat_targets {
    uint32_t w, h; /* of the image at this point of the chain */
    size_t n;
    struct leat_target_part *parts;
    struct leat_target_part *seen; /* floats beside the boxes, of which there is one field: the part of the area of each
                                    * that cuts have left; NULL: not needed */
};

/* Checks the input, and brings it to pixels. DECODE: a coordinate is no finite number, a box is inverted or has nothing
 * in common with the image; *failed is its part. */
int leat_targets_begin(struct leat_targets *targets, size_t *failed, struct leat_error *error);
/* Moves them as the image is moved. */
void leat_targets_move(struct leat_targets *targets, const struct leat_move *move);
/* Turns them: a box becomes the smallest that has the four corners of the old one. */
void leat_targets_turn(struct leat_targets *targets, const struct leat_turn *turn);
/* Keeps those with kept[i] of the boxes, and of the columns that go with them. */
void leat_targets_keep(struct leat_targets *targets, const bool *kept);
/* Back to the units in which they are stored, those of the image as it is now. */
void leat_targets_end(struct leat_targets *targets);

/* The arguments of SanitizeBoundingBoxes: it is the class with `sanitizes`. Compiling the tuple settles the ragged
 * columns that follow the boxes. */
#define LEAT_SANITIZE_LABELS 16
struct leat_sanitize_args {
    double min_size, min_area, min_visibility;
    bool all; /* all of them; else those named */
    unsigned n;
    char labels[LEAT_SANITIZE_LABELS][64];
};

/* Brings n boxes from one format to another: LEAT_ROLE_BOXES_*. */
void leat_boxes_convert(float *boxes, uint64_t n, enum leat_role from, enum leat_role to);
/* Cuts them off at the edges of an image of w x h. */
void leat_boxes_clamp(float *boxes, uint64_t n, enum leat_role format, uint32_t w, uint32_t h);
/* Likewise boxes of a row, which are in this format now; their remaining part counts. */
void leat_targets_clamp(const struct leat_targets *targets, struct leat_target_part *boxes, enum leat_role format,
                        uint32_t w, uint32_t h);
static inline float *leat_target_boxes(const struct leat_target_part *part)
{
    return (float *)(void *)part->data;
}

#endif
