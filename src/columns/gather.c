/*
 * Reading rows, without a lock. The record that a word points at is copied first and verified then: the copy is whole
 * if the checksum says so, whatever writers did meanwhile.
 *
 *     live    -> record of this row, its stamp as in the word, its checksum right?     that is the row
 *        no:     the word is another one now?                                          begin again
 *     durable -> the same questions                                                    that is the row: power was lost
 *        no:     broken; or, if it was never flushed, missing
 *
 * A row of one plain field is copied once, to where it is wanted, and hashed there. Others go through a buffer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "columns/internal.h"
#include "io/guard.h"

/* Why a guarded part ended: it is through, or needs something that it may not get itself. */
enum need { NEED_NOTHING, NEED_INDEX, NEED_MAP, NEED_ROOM };

struct reading {
    struct leat_columns *c;
    const uint64_t *ids, *keys;
    const struct leat_column_out *out;
    uint8_t *present;
    uint64_t n;                /* rows of the call */
    uint64_t at;               /* the row that is next */
    uint64_t first, end, seen; /* rows that are worked on together; those before `seen` were looked up */
    struct place places[ROWS_TOGETHER];
    enum found found[ROWS_TOGETHER];
    enum need need;
    uint64_t wanted; /* NEED_MAP: an offset; NEED_ROOM: bytes */
    uint8_t *buffer; /* payload of a row that is not plain */
    uint64_t room;
    uint64_t length; /* of the row that is in the buffer */
    uint64_t broken_at;
    bool ready; /* the row is in the buffer, and not handed out yet */
};

enum { ROWS_FETCHED = 2, BYTES_FETCHED = 8192 };

static uint64_t id_at(const struct reading *r, uint64_t i, uint64_t *key)
{
    *key = r->keys ? r->keys[i] : 0;
    return r->ids[i];
}

enum read { READ_GOOD, READ_BAD, READ_NEEDS };

/* Copies and verifies the record that a word points at. */
static enum read read_record(struct reading *r, uint64_t w, uint64_t id, uint64_t key, uint8_t *plain)
{
    struct leat_columns *c = r->c;
    const uint64_t offset = leat_columns_offset(w);
    const uint64_t end = leat_columns_segments(c) << SEGMENT_SHIFT;
    if (end > MAX_SEGMENTS << SEGMENT_SHIFT || offset + sizeof(struct record) > end)
        return READ_BAD;
    const uint8_t *p = leat_columns_at(c, offset);
    if (!p) {
        r->need = NEED_MAP;
        r->wanted = offset;
        return READ_NEEDS;
    }
    struct record header;
    leat_columns_copy_bytes(&header, p, sizeof header);
    const uint64_t last = (offset | (WINDOW_BYTES - 1)) + 1; /* of its window */
    const uint64_t room = (last < end ? last : end) - offset - sizeof header;
    if (header.id != id || header.key != key || header.stamp << PLACE_BITS != (w & ~PLACE_MASK) ||
        header.length < c->fixed || header.length > room || (!c->ragged && header.length != c->fixed))
        return READ_BAD;
    if (plain) {
        leat_columns_copy_bytes(plain, p + sizeof header, header.length);
    } else {
        if (header.length > r->room) {
            r->need = NEED_ROOM;
            r->wanted = header.length;
            return READ_NEEDS;
        }
        leat_columns_copy_bytes(r->buffer, p + sizeof header, header.length);
    }
    const uint8_t *copy = plain ? plain : r->buffer;
    if (leat_columns_checksum(&header, leat_hash64(copy, header.length)) != header.checksum)
        return READ_BAD;
    r->length = header.length;
    return !c->ragged || leat_columns_payload_fits(c, copy, header.length) ? READ_GOOD : READ_BAD;
}

/* Reads row `at`. READ_BAD: it is missing (broken_at 0), or broken. */
static enum read read_row(struct reading *r, const struct entry *entry, uint8_t *plain)
{
    uint64_t key, id = id_at(r, r->at, &key);
    for (;;) {
        const uint64_t live = atomic_load_explicit(&entry->live, memory_order_acquire);
        enum read read = live ? read_record(r, live, id, key, plain) : READ_BAD;
        if (read != READ_BAD)
            return read;
        if (atomic_load_explicit(&entry->live, memory_order_acquire) != live)
            continue;
        const uint64_t durable = atomic_load_explicit(&entry->durable, memory_order_acquire);
        if (durable && durable != live && (read = read_record(r, durable, id, key, plain)) != READ_BAD)
            return read;
        if (atomic_load_explicit(&entry->live, memory_order_acquire) != live ||
            atomic_load_explicit(&entry->durable, memory_order_acquire) != durable)
            continue;
        r->broken_at = durable ? leat_columns_offset(live ? live : durable) : 0;
        return READ_BAD;
    }
}

/* Looks up the rows that are next, and lets the processor fetch their records. */
static bool look_ahead(struct reading *r)
{
    for (; r->seen < r->end; r->seen++) {
        uint64_t key, id = id_at(r, r->seen, &key), i = r->seen - r->first;
        r->found[i] = leat_columns_find(r->c, id, key, false, &r->places[i]);
        if (r->found[i] == NEEDS_CHUNK)
            return false;
        if (r->found[i] == FOUND)
            __builtin_prefetch(r->places[i].entry);
    }
    for (uint64_t i = 0; i < r->end - r->first; i++) {
        if (r->found[i] != FOUND)
            continue;
        const uint64_t w = atomic_load_explicit(&r->places[i].entry->live, memory_order_relaxed);
        const uint8_t *p = w ? leat_columns_at(r->c, leat_columns_offset(w)) : NULL;
        for (unsigned line = 0; p && line < 4; line++)
            __builtin_prefetch(p + line * 64);
    }
    return true;
}

static uint64_t value_bytes(const struct shape *s)
{
    return s->n_items * (s->scaled ? sizeof(float) : leat_dtype_size(s->dtype));
}

static void give(const struct shape *s, const uint8_t *from, float scale, uint64_t n, uint8_t *to)
{
    if (!s->scaled) {
        if (n)
            memcpy(to, from, n * leat_dtype_size(s->dtype));
        return;
    }
    float *out = (float *)(void *)to;
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(int8_t)from[i] * scale;
}

static float get_scale(const uint8_t *p)
{
    float scale;
    memcpy(&scale, p, sizeof scale);
    return scale;
}

/* Hands out the values of fixed size of a row in the buffer, or zeroes. */
static void hand_out(struct reading *r, bool there)
{
    for (size_t f = 0; f < r->c->n_fields; f++) {
        const struct shape *s = &r->c->shapes[f];
        if (!r->out[f].wanted || s->ragged)
            continue;
        uint8_t *to = (uint8_t *)r->out[f].data + r->at * value_bytes(s);
        if (!there)
            memset(to, 0, value_bytes(s));
        else
            give(s, r->buffer + s->at + (s->scaled ? 8 : 0), s->scaled ? get_scale(r->buffer + s->at) : 1, s->n_items,
                 to);
    }
}

/* Reads row `at`. False: it needs something first. */
static bool read_one(struct reading *r, uint8_t *plain)
{
    const uint64_t i = r->at - r->first;
    enum read read = READ_BAD;
    r->broken_at = r->found[i] == DAMAGED ? UINT64_MAX : 0; /* at its entry */
    if (r->found[i] == FOUND)
        read = read_row(r, r->places[i].entry, plain);
    if (read == READ_NEEDS)
        return false;
    const bool broken = read == READ_BAD && r->broken_at;
    r->present[r->at] = read == READ_GOOD ? LEAT_PRESENT : broken ? LEAT_BROKEN : LEAT_MISSING;
    if (!plain)
        hand_out(r, read == READ_GOOD);
    else if (read != READ_GOOD)
        memset(plain, 0, r->c->shapes[0].item);
    r->ready = broken || r->c->ragged;
    return true;
}

/* Lets the processor fetch a row that is next but one: it would begin anew at each page. */
static void fetch_ahead(const struct reading *r)
{
    const uint64_t i = r->at + ROWS_FETCHED - r->first;
    if (r->at + ROWS_FETCHED >= r->end || r->found[i] != FOUND)
        return;
    const uint64_t w = atomic_load_explicit(&r->places[i].entry->live, memory_order_relaxed);
    const uint8_t *p = w ? leat_columns_at(r->c, leat_columns_offset(w)) : NULL;
    const uint64_t bytes = sizeof(struct record) + (r->c->fixed < BYTES_FETCHED ? r->c->fixed : BYTES_FETCHED);
    for (uint64_t at = 0; p && at < bytes; at += 64)
        __builtin_prefetch(p + at, 0, 2);
}

static int read_rows(void *arg)
{
    struct reading *r = arg;
    const bool direct = r->c->plain && r->out[0].wanted;
    r->need = NEED_NOTHING;
    while (r->at < r->n) {
        if (r->at == r->end) {
            r->first = r->seen = r->at;
            r->end = r->n - r->at < ROWS_TOGETHER ? r->n : r->at + ROWS_TOGETHER;
        }
        if (r->seen < r->end && !look_ahead(r)) {
            r->need = NEED_INDEX;
            return LEAT_OK;
        }
        for (; r->at < r->end; r->at++) {
            fetch_ahead(r);
            uint8_t *plain = direct ? (uint8_t *)r->out[0].data + r->at * r->c->shapes[0].item : NULL;
            if (!read_one(r, plain) || r->ready)
                return LEAT_OK;
        }
    }
    return LEAT_OK;
}

/* ---- values whose size varies ---------------------------------------------------------------------------------------
 */

struct growing {
    uint8_t *data;
    size_t room;
};

/* Appends those of row `at`, which are in the buffer; or nothing. */
static int append(struct reading *r, struct growing *values, bool there, struct leat_error *error)
{
    const uint8_t *tail = r->buffer + r->c->fixed;
    for (size_t f = 0; f < r->c->n_fields; f++) {
        const struct shape *s = &r->c->shapes[f];
        uint64_t rows = 0;
        if (!s->ragged)
            continue;
        if (there)
            memcpy(&rows, r->buffer + s->at, sizeof rows);
        if (r->out[f].wanted) {
            int64_t *offsets = r->out[f].offsets;
            const uint64_t used = (uint64_t)offsets[r->at] * value_bytes(s), more = rows * value_bytes(s);
            if (!leat_grow(&values[f].data, &values[f].room, used + more, 1))
                return leat_fail(error, LEAT_E_NOMEM, "no memory for what is read from %s", r->c->path);
            if (more)
                give(s, tail, s->scaled ? get_scale(r->buffer + s->at + 8) : 1, rows * s->n_items,
                     values[f].data + used);
            offsets[r->at + 1] = offsets[r->at] + (int64_t)rows;
        }
        tail += (rows * s->item + 7) & ~UINT64_C(7);
    }
    return LEAT_OK;
}

static int say_broken(struct reading *r, struct leat_error *error)
{
    uint64_t key, id = id_at(r, r->at, &key);
    char row[64];
    uint64_t offset = r->broken_at;
    if (offset == UINT64_MAX)
        offset = leat_columns_offset_of(r->c, r->places[r->at - r->first].entry);
    snprintf(row, sizeof row, r->keys ? "id %" PRIu64 ", key %" PRIu64 : "id %" PRIu64, id, key);
    leat_fail(error, LEAT_E_CORRUPT,
              "%s: the row of %s is broken at byte %" PRIu64 ": it is not what was written; "
              "write it again, others can be read",
              r->c->path, row, offset);
    leat_error_at_file(error, r->c->path, (int64_t)offset);
    leat_error_at_sample(error, (int64_t)id, NULL);
    return LEAT_E_CORRUPT;
}

/* Gets the needs of the guarded part. */
static int provide(struct reading *r, struct leat_error *error)
{
    const uint64_t i = r->seen - r->first;
    bool there = true;
    if (r->need == NEED_MAP)
        return leat_columns_map(r->c, r->wanted, error) ? LEAT_OK : error ? error->code : LEAT_E_IO;
    if (r->need == NEED_ROOM) {
        uint8_t *more = leat_realloc_array(r->buffer, r->wanted, 1);
        if (!more)
            return leat_fail(error, LEAT_E_NOMEM, "no memory for a row of %s", r->c->path);
        r->buffer = more;
        r->room = r->wanted;
        return LEAT_OK;
    }
    int rc = leat_columns_supply(r->c, r->found[i], &r->places[i], false, &there, error);
    if (!rc && !there) {
        r->found[i] = NOT_THERE;
        r->seen++;
    }
    return rc;
}

static int gather(struct reading *r, struct growing *values, bool mark, struct leat_error *error)
{
    int rc = LEAT_OK;
    while (!rc && r->at < r->n) {
        rc = leat_guarded(read_rows, r, error);
        if (rc || r->at == r->n)
            break;
        if (!r->ready) {
            rc = provide(r, error);
            continue;
        }
        r->ready = false;
        if (r->present[r->at] == LEAT_BROKEN && !mark)
            return say_broken(r, error);
        rc = r->c->ragged ? append(r, values, r->present[r->at] == LEAT_PRESENT, error) : LEAT_OK;
        r->at++;
    }
    return rc;
}

int leat_columns_gather(struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                        struct leat_column_out *out, bool mark, uint8_t *present, struct leat_error *error)
{
    struct growing values[LEAT_COLUMNS_MAX_FIELDS] = {0};
    struct reading r = {.c = c, .ids = ids, .keys = keys, .out = out, .present = present, .n = n};
    int rc = leat_columns_check_ids(c, ids, keys, n, error);
    for (size_t f = 0; f < c->n_fields; f++)
        if (out[f].wanted && c->shapes[f].ragged)
            out[f].offsets[0] = 0;
    r.room = c->plain ? 0 : sizeof(struct record) + c->fixed;
    if (!rc && r.room && !(r.buffer = leat_alloc(r.room)))
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a row of %s", c->path);
    if (!rc)
        rc = gather(&r, values, mark, error);
    leat_free(r.buffer);
    for (size_t f = 0; f < c->n_fields; f++) {
        if (!out[f].wanted || !c->shapes[f].ragged)
            continue;
        out[f].data = values[f].data;
    }
    return rc;
}
