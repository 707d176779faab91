/*
 * The codes of a field of an opened file (codes.h). They are read into memory and checked on demand: they are an index
 * that nobody needs, so if they are damaged, which leat_verify reports, there are none.
 */
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/codes.h"
#include "store/reader.h"

/* The section of a field, NULL if it has none. */
static int find(const struct leat_store_source *s, size_t field, const struct leat_store_section **out,
                struct leat_error *error)
{
    uint8_t head[4];
    *out = NULL;
    for (uint32_t i = 0; i < s->n_sections; i++) {
        const struct leat_store_section *x = &s->sections[i];
        if (x->type != LEAT_SECTION_CODES || x->codec || x->length < LEAT_CODES_HEAD)
            continue;
        int rc = leat_io_read(s->pages, x->offset, sizeof head, head, error);
        if (rc)
            return rc;
        if (leat_get_u32(head) == field) {
            *out = x;
            return LEAT_OK;
        }
    }
    return LEAT_OK;
}

int leat_store_codes(struct leat_source *source, size_t field, struct leat_source_codes *out, struct leat_error *error)
{
    const struct leat_store_source *s = (const struct leat_store_source *)source;
    const struct leat_store_section *x;
    memset(out, 0, sizeof *out);
    if (field >= s->layout.n_stored ||
        (s->layout.fields[field].kind != LEAT_KIND_STR && s->layout.fields[field].kind != LEAT_KIND_JSON))
        return LEAT_OK;
    int rc = find(s, field, &x, error);
    if (rc || !x)
        return rc;
    uint8_t *bytes = leat_alloc((size_t)x->length);
    if (!bytes)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the codes of field '%s'", s->layout.names[field]);
    rc = leat_io_read(s->file, x->offset, x->length, bytes, error);
    if (rc) {
        leat_free(bytes);
        return rc;
    }
    if (leat_hash64(bytes, (size_t)x->length) == x->checksum &&
        leat_store_codes_get(bytes, x->length, s->base.count, s->layout.fields[field].kind, out)) {
        out->memory = bytes;
        return LEAT_OK;
    }
    leat_log(LEAT_LOG_WARNING, "%s: the codes of field '%s' are damaged: its texts are read", s->path,
             s->layout.names[field]);
    leat_free(bytes);
    memset(out, 0, sizeof *out);
    return LEAT_OK;
}
