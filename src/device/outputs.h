/* The outputs of a loader for which a card has work: bytes of pixels that become values, photos that it decodes. */
#ifndef LEAT_DEVICE_OUTPUTS_H
#define LEAT_DEVICE_OUTPUTS_H

#include "device/copies.h"
#include "engine/batch.h"

/* The output of that name and its number; NULL: there is none. */
const struct leat_output *leat_device_output(const struct leat_batch_pool *pool, const char *name, size_t *number);
/* leat_device_channels. */
unsigned leat_device_channels_of(const struct leat_batch_pool *pool, const char *name);

/* Whether an output goes to a card: text and JSON stay, as does what only functions take. */
static inline bool leat_output_travels(const struct leat_output *o)
{
    return !o->hidden && !o->sizes && o->kind != LEAT_KIND_STR && o->kind != LEAT_KIND_JSON;
}

#endif
