/* The pass over a TFRecord file: tfrecord_index.h. Records come in pieces; an Example is parsed once its record is
 * whole. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/hash.h"
#include "codec/photo/photo.h"
#include "format/json_text.h"
#include "format/tfrecord_index.h"

enum { HEADER = 12, FOOTER = 4, NAME = 4096, SOME = 512 };
/* A record is in memory whole, and a length may lie. */
#define MOST (UINT64_C(1) << 29)
/* Bytes between two looks at who waits. */
#define LOOK (UINT64_C(16) << 20)

static uint32_t masked(const uint8_t *bytes, size_t n)
{
    const uint32_t crc = leat_crc32c(0, bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

bool leat_tfrecord_recognise(const uint8_t *head, size_t n)
{
    return n >= HEADER && masked(head, 8) == leat_get_u32(head + 8);
}

/* ---- protobuf -------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *p, *end;
};

static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
        const uint8_t byte = *(*p)++;
        value |= shift < 64 ? (uint64_t)(byte & 127) << shift : 0;
        if (byte < 128) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_bytes(const uint8_t **p, const uint8_t *end, struct cursor *out)
{
    uint64_t n;
    if (!take_varint(p, end, &n) || n > (uint64_t)(end - *p))
        return false;
    *out = (struct cursor){*p, *p + n};
    *p += n;
    return true;
}

static bool take_value(struct cursor *c, uint64_t *number, struct cursor *value)
{
    uint64_t tag, unused;
    if (!take_varint(&c->p, c->end, &tag))
        return false;
    *number = tag >> 3;
    const unsigned wire = tag & 7, fixed = wire == 1 ? 8 : 4;
    if (wire == 0)
        return take_varint(&c->p, c->end, &unused);
    if (wire == 2)
        return take_bytes(&c->p, c->end, value);
    if ((wire != 1 && wire != 5) || (size_t)(c->end - c->p) < fixed)
        return false;
    c->p += fixed;
    return true;
}

/* The next field of a message: its number, and its bytes if it has some; what it has else is passed. False: the end, or
 * damage, which leaves `c->p` another thing than `c->end`. */
static bool take_field(struct cursor *c, uint64_t *number, struct cursor *value)
{
    *value = (struct cursor){NULL, NULL};
    if (c->p == c->end)
        return false;
    if (take_value(c, number, value))
        return true;
    c->p = NULL;
    return false;
}

/* A message of which all fields can be taken. */
static bool is_whole(struct cursor c)
{
    uint64_t number;
    struct cursor value;
    while (take_field(&c, &number, &value))
        ;
    return c.p == c.end;
}

int leat_tfrecord_next(struct leat_tfrecord_list *l, uint64_t *value)
{
    const bool floats = l->kind == LEAT_TFRECORD_FLOATS;
    for (;;) {
        if (l->packed && l->p == l->packed)
            l->packed = NULL;
        const uint8_t *end = l->packed ? l->packed : l->end;
        if (l->p == l->end)
            return 0;
        if (!l->packed) {
            struct cursor some;
            uint64_t tag;
            if (!take_varint(&l->p, l->end, &tag))
                return -1;
            if (tag == (1 << 3 | 2)) {
                if (!take_bytes(&l->p, l->end, &some))
                    return -1;
                l->p = some.p;
                l->packed = some.end;
                continue;
            }
            if (tag != (1 << 3 | (floats ? 5 : 0)))
                return -1;
        }
        if (!floats)
            return take_varint(&l->p, end, value) ? 1 : -1;
        if (end - l->p < 4)
            return -1;
        *value = leat_get_u32(l->p);
        l->p += 4;
        return 1;
    }
}

/* ---- the index ------------------------------------------------------------------------------- */

struct maker {
    const struct leat_tfrecord_making *asked;
    const char *path;
    struct leat_error *error;
    uint64_t end; /* of the file, UINT64_MAX: not known */
    /* The record that is coming: */
    uint8_t header[HEADER], footer[FOOTER];
    uint64_t at, done, length; /* where it begins; bytes that were taken; of its data */
    size_t have;               /* bytes of it, with header and footer */
    uint8_t *data;
    size_t data_room;
    /* What was found: */
    struct leat_place *places;
    uint64_t *starts;
    struct leat_tfrecord_column *columns;
    char *text;
    size_t places_room, starts_room, columns_room, text_room, text_bytes;
    uint64_t n_places, count, n_columns, looked;
};

static int no_memory(const struct maker *m)
{
    return leat_fail(m->error, LEAT_E_NOMEM, "no memory for the index of %s", m->path);
}

static int damaged(const struct maker *m, const char *what)
{
    return leat_fail_at(m->error, LEAT_E_CORRUPT, m->path, m->at <= INT64_MAX ? (int64_t)m->at : LEAT_NO_OFFSET,
                        "%s, record %" PRIu64 " at byte %" PRIu64 "%s: %s: it is cut or damaged, copy it again",
                        m->path, m->count, m->at, m->asked->compression ? " of what is decoded" : "", what);
}

static int no_example(const struct maker *m, const char *what)
{
    return leat_fail_at(m->error, LEAT_E_CORRUPT, m->path, m->at <= INT64_MAX ? (int64_t)m->at : LEAT_NO_OFFSET,
                        "%s, record %" PRIu64 " at byte %" PRIu64 "%s: its checksum is right, but %s", m->path,
                        m->count, m->at, m->asked->compression ? " of what is decoded" : "", what);
}

static int find_column(struct maker *m, const struct cursor *name, uint64_t *out)
{
    const size_t n = (size_t)(name->end - name->p);
    uint64_t i = 0;
    for (; i < m->n_columns; i++) {
        const uint64_t at = m->columns[i].name, end = i + 1 < m->n_columns ? m->columns[i + 1].name : m->text_bytes;
        if (end - at == n + 1 && !memcmp(m->text + at, name->p, n))
            break;
    }
    *out = i;
    if (i < m->n_columns)
        return LEAT_OK;
    if (!n || n >= NAME || memchr(name->p, 0, n) || leat_utf8_check(name->p, n) != n)
        return no_example(m, "a feature has a name that is empty, longer than 4 KiB, or no UTF-8");
    if (i == LEAT_TFRECORD_COLUMNS)
        return leat_fail_at(m->error, LEAT_E_FORMAT, m->path, (int64_t)m->at,
                            "%s has more than %d features by its record %" PRIu64, m->path, LEAT_TFRECORD_COLUMNS,
                            m->count);
    if (!leat_grow(&m->columns, &m->columns_room, m->n_columns + 1, sizeof *m->columns) ||
        !leat_grow(&m->text, &m->text_room, m->text_bytes + n + 1, 1))
        return no_memory(m);
    m->columns[m->n_columns++] = (struct leat_tfrecord_column){.name = m->text_bytes};
    memcpy(m->text + m->text_bytes, name->p, n);
    m->text_bytes += n;
    m->text[m->text_bytes++] = 0;
    return LEAT_OK;
}

/* A list of bytes: how many, and the last of them. False: damage. */
static bool read_bytes_list(struct cursor list, uint64_t *n, struct cursor *last)
{
    uint64_t number;
    struct cursor value;
    *n = 0;
    while (take_field(&list, &number, &value))
        if (number == 1 && value.p) {
            *last = value;
            ++*n;
        }
    return list.p == list.end;
}

/* Numbers: how many, and the hash of them as they are delivered, or of one the number. False: damage. */
static bool read_numbers(unsigned kind, const struct cursor *list, uint64_t *n, uint64_t *sum)
{
    struct leat_tfrecord_list l = leat_tfrecord_list(kind, list->p, (size_t)(list->end - list->p));
    const size_t each = kind == LEAT_TFRECORD_FLOATS ? 4 : 8;
    uint8_t some[SOME * 8];
    size_t have = 0;
    uint64_t value = 0, next;
    struct leat_hash_pieces hash;
    int rc;
    leat_hash_begin(&hash);
    for (*n = 0; (rc = leat_tfrecord_next(&l, &next)) == 1; ++*n) {
        value = next;
        memcpy(some + have * each, &value, each);
        if (++have == SOME) {
            leat_hash_add(&hash, some, have * each);
            have = 0;
        }
    }
    leat_hash_add(&hash, some, have * each);
    *sum = *n == 1 ? value : leat_hash_end(&hash);
    return !rc;
}

/* A Feature: one list of some kind, or none. */
static int read_feature(struct maker *m, struct cursor feature, struct leat_place *out)
{
    struct cursor list = {NULL, NULL}, value, last = {NULL, NULL};
    uint64_t number, n = 0;
    unsigned kind = 0;
    while (take_field(&feature, &number, &value))
        if (number >= LEAT_TFRECORD_BYTES && number <= LEAT_TFRECORD_INTS && value.p) {
            if (kind)
                return no_example(m, "a feature has two lists");
            kind = (unsigned)number;
            list = value;
        }
    if (feature.p != feature.end)
        return no_example(m, "it is no tf.train.Example: a feature is damaged");
    if (!kind) {
        *out = (struct leat_place){0};
        return LEAT_OK;
    }
    *out = (struct leat_place){.length = (uint64_t)(list.end - list.p)};
    const uint8_t *from = list.p;
    if (kind == LEAT_TFRECORD_BYTES ? !read_bytes_list(list, &n, &last) : !read_numbers(kind, &list, &n, &out->sum))
        return no_example(m, "it is no tf.train.Example: a list is damaged");
    if (kind == LEAT_TFRECORD_BYTES && !n) { /* of no bytes, which are another thing than empty ones */
        *out = (struct leat_place){0};
        return LEAT_OK;
    }
    if (kind == LEAT_TFRECORD_BYTES && n == 1) {
        from = last.p;
        out->length = (uint64_t)(last.end - last.p);
        out->sum = leat_hash64(last.p, (size_t)out->length);
    }
    out->offset = m->at + HEADER + (uint64_t)(from - m->data);
    out->note = (uint64_t)kind << 16 | n << 32;
    return LEAT_OK;
}

static int read_entry(struct maker *m, struct cursor entry)
{
    struct cursor name = {NULL, NULL}, feature = {m->data, m->data}, value;
    struct leat_place place;
    uint64_t number, column, i = m->starts[m->count];
    while (take_field(&entry, &number, &value)) {
        name = number == 1 && value.p ? value : name;
        feature = number == 2 && value.p ? value : feature;
    }
    if (entry.p != entry.end || !name.p)
        return no_example(m, "it is no tf.train.Example: a feature has no name");
    int rc = find_column(m, &name, &column);
    rc = rc ? rc : read_feature(m, feature, &place);
    if (rc)
        return rc;
    while (i < m->n_places && leat_place_column(&m->places[i]) != column)
        i++;
    if (!leat_grow(&m->places, &m->places_room, m->n_places + 1, sizeof *m->places))
        return no_memory(m);
    place.note |= column;
    m->n_places += i == m->n_places; /* of a name that comes twice the last value counts */
    m->places[i] = place;
    return LEAT_OK;
}

static void count_place(struct maker *m, const struct leat_place *place)
{
    struct leat_tfrecord_column *c = &m->columns[leat_place_column(place)];
    const unsigned kind = leat_tfrecord_kind_of(place);
    const uint64_t n = leat_tfrecord_count_of(place);
    c->kinds[kind].least = c->kinds[kind].n && c->kinds[kind].least < n ? c->kinds[kind].least : n;
    c->kinds[kind].most = c->kinds[kind].most > n ? c->kinds[kind].most : n;
    c->kinds[kind].n++;
    if (kind != LEAT_TFRECORD_BYTES || n != 1)
        return;
    const uint8_t *bytes = m->data + (place->offset - m->at - HEADER);
    const size_t length = (size_t)place->length;
    c->photos += leat_photo_begins(bytes, length);
    c->texts += leat_utf8_check(bytes, length) == length && !memchr(bytes, 0, length);
}

static bool swells(const struct maker *m)
{
    const uint64_t bytes = m->n_places * sizeof *m->places + m->count * sizeof *m->starts;
    return m->asked->compression && leat_compressed_swells(m->asked->file, bytes);
}

/* Drops features without a list: nobody has such a value. */
static int end_record(struct maker *m)
{
    uint64_t to = m->starts[m->count];
    for (uint64_t i = to; i < m->n_places; i++)
        if (leat_tfrecord_kind_of(&m->places[i])) {
            count_place(m, &m->places[i]);
            m->places[to++] = m->places[i];
        }
    m->n_places = to;
    m->starts[++m->count] = to;
    return swells(m) ? damaged(m, "the file has far more records than its bytes should hold; if they are right, "
                                  "decompress it")
                     : LEAT_OK;
}

static int read_example(struct maker *m)
{
    struct cursor example = {m->data, m->data + m->length}, features, entry;
    uint64_t number;
    if (!leat_grow(&m->starts, &m->starts_room, m->count + 2, sizeof *m->starts))
        return no_memory(m);
    if (!is_whole(example))
        return no_example(m, "it is no tf.train.Example, which are the records that leat reads");
    while (take_field(&example, &number, &features)) {
        if (number == 2 && features.p)
            return leat_fail_at(m->error, LEAT_E_UNSUPPORTED, m->path, (int64_t)m->at,
                                "%s, record %" PRIu64 ": it is a tf.train.SequenceExample, which leat does not read: "
                                "write its lists as features of an Example",
                                m->path, m->count);
        if (number != 1 || !features.p)
            continue;
        while (take_field(&features, &number, &entry)) {
            const int rc = number == 1 && entry.p ? read_entry(m, entry) : LEAT_OK;
            if (rc)
                return rc;
        }
        if (features.p != features.end)
            return no_example(m, "it is no tf.train.Example: its features are damaged");
    }
    return end_record(m);
}

static int begin_record(struct maker *m)
{
    m->length = leat_get_u64(m->header);
    if (masked(m->header, 8) != leat_get_u32(m->header + 8))
        return damaged(m, m->count ? "the checksum of its length is wrong"
                                   : "it has no checksum of a length, as records of TFRecord have");
    if (m->length > MOST || (m->end != UINT64_MAX && m->length > m->end - m->at))
        return damaged(m, m->length > MOST ? "it is longer than the 512 MiB that leat reads"
                                           : "its length reaches beyond the file");
    return LEAT_OK;
}

static int end_data(struct maker *m)
{
    if (masked(m->data, (size_t)m->length) != leat_get_u32(m->footer))
        return damaged(m, "the checksum of its data is wrong");
    const int rc = read_example(m);
    m->at += HEADER + m->length + FOOTER;
    m->have = 0;
    return rc;
}

static int look(struct maker *m, uint64_t n)
{
    m->done += n;
    m->looked += n;
    if (m->looked < LOOK)
        return LEAT_OK;
    m->looked = 0;
    return m->asked->progress && m->asked->progress(m->asked->user, m->done, m->end == UINT64_MAX ? m->done : m->end)
               ? leat_fail(m->error, LEAT_E_CANCELLED, "reading %s was stopped", m->path)
               : LEAT_OK;
}

static size_t less(size_t a, uint64_t b)
{
    return a < b ? a : (size_t)b;
}

static int take(void *user, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    struct maker *m = user;
    int rc = look(m, n);
    m->error = error;
    while (n && !rc) {
        size_t part;
        if (m->have < HEADER) {
            part = less(n, HEADER - m->have);
            memcpy(m->header + m->have, bytes, part);
            if (m->have + part == HEADER)
                rc = begin_record(m);
        } else if (m->have - HEADER < m->length) {
            const size_t had = m->have - HEADER;
            part = less(n, m->length - had);
            if (!leat_grow(&m->data, &m->data_room, had + part, 1))
                return no_memory(m);
            memcpy(m->data + had, bytes, part);
        } else {
            const size_t had = m->have - HEADER - (size_t)m->length;
            part = less(n, FOOTER - had);
            memcpy(m->footer + had, bytes, part);
        }
        m->have += part;
        bytes += part;
        n -= part;
        if (!rc && m->have == HEADER + m->length + FOOTER)
            rc = end_data(m);
    }
    return rc;
}

static void give(struct maker *m, struct leat_places *out)
{
    *out = (struct leat_places){.count = m->count,
                                .width = m->n_columns,
                                .at = m->places,
                                .starts = m->starts,
                                .n_sparse = m->n_places,
                                .columns = m->columns,
                                .text = m->text,
                                .text_bytes = m->text_bytes,
                                .own = {m->columns, m->text, NULL, m->places, m->starts}};
}

int leat_tfrecord_index_make(const struct leat_tfrecord_making *asked, struct leat_compressed *made,
                             struct leat_places *out, struct leat_error *error)
{
    const bool plain = asked->compression == LEAT_COMPRESSION_NONE;
    struct maker m = {
        .asked = asked, .path = asked->file->path, .error = error, .end = plain ? asked->file->size : UINT64_MAX};
    int rc = leat_grow(&m.starts, &m.starts_room, 1, sizeof *m.starts) && leat_grow(&m.data, &m.data_room, 1, 1)
                 ? LEAT_OK
                 : no_memory(&m);
    *made = (struct leat_compressed){.lasting = true};
    if (!rc)
        m.starts[0] = 0;
    if (!rc && asked->alone)
        rc = leat_compressed_pass(asked->file, asked->compression, take, &m, error);
    else if (!rc)
        rc = leat_compressed_read(asked->file, asked->compression, asked->copy, take, &m, made, error);
    m.error = error;
    if (!rc && m.have)
        rc = damaged(&m, "the file ends within it");
    give(&m, out);
    leat_free(m.data);
    if (!rc) {
        out->bytes = made->file ? made->file->size : 0;
        out->frames = made->frames;
        out->own[2] = made->frames;
        out->n_frames = made->n_frames;
        out->copy_bytes = made->copy_bytes;
        return rc;
    }
    leat_io_release(made->file);
    leat_free(made->frames);
    *made = (struct leat_compressed){0};
    leat_places_destroy(out);
    return rc;
}

bool leat_tfrecord_index_fits(const struct leat_places *p)
{
    const struct leat_tfrecord_column *c = p->columns;
    bool good = p->starts && p->width <= LEAT_TFRECORD_COLUMNS;
    for (uint64_t i = 0; good && i < p->width; i++) {
        good = c[i].name < p->text_bytes;
        for (unsigned k = 0; good && k < 4; k++) /* no list has more values than the file has bytes */
            good = c[i].kinds[k].n <= p->count && c[i].kinds[k].most <= p->bytes && p->bytes <= INT64_MAX / 8;
    }
    return good;
}
