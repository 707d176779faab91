/* Operators that mix the rows of a batch: the common part of their arguments, and their input. */
#ifndef LEAT_OP_MIX_H
#define LEAT_OP_MIX_H

#include "op/operator.h"

struct leat_mix_args {
    int64_t num_classes; /* 0: labels are vectors already */
    double alpha;
    char label[64]; /* the field; "": the only one that can be */
};

/* One output of a batch: an image, or labels that are float32 vectors. */
struct leat_batch_part {
    bool label;
    enum leat_dtype dtype;
    uint64_t row_bytes;
    uint8_t *data;
    /* of the batch's images: their size, and of an output that is one the steps in bytes */
    uint32_t w, h, channels;
    uint64_t row, column, plane;
};

/* num_classes, alpha, labels_getter. */
void leat_mix_parse(void *into, struct leat_args *json);
/* Each row becomes keep * itself + (1 - keep) * the row before it, the first one's being the last: in float32, as torch
 * computes it; float16 and bfloat16 through it; float64 in itself. */
void leat_mix_rows(const struct leat_batch_part *part, uint64_t rows, double keep);
/* A draw from Beta(alpha, alpha), 0 < alpha <= 1e6; the first counter that it leaves free. */
double leat_draw_beta(uint64_t key, double alpha, uint64_t *counter);

#endif
