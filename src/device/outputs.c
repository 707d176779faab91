#include "device/outputs.h"

#include <string.h>

#include "data/dataset.h"
#include "engine/loader.h"
#include "leat/device.h"

const struct leat_output *leat_device_output(const struct leat_batch_pool *pool, const char *name, size_t *number)
{
    const struct leat_output *output = NULL;
    for (*number = 0; *number < pool->n_outputs; ++*number)
        if (!strcmp((output = leat_program_output(pool->program, *number))->name, name))
            return output;
    return NULL;
}

unsigned leat_device_channels_of(const struct leat_batch_pool *pool, const char *name)
{
    size_t k;
    const struct leat_output *o = leat_device_output(pool, name, &k);
    if (o && o->on_card)
        return 3;
    return o && o->kind == LEAT_KIND_ARRAY && !o->ragged && !o->hidden && o->dtype == LEAT_U8 && o->ndim == 3 &&
                   o->shape[2] >= 1 && o->shape[2] <= 4 && o->strides[2] == 1 && o->strides[1] == o->shape[2]
               ? (unsigned)o->shape[2]
               : 0;
}

unsigned leat_device_channels(const struct leat_loader *loader, const char *output)
{
    return leat_device_channels_of(&loader->pool, output);
}

bool leat_device_is_fast(const struct leat_dataset *dataset, const char *name)
{
    const uint64_t first = 0;
    const size_t field = leat_dataset_field(dataset, name);
    struct leat_sample_ref ref;
    struct leat_extent extent;
    size_t failed, n;
    leat_dataset_fields(dataset, &n);
    if (!leat_dataset_count(dataset) || field >= n)
        return false;
    leat_dataset_locate(dataset, &first, 1, &ref);
    return leat_ref_storage(&ref, field) == LEAT_STORAGE_EXTENT &&
           !leat_dataset_extents(dataset, field, &ref, 1, &extent, &failed, NULL) && extent.info.form == LEAT_FORM_FAST;
}
