/*
 * The part of the file that never changes: the fields of rows, and their data set. It is read from any bytes: each
 * value is checked before it is used.
 *
 *     0  "leatcols"      24  flags: 1: keyed               160 + 144 f  field f: name (64), dtype, ndim (4 each),
 *     8  version (4)     28  number of fields (4)                       shape (8 of 8 bytes; -1: varies); of sparse
 *    12  zeroes (4)      32  fingerprint (128), zeroes                  rows dtype of values, columns (4 each)
 *    16  checksum of the rest, [24, 16384)                 then zeroes
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/role.h"
#include "columns/internal.h"

static const char magic[8] = "leatcols";
enum { CHECKED = 24, FINGERPRINT = 32, FIELDS = 160, FIELD_BYTES = 144, NAME_BYTES = 64 };

static bool name_is_good(const char *name)
{
    const size_t n = strnlen(name, NAME_BYTES);
    if (!n || n >= NAME_BYTES)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (!i || !((c >= '0' && c <= '9') || c == '.' || c == '-')))
            return false;
    }
    return true;
}

static int check_field(const struct leat_field *f, struct leat_error *error)
{
    char shown[256];
    if (!f->name || !name_is_good(f->name))
        return leat_fail(error, LEAT_E_INVALID,
                         "'%s' is no name of a field: it begins with a letter or _, and has letters, digits, '_', '.', "
                         "'-', at most 63",
                         leat_escape(f->name ? f->name : "", shown, sizeof shown));
    if (f->kind != LEAT_KIND_ARRAY)
        return leat_fail(error, LEAT_E_INVALID, "field %s is no array: columns have arrays of numbers only", f->name);
    if (!leat_dtype_size(f->dtype) || f->ndim > LEAT_MAX_DIMS)
        return leat_fail(error, LEAT_E_INVALID, "field %s has a type that there is not", f->name);
    if (!leat_columns_fit(f) || (f->columns && !leat_role_fits(f)))
        return leat_fail(error, LEAT_E_INVALID, "field %s is no field of sparse rows, with 1 to 2^31 - 1 columns",
                         f->name);
    uint64_t bytes = leat_dtype_size(f->dtype);
    for (unsigned d = 0; d < f->ndim; d++) {
        const bool varies = d == 0 && f->shape[0] == -1;
        if (!varies && (f->shape[d] < 1 || !leat_mul_u64(bytes, (uint64_t)f->shape[d], &bytes) ||
                        bytes > LEAT_COLUMNS_MAX_ROW_BYTES))
            return leat_fail(error, LEAT_E_INVALID,
                             "field %s: the sizes of its dimensions are above 0, and a value has at most %" PRIu64
                             " bytes; only the first may vary",
                             f->name, LEAT_COLUMNS_MAX_ROW_BYTES);
    }
    return LEAT_OK;
}

int leat_columns_check_fields(const struct leat_field *fields, size_t n, struct leat_error *error)
{
    if (!n || n > LEAT_COLUMNS_MAX_FIELDS)
        return leat_fail(error, LEAT_E_INVALID, "columns have 1 to %d fields, not %zu", LEAT_COLUMNS_MAX_FIELDS, n);
    for (size_t i = 0; i < n; i++) {
        int rc = check_field(&fields[i], error);
        if (rc)
            return rc;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(fields[k].name, fields[i].name))
                return leat_fail(error, LEAT_E_INVALID, "two fields are called %s", fields[i].name);
    }
    return LEAT_OK;
}

/* The place of each field in a record. */
static int lay_out(struct leat_columns *c, struct leat_error *error)
{
    uint64_t at = 0;
    c->ragged = false;
    for (size_t i = 0; i < c->n_fields; i++) {
        const struct leat_field *f = &c->fields[i];
        struct shape *s = &c->shapes[i];
        *s = (struct shape){.dtype = f->dtype, .ragged = f->ndim && f->shape[0] == -1, .n_items = 1, .at = at};
        for (unsigned d = s->ragged; d < f->ndim; d++)
            s->n_items *= (uint64_t)f->shape[d];
        s->scaled = f->dtype == LEAT_I8;
        s->item = s->n_items * leat_dtype_size(f->dtype);
        c->ragged |= s->ragged;
        at += s->ragged ? 16 : (s->scaled ? 8 : 0) + ((s->item + 7) & ~UINT64_C(7));
        if (at > LEAT_COLUMNS_MAX_ROW_BYTES)
            return leat_fail(error, LEAT_E_INVALID,
                             "a row has more than %" PRIu64 " bytes: write its fields to stores "
                             "of their own",
                             LEAT_COLUMNS_MAX_ROW_BYTES);
    }
    c->plain = c->n_fields == 1 && !c->ragged && !c->shapes[0].scaled;
    c->fixed = c->plain ? c->shapes[0].item : at;
    return LEAT_OK;
}

int leat_columns_header_write(const struct leat_columns_options *options, uint8_t *out, struct leat_error *error)
{
    int rc = leat_columns_check_fields(options->fields, options->n_fields, error);
    const char *fingerprint = options->fingerprint ? options->fingerprint : "";
    if (rc)
        return rc;
    if (strlen(fingerprint) >= FINGERPRINT_BYTES)
        return leat_fail(error, LEAT_E_INVALID, "a fingerprint has at most %d bytes", FINGERPRINT_BYTES - 1);
    memset(out, 0, HEADER_BYTES);
    memcpy(out, magic, 8);
    leat_put_u32(out + 8, LEAT_COLUMNS_VERSION);
    leat_put_u32(out + 24, options->keyed);
    leat_put_u32(out + 28, (uint32_t)options->n_fields);
    memcpy(out + FINGERPRINT, fingerprint, strlen(fingerprint));
    for (size_t i = 0; i < options->n_fields; i++) {
        const struct leat_field *f = &options->fields[i];
        uint8_t *p = out + FIELDS + i * FIELD_BYTES;
        memcpy(p, f->name, strlen(f->name));
        leat_put_u32(p + 64, f->dtype);
        leat_put_u32(p + 68, f->ndim);
        for (unsigned d = 0; d < f->ndim; d++)
            leat_put_u64(p + 72 + 8 * d, (uint64_t)f->shape[d]);
        leat_put_u32(p + 136, f->columns ? f->item : 0);
        leat_put_u32(p + 140, (uint32_t)f->columns);
    }
    leat_put_u64(out + 16, leat_hash64(out + CHECKED, HEADER_BYTES - CHECKED));
    return LEAT_OK;
}

int leat_columns_header_read(struct leat_columns *c, const uint8_t *bytes, struct leat_error *error)
{
    if (memcmp(bytes, magic, 8))
        return leat_fail(error, LEAT_E_FORMAT, "this is no store of leat's: it does not begin as one");
    if (leat_get_u32(bytes + 8) != LEAT_COLUMNS_VERSION)
        return leat_fail(error, LEAT_E_FORMAT, "a store of version %" PRIu32 ": this library knows version %d",
                         leat_get_u32(bytes + 8), LEAT_COLUMNS_VERSION);
    if (leat_get_u64(bytes + 16) != leat_hash64(bytes + CHECKED, HEADER_BYTES - CHECKED))
        return leat_fail(error, LEAT_E_CORRUPT, "the header of the store is damaged: restore the file from a copy");
    c->keyed = leat_get_u32(bytes + 24) & 1;
    c->n_fields = leat_get_u32(bytes + 28);
    if (!c->n_fields || c->n_fields > LEAT_COLUMNS_MAX_FIELDS)
        return leat_fail(error, LEAT_E_CORRUPT, "the header of the store says %zu fields: it was not made by leat",
                         c->n_fields);
    memcpy(c->fingerprint, bytes + FINGERPRINT, FINGERPRINT_BYTES);
    c->fingerprint[FINGERPRINT_BYTES - 1] = 0;
    for (size_t i = 0; i < c->n_fields; i++) {
        const uint8_t *p = bytes + FIELDS + i * FIELD_BYTES;
        struct leat_field *f = &c->fields[i];
        memcpy(c->names[i], p, NAME_BYTES);
        c->names[i][NAME_BYTES - 1] = 0;
        *f = (struct leat_field){.name = c->names[i], .kind = LEAT_KIND_ARRAY, .ndim = leat_get_u32(p + 68)};
        f->dtype = (enum leat_dtype)leat_get_u32(p + 64);
        for (unsigned d = 0; d < f->ndim && d < LEAT_MAX_DIMS; d++)
            f->shape[d] = (int64_t)leat_get_u64(p + 72 + 8 * d);
        f->columns = leat_get_u32(p + 140);
        f->item = f->columns ? (enum leat_dtype)leat_get_u32(p + 136) : 0;
        f->role = f->columns ? LEAT_ROLE_SPARSE : LEAT_ROLE_NONE;
    }
    struct leat_error why;
    if (leat_columns_check_fields(c->fields, c->n_fields, &why) || lay_out(c, &why))
        return leat_fail(error, LEAT_E_CORRUPT, "the header of the store was not made by leat: %s", why.message);
    return LEAT_OK;
}
