/*
 * A checksum says that a photo in the fast form is as it was written. It does not say that it was written correctly:
 * another program, an older version or a memory error may have made it. So the original file is encoded again from it
 * and compared with the checksum of the original, which the fast form carries, and with the form's data for decoders.
 */
#include "store/restore.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/hash.h"
#include "io/guard.h"

/* Copies the payload of a record to `buffer`. LEAT_E_END: there is nothing to restore; its fault has been reported. */
static int take_payload(struct leat_growing *buffer, const struct leat_store_layout *l, uint32_t f, const uint8_t *p,
                        const struct leat_store_group *g, const struct leat_store_record *r, struct leat_error *error)
{
    const uint64_t end = LEAT_STORE_GROUP_HEADER + g->payload_bytes;
    if (r->info.form != LEAT_FORM_FAST || r->offset < LEAT_STORE_GROUP_HEADER || r->offset > end ||
        !leat_store_record_fits(l, &l->info[f], r, end - r->offset))
        return LEAT_E_END;
    buffer->length = 0;
    uint8_t *to = leat_growing_extend(buffer, r->length);
    if (!to)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a photo of %" PRIu64 " bytes", r->length);
    const int rc = leat_guarded_copy(to, p + r->offset, r->length, error);
    if (rc)
        return rc;
    const bool whole = leat_hash64(buffer->data, r->length) == r->checksum &&
                       l->info[f].codec->form_is_true(buffer->data, r->length, &r->info);
    return whole ? LEAT_OK : LEAT_E_END;
}

static int restore_photo(struct leat_growing *buffer, const struct leat_store_layout *l, uint32_t f, const uint8_t *p,
                         const struct leat_store_group *g, const struct leat_store_shape *shape, uint64_t row,
                         struct leat_store_faults *faults, struct leat_error *error)
{
    const struct leat_store_field *info = &l->info[f];
    uint8_t bytes[LEAT_STORE_CODEC_RECORD];
    struct leat_store_record record;
    int rc = leat_guarded_copy(bytes, p + shape->columns_at + info->before * g->n_rows + row * info->width,
                               sizeof bytes, error);
    if (rc)
        return rc;
    leat_store_record_get(bytes, &record, true);
    rc = take_payload(buffer, l, f, p, g, &record, error);
    if (rc)
        return rc == LEAT_E_END ? LEAT_OK : rc;
    rc = info->codec->restore_check(buffer->data, record.length, error);
    if (rc != LEAT_E_CORRUPT)
        return rc;
    leat_store_fault_add(faults, LEAT_FAULT_RESTORE, f, row, 1, record.offset);
    return LEAT_OK;
}

int leat_store_restore_photos(struct leat_growing *buffer, const struct leat_store_layout *l, const uint8_t *p,
                              const struct leat_store_group *g, const struct leat_store_shape *shape,
                              struct leat_store_faults *faults, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (uint64_t row = 0; row < g->n_rows && (l->features & LEAT_FEATURE_FORMS); row++)
        for (uint32_t f = 0; f < l->n_stored && !rc; f++)
            if (l->info[f].codec)
                rc = restore_photo(buffer, l, f, p, g, shape, row, faults, error);
    if (!rc)
        leat_error_clear(error);
    return rc;
}
