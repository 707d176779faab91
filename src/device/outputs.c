#include "device/outputs.h"

#include <string.h>

#include "codec/photo/photo.h"
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

bool leat_device_decodes(const struct leat_dataset *dataset, const char *name)
{
    const uint64_t first = 0;
    const size_t field = leat_dataset_field(dataset, name);
    struct leat_sample_ref ref;
    struct leat_extent extent;
    struct leat_value value;
    size_t failed, n;
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    if (!leat_dataset_count(dataset) || field >= n || fields[field].kind != LEAT_KIND_IMAGE)
        return false;
    leat_dataset_locate(dataset, &first, 1, &ref);
    if (leat_ref_storage(&ref, field) == LEAT_STORAGE_EXTENT &&
        !leat_dataset_extents(dataset, field, &ref, 1, &extent, &failed, NULL) &&
        extent.info.form != LEAT_FORM_ORIGINAL)
        return extent.info.form == LEAT_FORM_FAST;
    if (leat_dataset_read(dataset, 0, field, &value, NULL))
        return false;
    struct leat_value_info info = {0};
    const bool baseline = !value.decoded &&
                          !leat_codec_of(LEAT_KIND_IMAGE)->probe(value.data, value.length, &info, NULL) &&
                          info.kind == LEAT_IMAGE_JPEG_BASELINE;
    leat_value_clear(&value);
    return baseline;
}
