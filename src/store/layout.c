/*
 * The records of leat's own file and the arithmetic of its layout. Everything here is pure: bytes in, numbers out, and
 * the reverse. Numbers from outside (a schema, a header, a group's shape) are checked here once, and nowhere again.
 */
#include "store/layout.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/role.h"
#include "format/source.h"

enum { NAME_ROOM = LEAT_STORE_HEADER_FIXED }; /* bytes of a field name with its NUL */
#define MAX_VALUE_BYTES (UINT64_C(1) << 40)

static const struct {
    const char *suffix;
    enum leat_dtype dtype;
    uint32_t at;
} derived[LEAT_STORE_DERIVED] = {
    {NULL, LEAT_U32, 24},  {NULL, LEAT_U32, 28},    {"channels", LEAT_U8, 32}, /* NULL: by the codec's name */
    {"kind", LEAT_U8, 33}, {"health", LEAT_U8, 34},
};
enum { LONGEST_SUFFIX = 9 };

/* ---- schemas --------------------------------------------------------------------------------- */

static bool name_is_valid(const char *name)
{
    size_t n = strnlen(name, NAME_ROOM);
    if (n == 0 || n >= NAME_ROOM)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool later = (c >= '0' && c <= '9') || c == '-' || c == '.';
        if (!letter && (i == 0 || !later))
            return false;
    }
    return true;
}

/* Takes over one field of a schema in its normal form, and its facts. */
static int take_field(const struct leat_field *in, struct leat_field *out, struct leat_store_field *info,
                      struct leat_error *error)
{
    const unsigned known = LEAT_FIELD_DERIVED | LEAT_FIELD_FILES | LEAT_FIELD_PIXELS;
    if (!in->name || !name_is_valid(in->name))
        return leat_fail(
            error, LEAT_E_INVALID,
            "a field is named '%.64s': use a letter or _ first, then letters, digits, _, - and ., at most 63 bytes",
            in->name ? in->name : "");
    out->kind = in->kind;
    out->flags = in->flags;
    out->dtype = LEAT_U8;
    if (in->flags & ~known || (int)in->layout < LEAT_LAYOUT_NONE || in->layout > LEAT_LAYOUT_CHW)
        return leat_fail(error, LEAT_E_INVALID, "field '%s' has unknown flags or an unknown layout", in->name);
    out->layout = in->layout;
    if (!*leat_kind_name(in->kind))
        return leat_fail(error, LEAT_E_INVALID, "field '%s' has the unknown kind %d", in->name, (int)in->kind);
    if (in->flags & LEAT_FIELD_PIXELS && in->kind != LEAT_KIND_IMAGE)
        return leat_fail(error, LEAT_E_INVALID, "field '%s' is no image: only images can be pixels", in->name);
    if (in->flags & LEAT_FIELD_FILES && in->kind == LEAT_KIND_ARRAY)
        return leat_fail(error, LEAT_E_INVALID,
                         "field '%s' is an array: only bytes, text and images can be files of a folder", in->name);
    if (!leat_role_fits(in))
        return leat_fail(
            error, LEAT_E_INVALID,
            "field '%s' cannot have its role: boxes are float32 (any, 4), keypoints float32 (any, k, 3), a mask is an "
            "encoded image, and only boxes are normalized",
            in->name);
    out->role = in->role;
    out->normalized = in->normalized;
    if (!leat_pairs_fit(in))
        return leat_fail(
            error, LEAT_E_INVALID,
            "field '%s' cannot have its pairs: each is two of the field's keypoints, and a point is in one "
            "pair at most",
            in->name);
    if (!leat_columns_fit(in))
        return leat_fail(error, LEAT_E_INVALID,
                         "field '%s' cannot have its columns: sparse rows have 1 to 2^31 - 1, and others none",
                         in->name);
    out->item = in->item;
    out->columns = in->columns;
    if (in->n_pairs) {
        uint16_t *pairs = leat_new_array(2 * in->n_pairs, sizeof *pairs);
        if (!(out->pairs = pairs))
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a schema");
        memcpy(pairs, in->pairs, 2 * in->n_pairs * sizeof *pairs);
        out->n_pairs = in->n_pairs;
    }
    if (in->kind != LEAT_KIND_ARRAY) {
        info->codec = leat_codec_of(in->kind);
        if (info->codec && strlen(in->name) + LONGEST_SUFFIX >= NAME_ROOM)
            return leat_fail(error, LEAT_E_INVALID, "the name of the %s field '%s' is too long: use at most %d bytes",
                             info->codec->name, in->name, NAME_ROOM - LONGEST_SUFFIX - 1);
        info->varying = true;
        info->unit = 1;
        info->width = info->codec ? LEAT_STORE_CODEC_RECORD : LEAT_STORE_RECORD;
        return LEAT_OK;
    }
    uint64_t unit = leat_dtype_size(in->dtype);
    if (!unit || in->ndim > LEAT_MAX_DIMS)
        return leat_fail(error, LEAT_E_INVALID, "field '%s' has an unknown dtype or more than %d dimensions", in->name,
                         LEAT_MAX_DIMS);
    out->dtype = in->dtype;
    out->ndim = in->ndim;
    info->varying = in->ndim && in->shape[0] == -1;
    for (unsigned d = 0; d < in->ndim; d++) {
        out->shape[d] = in->shape[d];
        if (d == 0 && info->varying)
            continue;
        if (in->shape[d] < 1 || !leat_mul_u64(unit, (uint64_t)in->shape[d], &unit) || unit > MAX_VALUE_BYTES)
            return leat_fail(error, LEAT_E_INVALID,
                             "dimension %u of field '%s' is %lld: it must be above 0 (the first may be -1), and a "
                             "value at most 2^40 bytes",
                             d, in->name, (long long)in->shape[d]);
    }
    info->unit = unit;
    info->width = info->varying ? LEAT_STORE_RECORD : unit;
    return LEAT_OK;
}

/* Widest element first: every column then begins at a multiple of its element without padding. */
static int order_columns(struct leat_store_layout *l, struct leat_error *error)
{
    uint32_t at = 0;
    for (size_t size = 8; size >= 1; size /= 2)
        for (uint32_t f = 0; f < l->n_stored; f++) {
            struct leat_store_field *info = &l->info[f];
            if ((info->varying ? 8 : leat_dtype_size(l->fields[f].dtype)) != size)
                continue;
            info->column = f;
            info->position = at;
            info->before = l->row_bytes;
            while (((UINT64_C(2) << info->page_shift) * info->width) <= LEAT_STORE_PAGE_BYTES)
                info->page_shift++;
            l->order[at++] = f;
            if (!leat_add_u64(l->row_bytes, info->width, &l->row_bytes) || l->row_bytes > MAX_VALUE_BYTES)
                return leat_fail(
                    error, LEAT_E_INVALID,
                    "the fixed-size fields of one sample take more than 2^40 bytes: store less per sample");
        }
    return LEAT_OK;
}

static void derive_fields(struct leat_store_layout *l)
{
    uint32_t at = l->n_stored;
    for (uint32_t f = 0; f < l->n_stored; f++)
        for (size_t d = 0; d < LEAT_STORE_DERIVED && l->info[f].codec; d++, at++) {
            const char *suffix = derived[d].suffix ? derived[d].suffix : l->info[f].codec->sizes[d];
            size_t n = strlen(l->names[f]);
            memcpy(l->names[at], l->names[f], n);
            l->names[at][n] = '.';
            memcpy(l->names[at] + n + 1, suffix, strlen(suffix) + 1);
            l->fields[at] = (struct leat_field){
                .name = l->names[at], .kind = LEAT_KIND_ARRAY, .dtype = derived[d].dtype, .flags = LEAT_FIELD_DERIVED};
            l->info[at] = l->info[f];
            l->info[at].varying = false;
            l->info[at].codec = NULL;
            l->info[at].at = derived[d].at;
            l->info[at].unit = leat_dtype_size(derived[d].dtype);
        }
}

static int check_names(const struct leat_store_layout *l, struct leat_error *error)
{
    for (uint32_t f = 0; f < l->n_fields; f++)
        for (uint32_t g = 0; g < f; g++)
            if (!strcmp(l->names[f], l->names[g]))
                return leat_fail(error, LEAT_E_INVALID,
                                 f < l->n_stored ? "two fields are named '%s': give each its own name"
                                                 : "a field is named '%s', which leat derives of a photo: leave it out",
                                 l->names[f]);
    for (uint32_t f = 0; f < l->n_stored; f++)
        if (l->fields[f].flags & LEAT_FIELD_FILES && l->name_field < 0)
            return leat_fail(
                error, LEAT_E_INVALID,
                "field '%s' holds files, whose relative names must be stored too: add the field 'name' (str, derived)",
                l->names[f]);
    return LEAT_OK;
}

/* A page is as a column's page, and a value that is read as a whole in as many pages as this needs none. Fewer texts
 * are read as fast as codes. */
static const struct leat_store_tuning usual_tuning = {4 * LEAT_STORE_PAGE_BYTES, 16, 4096, UINT64_C(512) << 20};

int leat_store_layout_init(struct leat_store_layout *l, const struct leat_field *fields, size_t n_fields,
                           struct leat_error *error)
{
    *l = (struct leat_store_layout){.name_field = -1, .tuning = usual_tuning};
    if (n_fields == 0 || n_fields > LEAT_STORE_MAX_FIELDS)
        return leat_fail(error, LEAT_E_INVALID, "a schema has 1 to %d fields, not %zu", LEAT_STORE_MAX_FIELDS,
                         n_fields);
    size_t all = n_fields;
    for (size_t f = 0; f < n_fields; f++)
        all += leat_codec_of(fields[f].kind) ? LEAT_STORE_DERIVED : 0;
    l->n_stored = (uint32_t)n_fields;
    l->n_fields = (uint32_t)all;
    l->fields = leat_new_array(all, sizeof *l->fields);
    l->info = leat_new_array(all, sizeof *l->info);
    l->names = leat_new_array(all, sizeof *l->names);
    l->order = leat_new_array(n_fields, sizeof *l->order);
    if (!l->fields || !l->info || !l->names || !l->order)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a schema of %zu fields", n_fields);
    for (uint32_t f = 0; f < n_fields; f++) {
        int rc = take_field(&fields[f], &l->fields[f], &l->info[f], error);
        if (rc)
            return rc;
        memcpy(l->names[f], fields[f].name, strlen(fields[f].name) + 1);
        l->fields[f].name = l->names[f];
        l->n_varying += l->info[f].varying;
        l->n_encoded += l->info[f].codec != NULL;
        l->has_files |= (fields[f].flags & LEAT_FIELD_FILES) != 0;
        if (!strcmp(fields[f].name, "name") && fields[f].kind == LEAT_KIND_STR)
            l->name_field = f;
    }
    int rc = order_columns(l, error);
    if (rc)
        return rc;
    derive_fields(l);
    return check_names(l, error);
}

void leat_store_layout_destroy(struct leat_store_layout *l)
{
    for (uint32_t f = 0; f < l->n_stored && l->fields; f++)
        leat_free((void *)l->fields[f].pairs);
    leat_free(l->fields);
    leat_free(l->info);
    leat_free(l->names);
    leat_free(l->order);
    memset(l, 0, sizeof *l);
}

uint64_t leat_store_group_pages(const struct leat_store_layout *l, uint64_t rows, uint32_t position)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < position; i++)
        pages += leat_store_pages(rows, l->info[l->order[i]].page_shift);
    return pages;
}

/* ---- the header ------------------------------------------------------------------------------ */

uint64_t leat_store_header_bytes(uint32_t n_fields)
{
    return leat_store_align(LEAT_STORE_HEADER_FIXED + (uint64_t)n_fields * LEAT_STORE_FIELD_BYTES + 8,
                            LEAT_STORE_ALIGN);
}

uint64_t leat_store_header_checksum(const uint8_t *p, uint64_t bytes)
{
    return leat_get_u64(p + bytes - 8);
}

static void field_put(uint8_t *p, const struct leat_field *field, const struct leat_store_field *info)
{
    memcpy(p, field->name, strlen(field->name));
    p[64] = (uint8_t)field->kind;
    p[65] = (uint8_t)field->dtype;
    p[66] = (uint8_t)field->layout;
    p[67] = (uint8_t)field->ndim;
    leat_put_u32(p + 68, field->flags);
    for (unsigned d = 0; d < field->ndim; d++)
        leat_put_u64(p + 72 + 8 * d, (uint64_t)field->shape[d]);
    p[136] = (uint8_t)info->page_shift;
}

void leat_store_header_put(uint8_t *p, const struct leat_store_layout *l, const struct leat_store_identity *identity)
{
    uint64_t bytes = leat_store_header_bytes(l->n_stored);
    memset(p, 0, bytes);
    memcpy(p, LEAT_STORE_MAGIC, 8);
    leat_put_u32(p + 8, LEAT_STORE_VERSION);
    leat_put_u32(p + 12, l->features);
    leat_put_u64(p + 16, bytes);
    leat_put_u32(p + 24, l->n_stored);
    leat_put_u64(p + 32, identity->options);
    leat_put_u64(p + 40, identity->source);
    leat_put_u64(p + 48, identity->content);
    leat_put_u64(p + 56, identity->shard);
    for (uint32_t f = 0; f < l->n_stored; f++)
        field_put(p + LEAT_STORE_HEADER_FIXED + (size_t)f * LEAT_STORE_FIELD_BYTES, &l->fields[f], &l->info[f]);
    leat_put_u64(p + bytes - 8, leat_hash64(p, bytes - 8));
}

int leat_store_header_length(const uint8_t *p, uint64_t *bytes, struct leat_error *error)
{
    if (memcmp(p, LEAT_STORE_MAGIC, 8))
        return leat_fail(error, LEAT_E_FORMAT, "this is not a leat file: it does not begin with leat's mark");
    uint32_t version = leat_get_u32(p + 8), features = leat_get_u32(p + 12), n_fields = leat_get_u32(p + 24);
    if (version != LEAT_STORE_VERSION)
        return leat_fail(error, LEAT_E_FORMAT,
                         "the file has format version %u and this leat reads version %u: use a newer leat", version,
                         LEAT_STORE_VERSION);
    if (features & ~LEAT_FEATURE_FORMS)
        return leat_fail(error, LEAT_E_FORMAT,
                         "the file needs features (0x%x) that this leat does not have: use a newer leat", features);
    if (n_fields == 0 || n_fields > LEAT_STORE_MAX_FIELDS || leat_get_u64(p + 16) != leat_store_header_bytes(n_fields))
        return leat_fail(error, LEAT_E_CORRUPT, "the header's length is impossible: restore the file or pack it again");
    *bytes = leat_store_header_bytes(n_fields);
    return LEAT_OK;
}

int leat_store_header_get(const uint8_t *p, uint64_t bytes, struct leat_store_layout *l,
                          struct leat_store_identity *identity, struct leat_error *error)
{
    memset(l, 0, sizeof *l);
    if (leat_hash64(p, bytes - 8) != leat_store_header_checksum(p, bytes))
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the header's checksum does not fit: restore the file or pack it again");
    uint32_t n = leat_get_u32(p + 24);
    struct leat_field *fields = leat_new_array(n, sizeof *fields);
    if (!fields)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a schema of %u fields", n);
    int rc = LEAT_OK;
    for (uint32_t f = 0; f < n; f++) {
        const uint8_t *r = p + LEAT_STORE_HEADER_FIXED + (size_t)f * LEAT_STORE_FIELD_BYTES;
        if (r[63]) {
            rc = leat_fail(error, LEAT_E_CORRUPT, "the name of field %u has no end: restore the file or pack it again",
                           f);
            goto out;
        }
        fields[f] = (struct leat_field){.name = (const char *)r,
                                        .kind = (enum leat_kind)r[64],
                                        .dtype = (enum leat_dtype)r[65],
                                        .layout = (enum leat_layout)r[66],
                                        .flags = leat_get_u32(r + 68),
                                        .ndim = r[67]};
        for (unsigned d = 0; d < LEAT_MAX_DIMS; d++)
            fields[f].shape[d] = (int64_t)leat_get_u64(r + 72 + 8 * d);
    }
    rc = leat_store_layout_init(l, fields, n, error);
    if (rc == LEAT_E_INVALID)
        rc =
            leat_fail(error, LEAT_E_CORRUPT, "the schema in the header is impossible: %s", error ? error->message : "");
    if (rc)
        goto out;
    l->features = leat_get_u32(p + 12);
    *identity = (struct leat_store_identity){leat_get_u64(p + 32), leat_get_u64(p + 40), leat_get_u64(p + 48),
                                             leat_get_u64(p + 56)};
    /* A header must be as the writer would write it, byte for byte, page sizes included. */
    uint8_t *again = leat_alloc(bytes);
    if (!again) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a header of %llu bytes", (unsigned long long)bytes);
        goto out;
    }
    leat_store_header_put(again, l, identity);
    if (memcmp(again, p, bytes))
        rc = leat_fail(error, LEAT_E_CORRUPT,
                       "the header holds numbers that format version 1 does not allow: pack the file again");
    leat_free(again);
out:
    leat_free(fields);
    if (rc)
        leat_store_layout_destroy(l);
    return rc;
}

/* ---- groups ---------------------------------------------------------------------------------- */

void leat_store_group_put(uint8_t p[LEAT_STORE_GROUP_HEADER], const struct leat_store_group *g)
{
    memcpy(p, LEAT_STORE_GROUP_MAGIC, 8);
    leat_put_u64(p + 8, g->first_row);
    leat_put_u64(p + 16, g->first_input);
    leat_put_u32(p + 24, g->n_rows);
    leat_put_u32(p + 28, g->n_inputs);
    leat_put_u64(p + 32, g->payload_bytes);
    leat_put_u64(p + 40, g->directory_bytes);
    leat_put_u64(p + 48, g->directory_checksum);
    leat_put_u64(p + 56, leat_hash64(p, 56));
}

bool leat_store_group_get(const uint8_t p[LEAT_STORE_GROUP_HEADER], struct leat_store_group *g)
{
    *g = (struct leat_store_group){.first_row = leat_get_u64(p + 8),
                                   .first_input = leat_get_u64(p + 16),
                                   .n_rows = leat_get_u32(p + 24),
                                   .n_inputs = leat_get_u32(p + 28),
                                   .payload_bytes = leat_get_u64(p + 32),
                                   .directory_bytes = leat_get_u64(p + 40),
                                   .directory_checksum = leat_get_u64(p + 48)};
    return !memcmp(p, LEAT_STORE_GROUP_MAGIC, 8) && leat_get_u64(p + 56) == leat_hash64(p, 56);
}

bool leat_store_group_shape(const struct leat_store_layout *l, uint64_t n_rows, uint64_t payload_bytes,
                            uint64_t directory_bytes, struct leat_store_shape *shape)
{
    const uint64_t limit = UINT64_C(1) << 62;
    uint64_t columns, least = LEAT_STORE_GROUP_FACTS + 8 * leat_store_group_pages(l, n_rows, l->n_stored);
    if (n_rows > UINT32_MAX || payload_bytes > limit || directory_bytes > limit || directory_bytes < least ||
        !leat_mul_u64(n_rows, l->row_bytes, &columns) || columns > limit)
        return false;
    shape->columns_at = LEAT_STORE_GROUP_HEADER + leat_store_align(payload_bytes, LEAT_STORE_ALIGN);
    uint64_t end;
    if (!leat_add_u64(shape->columns_at, columns, &end) || end > limit)
        return false;
    shape->directory_at = leat_store_align(end, 8);
    if (!leat_add_u64(shape->directory_at, directory_bytes, &end) || end > limit)
        return false;
    shape->bytes = leat_store_align(end, LEAT_STORE_ALIGN);
    return true;
}

uint64_t leat_store_page_checksum(const uint8_t *group, uint64_t payload_bytes, unsigned shift, uint64_t page)
{
    uint64_t at = page << shift, left = payload_bytes - at, bytes = UINT64_C(1) << shift;
    return leat_hash64(group + LEAT_STORE_GROUP_HEADER + at, left < bytes ? left : bytes);
}

void leat_store_record_put(uint8_t *p, const struct leat_store_record *r, bool encoded)
{
    leat_put_u64(p, r->offset);
    leat_put_u64(p + 8, r->length);
    leat_put_u64(p + 16, r->checksum);
    if (!encoded)
        return;
    leat_put_u32(p + 24, r->info.size[0]);
    leat_put_u32(p + 28, r->info.size[1]);
    p[32] = r->info.channels;
    p[33] = r->info.kind;
    p[34] = r->info.health;
    p[35] = r->info.form;
    leat_put_u32(p + 36, r->info.form ? r->info.original : r->info.rows_length);
}

void leat_store_record_get(const uint8_t *p, struct leat_store_record *r, bool encoded)
{
    *r = (struct leat_store_record){
        .offset = leat_get_u64(p), .length = leat_get_u64(p + 8), .checksum = leat_get_u64(p + 16)};
    if (!encoded)
        return;
    r->info = (struct leat_value_info){.size = {leat_get_u32(p + 24), leat_get_u32(p + 28)},
                                       .channels = p[32],
                                       .kind = p[33],
                                       .health = p[34],
                                       .form = p[35]};
    *(r->info.form ? &r->info.original : &r->info.rows_length) = leat_get_u32(p + 36);
}

bool leat_store_record_fits(const struct leat_store_layout *l, const struct leat_store_field *field,
                            const struct leat_store_record *r, uint64_t room)
{
    return r->length <= room && r->info.rows_length <= room - r->length && r->length % field->unit == 0 &&
           r->info.health <= LEAT_HEALTH_BROKEN &&
           r->info.form <= (l->features & LEAT_FEATURE_FORMS ? LEAT_FORM_RAW : LEAT_FORM_ORIGINAL) &&
           (!r->info.form || field->codec->form_is_true) &&          /* else its kind has no other forms, */
           (!r->info.rows_length || field->codec->rows_are_whole) && /* and no row indexes */
           (r->info.form != LEAT_FORM_RAW || r->length >= field->codec->raw_header);
}

/* ---- sections and footer --------------------------------------------------------------------- */

void leat_store_section_put(uint8_t p[LEAT_STORE_SECTION_ENTRY], const struct leat_store_section *s)
{
    memset(p, 0, LEAT_STORE_SECTION_ENTRY);
    leat_put_u32(p, s->type);
    leat_put_u16(p + 4, s->flags);
    p[6] = s->codec;
    p[7] = s->align_log2;
    leat_put_u64(p + 8, s->offset);
    leat_put_u64(p + 16, s->length);
    leat_put_u64(p + 24, s->checksum);
}

void leat_store_section_get(const uint8_t p[LEAT_STORE_SECTION_ENTRY], struct leat_store_section *s)
{
    *s = (struct leat_store_section){.type = leat_get_u32(p),
                                     .flags = leat_get_u16(p + 4),
                                     .codec = p[6],
                                     .align_log2 = p[7],
                                     .offset = leat_get_u64(p + 8),
                                     .length = leat_get_u64(p + 16),
                                     .checksum = leat_get_u64(p + 24)};
}

void leat_store_summary_put(uint8_t p[LEAT_STORE_SUMMARY], const struct leat_store_summary *s)
{
    leat_put_u64(p, s->count);
    leat_put_u64(p + 8, s->inputs);
    leat_put_u64(p + 16, s->sums[0]);
    leat_put_u64(p + 24, s->sums[1]);
    leat_put_u64(p + 32, s->broken);
    leat_put_u64(p + 40, s->skipped);
}

void leat_store_summary_get(const uint8_t p[LEAT_STORE_SUMMARY], struct leat_store_summary *s)
{
    *s = (struct leat_store_summary){leat_get_u64(p),
                                     leat_get_u64(p + 8),
                                     {leat_get_u64(p + 16), leat_get_u64(p + 24)},
                                     leat_get_u64(p + 32),
                                     leat_get_u64(p + 40)};
}

void leat_store_forms_put(uint8_t p[LEAT_STORE_FORMS], const struct leat_store_forms *f)
{
    for (unsigned form = 0; form < LEAT_FORMS; form++, p += 24) {
        leat_put_u64(p, f->photos[form]);
        leat_put_u64(p + 8, f->bytes[form]);
        leat_put_u64(p + 16, f->original[form]);
    }
}

void leat_store_forms_get(const uint8_t p[LEAT_STORE_FORMS], struct leat_store_forms *f)
{
    for (unsigned form = 0; form < LEAT_FORMS; form++, p += 24) {
        f->photos[form] = leat_get_u64(p);
        f->bytes[form] = leat_get_u64(p + 8);
        f->original[form] = leat_get_u64(p + 16);
    }
}

void leat_store_conversion_put(uint8_t p[LEAT_STORE_CONVERSION], const struct leat_store_conversion *c)
{
    for (unsigned k = 0; k < 2; k++) {
        leat_put_u64(p + 8 * k, c->sums[k]);
        leat_put_u64(p + 16 + 8 * k, c->values[k]);
    }
    leat_put_u64(p + 32, c->classes_apart);
}

bool leat_store_conversion_get(const uint8_t p[LEAT_STORE_CONVERSION], struct leat_store_conversion *c)
{
    const uint64_t flags = leat_get_u64(p + 32);
    *c = (struct leat_store_conversion){.sums = {leat_get_u64(p), leat_get_u64(p + 8)},
                                        .values = {leat_get_u64(p + 16), leat_get_u64(p + 24)},
                                        .classes_apart = flags & 1};
    return flags <= 1;
}

void leat_store_footer_put(uint8_t p[LEAT_STORE_FOOTER], const struct leat_store_footer *f)
{
    memset(p, 0, LEAT_STORE_FOOTER);
    memcpy(p, LEAT_STORE_FOOTER_MAGIC, 8);
    leat_put_u64(p + 8, f->file_bytes);
    leat_put_u64(p + 16, f->directory_at);
    leat_put_u64(p + 24, f->directory_bytes);
    leat_put_u64(p + 32, f->directory_checksum);
    leat_put_u32(p + 40, f->version);
    leat_put_u64(p + 48, f->header_checksum);
    leat_put_u64(p + 56, leat_hash64(p, 56));
}

int leat_store_footer_get(const uint8_t p[LEAT_STORE_FOOTER], struct leat_store_footer *f, struct leat_error *error)
{
    if (memcmp(p, LEAT_STORE_FOOTER_MAGIC, 8))
        return leat_fail(
            error, LEAT_E_UNFINISHED,
            "the file has no end: it was cut, or never finished. Copy it again, or pack again with resume");
    *f = (struct leat_store_footer){.file_bytes = leat_get_u64(p + 8),
                                    .directory_at = leat_get_u64(p + 16),
                                    .directory_bytes = leat_get_u64(p + 24),
                                    .directory_checksum = leat_get_u64(p + 32),
                                    .version = leat_get_u32(p + 40),
                                    .header_checksum = leat_get_u64(p + 48)};
    if (leat_get_u64(p + 56) != leat_hash64(p, 56))
        return leat_fail(error, LEAT_E_CORRUPT,
                         "the footer's checksum does not fit: restore the file or pack it again");
    if (f->version != LEAT_STORE_VERSION || leat_get_u32(p + 44))
        return leat_fail(error, LEAT_E_FORMAT,
                         "the footer has format version %u and this leat reads version %u: use a newer leat",
                         f->version, LEAT_STORE_VERSION);
    return LEAT_OK;
}
