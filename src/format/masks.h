/* Semantic masks beside photos. */
#ifndef LEAT_FORMAT_MASKS_H
#define LEAT_FORMAT_MASKS_H

#include "format/annotated.h"

/* Why a file that begins so is no mask of class ids, a literal; NULL: it is one of *w x *h pixels. */
const char *leat_mask_fault(const uint8_t *head, size_t n, uint32_t *w, uint32_t *h);

#endif
