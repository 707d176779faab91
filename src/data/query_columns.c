/*
 * The columns of a query: their list, and their values block by block. A block's numbers are gathered once, when the
 * first of them is needed; texts are read some hundred rows at a time, those that the evaluation expects next.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/known.h"
#include "base/search.h"
#include "data/query.h"
#include "data/texts.h"
#include "io/guard.h"

/* ---- which there are ------------------------------------------------------------------------- */

static bool has_field(const struct leat_dataset *d, const char *name)
{
    for (size_t i = 0; i < d->base->n_fields; i++)
        if (!strcasecmp(d->base->fields[i].name, name))
            return true;
    return false;
}

/* The column of a field in a query; false: none. */
static bool column_of(const struct leat_field *f, struct leat_query_column *c)
{
    const char *suffix = "";
    c->dtype = f->dtype;
    if (f->kind == LEAT_KIND_STR || f->kind == LEAT_KIND_JSON) {
        c->source = LEAT_QUERY_TEXT;
        c->json = f->kind == LEAT_KIND_JSON;
    } else if (f->kind == LEAT_KIND_BYTES) {
        c->source = LEAT_QUERY_BYTES;
    } else if (f->kind == LEAT_KIND_ARRAY && !f->ndim) {
        c->source = LEAT_QUERY_NUMBER;
    } else if (f->kind == LEAT_KIND_ARRAY && f->shape[0] < 0) {
        c->source = LEAT_QUERY_LENGTH;
        c->dtype = LEAT_U64;
        suffix = ".length";
    } else {
        return false;
    }
    return (size_t)snprintf(c->name, sizeof c->name, "%s%s", f->name, suffix) < sizeof c->name;
}

/* SQL does not tell names apart by case: none of those that differ only there is a column. */
static void drop_same(struct leat_query_columns *columns)
{
    size_t kept = 0;
    for (size_t i = 0; i < columns->n; i++)
        for (size_t k = 0; k < columns->n; k++)
            columns->at[i].same |= k != i && !strcasecmp(columns->at[i].name, columns->at[k].name);
    for (size_t i = 0; i < columns->n; i++)
        if (!columns->at[i].same)
            columns->at[kept++] = columns->at[i];
    columns->n = kept;
}

/* Values that are not there have a field of their own, which leat derives or a join has made: "meta.domain.valid". */
static void find_valid(struct leat_query_columns *columns, const struct leat_dataset *d)
{
    char name[LEAT_QUERY_NAME];
    for (size_t i = 0; i < columns->n; i++) {
        const struct leat_query_column *c = &columns->at[i];
        if (c->source == LEAT_QUERY_ID || c->source == LEAT_QUERY_VALID ||
            snprintf(name, sizeof name, "%s.valid", d->base->fields[c->field].name) >= (int)sizeof name)
            continue;
        for (size_t k = 0; k < columns->n; k++) {
            const struct leat_query_column *v = &columns->at[k];
            if (v->source == LEAT_QUERY_NUMBER && v->dtype == LEAT_BOOL && !strcmp(v->name, name))
                columns->at[i].valid = k + 1;
        }
    }
}

/* For fields in which samples may have no value, and that no other field speaks of. */
static void add_valid(struct leat_query_columns *columns, const struct leat_dataset *d)
{
    columns->n_named = columns->n;
    for (size_t i = 0; i < columns->n_named; i++) {
        struct leat_query_column *c = &columns->at[i];
        if (c->source == LEAT_QUERY_ID || c->valid || !leat_dataset_lacks(d, c->field))
            continue;
        columns->at[columns->n] =
            (struct leat_query_column){.source = LEAT_QUERY_VALID, .field = c->field, .dtype = LEAT_BOOL};
        c->valid = ++columns->n;
    }
}

int leat_query_columns_init(struct leat_query_columns *columns, const struct leat_dataset *d, struct leat_error *error)
{
    const struct leat_base *base = d->base;
    *columns = (struct leat_query_columns){.at = leat_new_array(2 * base->n_fields + 1, sizeof *columns->at)};
    if (!columns->at)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    for (size_t i = 0; i < base->n_fields; i++) {
        struct leat_query_column *c = &columns->at[columns->n];
        c->field = i;
        if (column_of(&base->fields[i], c) && (c->source != LEAT_QUERY_LENGTH || !has_field(d, c->name)))
            columns->n++;
    }
    drop_same(columns);
    if (!has_field(d, "id"))
        columns->at[columns->n++] =
            (struct leat_query_column){.name = "id", .source = LEAT_QUERY_ID, .dtype = LEAT_I64};
    find_valid(columns, d);
    add_valid(columns, d);
    return LEAT_OK;
}

void leat_query_columns_destroy(struct leat_query_columns *columns)
{
    leat_free(columns->at);
    *columns = (struct leat_query_columns){0};
}

/* ---- which there are not --------------------------------------------------------------------- */

static const char *name_of_column(const void *of, size_t i)
{
    return ((const struct leat_query_columns *)of)->at[i].name;
}

static void list_columns(const struct leat_query_columns *columns, char *out, size_t room)
{
    size_t used = 0;
    *out = '\0';
    for (size_t i = 0; i < columns->n_named && used + 90 < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", columns->at[i].name);
    if (used + 90 >= room)
        snprintf(out + used, room - used, ", ...");
}

int leat_query_no_column(const struct leat_query_columns *columns, const struct leat_dataset *d, const char *name,
                         struct leat_error *error)
{
    char all[300];
    size_t same = 0;
    const struct leat_field *field = NULL;
    for (size_t i = 0; i < columns->n; i++)
        if (!strcasecmp(columns->at[i].name, name)) /* SQLite took the dot for table.column */
            return leat_fail(error, LEAT_E_INVALID, "a name with a dot stands in double quotes: \"%.80s\"", name);
    for (size_t i = 0; i < d->base->n_fields; i++)
        if (!strcasecmp(d->base->fields[i].name, name)) {
            field = &d->base->fields[i];
            same++;
        }
    if (same > 1)
        return leat_fail(error, LEAT_E_INVALID,
                         "%zu fields are called \"%.80s\" but for upper and lower case, which SQL does not tell apart",
                         same, name);
    if (field && field->kind == LEAT_KIND_ARRAY && field->shape[0] < 0)
        return leat_fail(error, LEAT_E_INVALID,
                         "the values of \"%.80s\" are arrays: a clause can ask for their number of elements, "
                         "\"%.80s.length\"",
                         name, name);
    if (field)
        return leat_fail(error, LEAT_E_INVALID,
                         "the field \"%.80s\" cannot be asked for in a clause: only numbers, str, json and bytes can",
                         name);
    const struct leat_known there = {name_of_column, columns, columns->n_named};
    const size_t found = leat_known_near(&there, name);
    const char *near = found < columns->n_named ? columns->at[found].name : NULL;
    if (near)
        return leat_fail(error, LEAT_E_INVALID, "there is no column \"%.80s\": did you mean %s%s%s?", name,
                         strchr(near, '.') ? "\"" : "", near, strchr(near, '.') ? "\"" : "");
    list_columns(columns, all, sizeof all);
    return leat_fail(error, LEAT_E_INVALID,
                     "there is no column \"%.80s\"; there are %s (a text stands in single quotes: 'en')", name, all);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double of_half(uint16_t h)
{
    const int exponent = h >> 10 & 31;
    const double fraction = h & 0x3ff, sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static struct leat_query_value real(double v)
{
    return (struct leat_query_value){.type = isnan(v) ? LEAT_QUERY_NULL : LEAT_QUERY_REAL, .real = v};
}

static struct leat_query_value integer(int64_t v)
{
    return (struct leat_query_value){.type = LEAT_QUERY_INT, .number = v};
}

struct leat_query_value leat_query_number(enum leat_dtype dtype, const void *value)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } v;
    memcpy(&v, value, leat_dtype_size(dtype));
    switch (dtype) {
    case LEAT_U8:
        return integer(v.u8);
    case LEAT_BOOL:
        return integer(v.u8 != 0);
    case LEAT_I8:
        return integer(v.i8);
    case LEAT_U16:
        return integer(v.u16);
    case LEAT_I16:
        return integer(v.i16);
    case LEAT_U32:
        return integer(v.u32);
    case LEAT_I32:
        return integer(v.i32);
    case LEAT_U64:
        return v.u64 > INT64_MAX ? real((double)v.u64) : integer((int64_t)v.u64);
    case LEAT_I64:
        return integer(v.i64);
    case LEAT_F16:
        return real(of_half(v.u16));
    case LEAT_BF16:
        v.u32 = (uint32_t)v.u16 << 16;
        return real((double)v.f32);
    case LEAT_F32:
        return real((double)v.f32);
    case LEAT_F64:
        return real(v.f64);
    default:
        return (struct leat_query_value){.type = LEAT_QUERY_NULL};
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

struct column {
    void *numbers; /* room for a block */
    bool loaded;   /* of this block */
    struct leat_texts *texts;
    uint32_t rows[LEAT_TEXTS]; /* whose texts were read, ascending */
    size_t n_texts, at;        /* their number; the place of the last one requested */
};

struct leat_query_reader {
    struct leat_dataset *dataset;
    const struct leat_query_columns *columns;
    struct column *at;
    uint64_t begin;
    size_t n;
    const uint32_t *expected;
    size_t n_expected;
    const struct leat_codes *const *codes; /* of each column, or NULL */
};

struct leat_query_reader *leat_query_reader_new(struct leat_dataset *d, const struct leat_query_columns *columns)
{
    struct leat_query_reader *r = leat_new(struct leat_query_reader);
    if (r && !(r->at = leat_new_array(columns->n, sizeof *r->at))) {
        leat_free(r);
        return NULL;
    }
    if (r) {
        r->dataset = d;
        r->columns = columns;
    }
    return r;
}

void leat_query_reader_free(struct leat_query_reader *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->columns->n; i++) {
        leat_free(r->at[i].numbers);
        if (r->at[i].texts)
            leat_texts_destroy(r->at[i].texts);
        leat_free(r->at[i].texts);
    }
    leat_free(r->at);
    leat_free(r);
}

void leat_query_reader_use(struct leat_query_reader *r, const struct leat_codes *const *codes)
{
    r->codes = codes;
}

int leat_query_reader_span(struct leat_query_reader *r, size_t column, size_t from, const void **data, size_t *got,
                           struct leat_error *error)
{
    const struct leat_query_column *c = &r->columns->at[column];
    size_t field = c->field;
    uint64_t n = r->n - from, position = r->begin + from, found = 0;
    struct leat_sample_ref ref;
    *got = 0;
    if (c->source != LEAT_QUERY_NUMBER || r->dataset->selected)
        return LEAT_OK;
    leat_dataset_locate(r->dataset, &position, 1, &ref);
    struct leat_source *source = ref.source;
    if (!source->storage || source->storage[field] != LEAT_STORAGE_MAPPED || !source->v->span)
        return LEAT_OK;
    n = n < source->count - ref.sample ? n : source->count - ref.sample;
    int rc = source->v->span(source, field, ref.sample, n, data, &found, error);
    if (rc)
        leat_error_at_sample(error, ref.id, c->name);
    *got = rc ? 0 : (size_t)found;
    return rc;
}

void leat_query_reader_move(struct leat_query_reader *r, uint64_t begin, size_t n)
{
    r->begin = begin;
    r->n = n;
    r->n_expected = 0;
    for (size_t i = 0; i < r->columns->n; i++) {
        r->at[i].loaded = false;
        r->at[i].n_texts = 0;
    }
}

void leat_query_reader_expect(struct leat_query_reader *r, const uint32_t *rows, size_t n)
{
    r->expected = rows;
    r->n_expected = n;
}

/* Copies values that lie one behind the other: *at values from the block's first on. */
static int copy_spans(struct leat_query_reader *r, const struct leat_query_column *c, size_t each, void *to, size_t *at,
                      struct leat_error *error)
{
    const size_t column = (size_t)(c - r->columns->at);
    int rc = LEAT_OK;
    while (*at < r->n && !rc) {
        size_t got;
        const void *from;
        rc = leat_query_reader_span(r, column, *at, &from, &got, error);
        if (rc || !got)
            break;
        rc = leat_guarded_copy((uint8_t *)to + *at * each, from, got * each, error);
        *at += got;
    }
    return rc;
}

/* The values of a block, and which there are, if `valid` is not NULL. */
static int load(struct leat_query_reader *r, const struct leat_query_column *c, void *to, bool *valid,
                struct leat_error *error)
{
    const uint64_t end = r->begin + r->n;
    uint64_t each;
    if (valid)
        memset(valid, true, r->n * sizeof *valid);
    if (c->source == LEAT_QUERY_ID)
        return leat_dataset_ids(r->dataset, r->begin, r->n, to, error);
    int rc = leat_field_row_bytes(&r->dataset->base->fields[c->field], &each, error);
    if (rc)
        return rc;
    size_t at = 0;
    if (c->source == LEAT_QUERY_NUMBER)
        rc = copy_spans(r, c, (size_t)each, to, &at, error);
    if (rc || at >= r->n)
        return rc;
    if (c->source != LEAT_QUERY_LENGTH) /* of texts only which there are */
        return leat_dataset_gather(r->dataset, c->field, r->begin, end, each, to, NULL, valid, error);
    uint64_t *lengths = to;
    rc = leat_dataset_gather(r->dataset, c->field, r->begin, end, each, NULL, lengths, valid, error);
    for (size_t i = 0; i < r->n && !rc; i++)
        lengths[i] /= each;
    return rc;
}

static bool is_text(const struct leat_query_column *c)
{
    return c->source == LEAT_QUERY_TEXT || c->source == LEAT_QUERY_BYTES;
}

/* The column VALID of a column, or NULL. */
static struct column *valid_of(struct leat_query_reader *r, const struct leat_query_column *c)
{
    return c->valid && r->columns->at[c->valid - 1].source == LEAT_QUERY_VALID ? &r->at[c->valid - 1] : NULL;
}

static int make_room(struct column *at, enum leat_dtype dtype, struct leat_error *error)
{
    if (!at->numbers && !(at->numbers = leat_alloc(LEAT_QUERY_ROWS * leat_dtype_size(dtype))))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    return LEAT_OK;
}

/* The column whose column VALID this is. */
static size_t owner_of(const struct leat_query_columns *columns, size_t column)
{
    size_t owner = 0;
    while (columns->at[owner].valid != column + 1)
        owner++;
    return owner;
}

/* The values, and which of them exist, come from one reading. */
int leat_query_reader_numbers(struct leat_query_reader *r, size_t column, const void **data, struct leat_error *error)
{
    struct column *at = &r->at[column];
    const bool asks_valid = r->columns->at[column].source == LEAT_QUERY_VALID;
    const size_t owner = asks_valid ? owner_of(r->columns, column) : column;
    const struct leat_query_column *c = &r->columns->at[owner];
    struct column *values = is_text(c) ? NULL : &r->at[owner], *valid = valid_of(r, c);
    int rc = LEAT_OK;
    if (!at->loaded) {
        rc = values ? make_room(values, c->dtype, error) : LEAT_OK;
        if (!rc && valid)
            rc = make_room(valid, LEAT_BOOL, error);
        if (!rc)
            rc = load(r, c, values ? values->numbers : NULL, valid ? valid->numbers : NULL, error);
        if (values)
            values->loaded = !rc;
        if (valid)
            valid->loaded = !rc;
    }
    *data = at->numbers;
    return rc;
}

/* Reads the text of `row`, and of the rows that are expected behind it. */
static int read_texts(struct leat_query_reader *r, size_t column, uint32_t row, struct leat_error *error)
{
    struct column *at = &r->at[column];
    uint64_t positions[LEAT_TEXTS];
    size_t n = 1, next = LEAT_BISECT(i, 0, r->n_expected, r->expected[i] <= row);
    if (!at->texts && !(at->texts = leat_new(struct leat_texts)))
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a query");
    at->texts->may_lack = valid_of(r, &r->columns->at[column]) != NULL;
    at->rows[0] = row;
    for (; n < LEAT_TEXTS && next < r->n_expected; n++, next++)
        at->rows[n] = r->expected[next];
    for (size_t i = 0; i < n; i++)
        positions[i] = r->begin + at->rows[i];
    at->n_texts = 0;
    int rc = leat_texts_read(r->dataset, r->columns->at[column].field, positions, n, at->texts, error);
    if (!rc)
        at->n_texts = at->texts->n;
    at->at = 0;
    return rc;
}

struct leat_query_value leat_query_text(const struct leat_query_column *c, const void *bytes, uint64_t length)
{
    const bool null = c->json && length == 4 && !memcmp(bytes, "null", 4);
    return (struct leat_query_value){.type = null                           ? LEAT_QUERY_NULL
                                             : c->source == LEAT_QUERY_TEXT ? LEAT_QUERY_STRING
                                                                            : LEAT_QUERY_BLOB,
                                     .bytes = bytes,
                                     .length = length};
}

int leat_query_reader_value(struct leat_query_reader *r, size_t column, uint32_t row, struct leat_query_value *out,
                            struct leat_error *error)
{
    const struct leat_query_column *c = &r->columns->at[column];
    struct column *at = &r->at[column];
    if (c->valid && !(is_text(c) && valid_of(r, c))) { /* texts that are missing are seen when they are read */
        const void *valid;
        int rc = leat_query_reader_numbers(r, c->valid - 1, &valid, error);
        if (rc || !((const uint8_t *)valid)[row]) {
            out->type = LEAT_QUERY_NULL;
            return rc;
        }
    }
    if (!is_text(c)) {
        const void *data = at->numbers;
        int rc = at->loaded ? LEAT_OK : leat_query_reader_numbers(r, column, &data, error);
        if (!rc)
            *out = leat_query_number(c->dtype, (const uint8_t *)data + row * leat_dtype_size(c->dtype));
        return rc;
    }
    const struct leat_codes *codes = r->codes ? r->codes[column] : NULL;
    if (codes) {
        const uint64_t id = r->begin + row;
        const struct leat_code_text *v = &codes->values[codes->width == 1 ? ((const uint8_t *)codes->codes)[id]
                                                                          : ((const uint16_t *)codes->codes)[id]];
        *out = leat_query_text(c, v->bytes, v->length);
        return LEAT_OK;
    }
    while (at->at < at->n_texts && at->rows[at->at] < row)
        at->at++;
    if (at->at >= at->n_texts || at->rows[at->at] != row) {
        int rc = read_texts(r, column, row, error);
        if (rc)
            return rc;
    }
    *out = leat_query_text(c, at->texts->at[at->at], at->texts->length[at->at]);
    if (at->texts->lacking[at->at])
        out->type = LEAT_QUERY_NULL;
    return LEAT_OK;
}

int leat_query_reader_codes(struct leat_query_reader *r, const struct leat_query_part *part, const void **codes,
                            struct leat_error *error)
{
    if (!part->codes)
        return leat_query_reader_numbers(r, part->column, codes, error);
    *codes = (const uint8_t *)part->codes->codes + r->begin * part->width;
    return LEAT_OK;
}
