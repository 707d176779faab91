/* The fields that can have each role (enum leat_role). */
#ifndef LEAT_BASE_ROLE_H
#define LEAT_BASE_ROLE_H

#include <string.h>

#include "leat/leat.h"

static inline bool leat_role_is_boxes(enum leat_role role)
{
    return role >= LEAT_ROLE_BOXES_XYXY && role <= LEAT_ROLE_BOXES_CXCYWH;
}

/* The bytes of one column and its value in a sparse row. */
static inline size_t leat_sparse_step(enum leat_dtype item)
{
    return sizeof(int32_t) + leat_dtype_size(item);
}

/* Whether sparse rows have columns, of a step that fits the dtype of values, and others none. */
static inline bool leat_columns_fit(const struct leat_field *field)
{
    if (field->role != LEAT_ROLE_SPARSE)
        return !field->columns;
    return field->columns > 0 && field->columns <= INT32_MAX && leat_dtype_size(field->item) && field->ndim == 2 &&
           field->shape[1] == (int64_t)leat_sparse_step(field->item);
}

/* Column k of a sparse row of n values, which need not be aligned. */
static inline int32_t leat_sparse_column(const uint8_t *row, enum leat_dtype item, size_t n, size_t k)
{
    int32_t column;
    memcpy(&column, row + n * leat_dtype_size(item) + k * sizeof column, sizeof column);
    return column;
}

/* Boxes are float32 (any, 4), keypoints float32 (any, k, 3), a mask is an encoded image, masks are bytes, sparse rows
 * uint8 (any, bytes of a column and its value); only boxes are normalized. */
static inline bool leat_role_fits(const struct leat_field *field)
{
    bool lists = field->kind == LEAT_KIND_ARRAY && field->dtype == LEAT_F32 && field->ndim && field->shape[0] == -1;
    if (field->normalized && !leat_role_is_boxes(field->role))
        return false;
    if (leat_role_is_boxes(field->role))
        return lists && field->ndim == 2 && field->shape[1] == 4;
    if (field->role == LEAT_ROLE_KEYPOINTS)
        return lists && field->ndim == 3 && field->shape[2] == 3;
    if (field->role == LEAT_ROLE_MASKS)
        return field->kind == LEAT_KIND_BYTES;
    if (field->role == LEAT_ROLE_SPARSE)
        return field->kind == LEAT_KIND_ARRAY && field->dtype == LEAT_U8 && field->ndim == 2 && field->shape[0] == -1;
    return field->role == LEAT_ROLE_NONE || (field->role == LEAT_ROLE_MASK && field->kind == LEAT_KIND_IMAGE);
}

/* Only keypoints have pairs, and a point is in one at most. */
static inline bool leat_pairs_fit(const struct leat_field *field)
{
    uint8_t seen[(UINT16_MAX + 1) / 8] = {0};
    if (!field->n_pairs)
        return true;
    if (field->role != LEAT_ROLE_KEYPOINTS || field->n_pairs > UINT16_MAX / 2 || !field->pairs)
        return false;
    for (size_t i = 0; i < 2 * field->n_pairs; i++) {
        const uint16_t point = field->pairs[i];
        const uint8_t bit = (uint8_t)(1 << point % 8);
        if (point >= field->shape[1] || seen[point / 8] & bit)
            return false;
        seen[point / 8] |= bit;
    }
    return true;
}

#endif
