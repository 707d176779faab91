/* Which fields can have which role (enum leat_role). */
#ifndef LEAT_BASE_ROLE_H
#define LEAT_BASE_ROLE_H

#include "leat/leat.h"

static inline bool leat_role_is_boxes(enum leat_role role)
{
    return role >= LEAT_ROLE_BOXES_XYXY && role <= LEAT_ROLE_BOXES_CXCYWH;
}

/* Boxes are float32 (any, 4), keypoints float32 (any, k, 3), a mask is an encoded image; only boxes are normalized. */
static inline bool leat_role_fits(const struct leat_field *field)
{
    bool lists = field->kind == LEAT_KIND_ARRAY && field->dtype == LEAT_F32 && field->ndim && field->shape[0] == -1;
    if (field->normalized && !leat_role_is_boxes(field->role))
        return false;
    if (leat_role_is_boxes(field->role))
        return lists && field->ndim == 2 && field->shape[1] == 4;
    if (field->role == LEAT_ROLE_KEYPOINTS)
        return lists && field->ndim == 3 && field->shape[2] == 3;
    return field->role == LEAT_ROLE_NONE || (field->role == LEAT_ROLE_MASK && field->kind == LEAT_KIND_IMAGE);
}

#endif
