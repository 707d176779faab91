/*
 * One reading of a file of events: lines into columns, whatever the pieces that the bytes come in; then, of JODIE,
 * items behind users, and events that were out of order sorted by time.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/event_table.h"
#include "io/interrupt.h"

/* Bytes of a line: some thousand features take a tenth. */
#define LONGEST (UINT64_C(1) << 20)
/* The whole numbers that a double tells apart. */
#define MOST_WHOLE (INT64_C(1) << 53)

struct leat_event_scan {
    const char *path;
    bool sorts, begun; /* the first line, which may be a header, has been seen */
    uint64_t line, at; /* the number of the line, and its first byte */
    char *rest;        /* of a line that the next piece goes on with */
    size_t n_rest, rest_room;
    int64_t time; /* of the event before */
    struct {      /* the first whole time that a double cannot hold */
        uint64_t line, at;
        int64_t time;
    } large;
    struct leat_event_table table;
    size_t room[LEAT_EVENT_COLUMNS];
};

static double real_of(int64_t time)
{
    double real;
    memcpy(&real, &time, sizeof real);
    return real;
}

static int64_t time_of(double real)
{
    int64_t time;
    real += 0; /* no zero is negative */
    memcpy(&time, &real, sizeof time);
    return time;
}

static int no_memory(const struct leat_event_scan *s, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for the events of %s", s->path);
}

static int wrong(const struct leat_event_scan *s, uint64_t line, uint64_t at, const char *what, const char *text,
                 size_t n, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, s->path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, line %" PRIu64 ": %s, not \"%.*s\"", s->path, line, what, (int)(n < 40 ? n : 40), text);
}

/* ---- times ----------------------------------------------------------------------------------- */

static int beside_fractions(const struct leat_event_scan *s, uint64_t line, uint64_t at, int64_t time,
                            struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, s->path, at <= INT64_MAX ? (int64_t)at : LEAT_NO_OFFSET,
                        "%s, line %" PRIu64 ": time %" PRId64
                        " is too large to stand beside times with a point: float64 would round it; write all as whole "
                        "numbers, in a smaller unit",
                        s->path, line, time);
}

/* The first time with a point: those before, which are whole numbers, become doubles. */
static int become_real(struct leat_event_scan *s, struct leat_error *error)
{
    int64_t *times = s->table.own[LEAT_EVENT_TIME];
    struct leat_event_facts *f = &s->table.facts;
    if (s->large.line)
        return beside_fractions(s, s->large.line, s->large.at, s->large.time, error);
    for (uint64_t i = 0; i < f->count; i++)
        times[i] = time_of((double)times[i]);
    f->fall_before = time_of((double)f->fall_before);
    f->fall_time = time_of((double)f->fall_time);
    s->time = time_of((double)s->time);
    f->real = true;
    return LEAT_OK;
}

static int take_time(struct leat_event_scan *s, const struct leat_number *number, int64_t *out,
                     struct leat_error *error)
{
    struct leat_event_facts *f = &s->table.facts;
    const bool large = number->is_whole && (number->whole > MOST_WHOLE || number->whole < -MOST_WHOLE);
    int rc = LEAT_OK;
    if (!number->is_whole && !f->real)
        rc = become_real(s, error);
    if (!rc && f->real && large)
        rc = beside_fractions(s, s->line, s->at, number->whole, error);
    if (rc)
        return rc;
    if (large && !s->large.line) {
        s->large.line = s->line;
        s->large.at = s->at;
        s->large.time = number->whole;
    }
    *out = f->real ? time_of(number->value) : number->whole;
    if (f->count && !f->fall_line && (f->real ? real_of(*out) < real_of(s->time) : *out < s->time)) {
        f->fall_line = s->line;
        f->fall_byte = s->at;
        f->fall_before = s->time;
        f->fall_time = *out;
        if (!s->sorts)
            return leat_event_table_fall(&s->table, s->path, error);
    }
    s->time = *out;
    return LEAT_OK;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Room for one more event, whose line has n bytes. */
static bool make_room(struct leat_event_scan *s, size_t n)
{
    const struct leat_event_facts *f = &s->table.facts;
    for (unsigned c = 0; c < LEAT_EVENT_COLUMNS; c++) {
        const bool has = c <= LEAT_EVENT_TIME || (c == LEAT_EVENT_LABEL && f->form != LEAT_EVENTS_PLAIN) ||
                         (c == LEAT_EVENT_IDX && f->form == LEAT_EVENTS_TGN);
        if (has && s->room[c] <= f->count &&
            !leat_grow(&s->table.own[c], &s->room[c], (size_t)f->count + 1, sizeof(int64_t)))
            return false;
    }
    return leat_grow(&s->table.own[LEAT_EVENT_FEATURES], &s->room[LEAT_EVENT_FEATURES],
                     (size_t)(f->count * f->n_features) + n / 2 + 1, sizeof(float));
}

static void put(struct leat_event_scan *s, enum leat_event_column column, int64_t value, int64_t *most)
{
    ((int64_t *)s->table.own[column])[s->table.facts.count] = value;
    if (most && value > *most)
        *most = value;
}

static int add(struct leat_event_scan *s, const struct leat_event *e, int64_t time)
{
    struct leat_event_facts *f = &s->table.facts;
    put(s, LEAT_EVENT_SRC, e->src, &f->most_src);
    put(s, LEAT_EVENT_DST, e->dst, &f->most_dst);
    put(s, LEAT_EVENT_TIME, time, NULL);
    if (f->form != LEAT_EVENTS_PLAIN)
        put(s, LEAT_EVENT_LABEL, e->label, NULL);
    if (f->form == LEAT_EVENTS_TGN)
        put(s, LEAT_EVENT_IDX, e->idx, &f->most_idx);
    f->count++;
    return LEAT_OK;
}

static int refuse_header(const struct leat_event_scan *s, const char *text, size_t n, struct leat_error *error)
{
    const bool tgn = s->table.facts.form == LEAT_EVENTS_TGN;
    return wrong(s, s->line, s->at,
                 tgn ? "a file of TGN begins with \",u,i,ts,label,idx\""
                     : "a file of JODIE begins with the names of its columns, \"user_id,item_id,timestamp,...\"",
                 text, n, error);
}

static int take_event(struct leat_event_scan *s, const char *text, size_t n, struct leat_error *error)
{
    struct leat_event_facts *f = &s->table.facts;
    struct leat_event event;
    struct leat_event_fault fault;
    int64_t time = 0;
    if (!make_room(s, n))
        return no_memory(s, error);
    float *features = (float *)s->table.own[LEAT_EVENT_FEATURES] + f->count * f->n_features;
    if (!leat_event_line_read((enum leat_event_form)f->form, text, n, &event, features, &fault))
        return wrong(s, s->line, s->at + fault.at, fault.what, text + fault.at, n - fault.at, error);
    if (!f->count)
        f->n_features = event.n_features;
    if (event.n_features != f->n_features)
        return leat_fail_at(error, LEAT_E_CORRUPT, s->path, s->at <= INT64_MAX ? (int64_t)s->at : LEAT_NO_OFFSET,
                            "%s, line %" PRIu64 " has %zu features, and the lines before have %" PRIu64, s->path,
                            s->line, event.n_features, f->n_features);
    const int rc = take_time(s, &event.time, &time, error);
    return rc ? rc : add(s, &event, time);
}

static int take_line(struct leat_event_scan *s, const char *text, size_t n, struct leat_error *error)
{
    const enum leat_event_form form = (enum leat_event_form)s->table.facts.form;
    int rc = LEAT_OK;
    s->line++;
    const size_t mark = s->line == 1 && n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0; /* of byte order */
    text += mark;
    n -= mark;
    s->at += mark;
    const bool nothing = leat_event_line_is_nothing(form, text, n);
    const bool header = !s->begun && !nothing && leat_event_line_is_header(form, text, n);
    if (!s->begun && !nothing && !header && form != LEAT_EVENTS_PLAIN)
        rc = refuse_header(s, text, n, error);
    else if (header && form == LEAT_EVENTS_PLAIN && leat_event_line_names_others(text, n))
        rc = wrong(s, s->line, s->at, "columns are src, dst and time, in this order, and features behind them", text, n,
                   error);
    else if (!nothing && !header)
        rc = take_event(s, text, n, error);
    s->begun |= !nothing;
    s->at += n + 1;
    return rc;
}

static int keep_rest(struct leat_event_scan *s, const char *text, size_t n, struct leat_error *error)
{
    if (n > LONGEST - s->n_rest)
        return leat_fail_at(error, LEAT_E_CORRUPT, s->path, s->at <= INT64_MAX ? (int64_t)s->at : LEAT_NO_OFFSET,
                            "%s, line %" PRIu64 " is longer than %" PRIu64 " bytes: this is no file of events", s->path,
                            s->line + 1, LONGEST);
    if (!leat_grow(&s->rest, &s->rest_room, s->n_rest + n, 1))
        return no_memory(s, error);
    memcpy(s->rest + s->n_rest, text, n);
    s->n_rest += n;
    return LEAT_OK;
}

int leat_event_scan_begin(const char *path, enum leat_event_form form, bool sorts, struct leat_event_scan **out,
                          struct leat_error *error)
{
    struct leat_event_scan *s = *out = leat_new(struct leat_event_scan);
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", path);
    s->path = path;
    s->sorts = sorts;
    s->table.facts.form = form;
    return LEAT_OK;
}

int leat_event_scan_push(struct leat_event_scan *s, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    const char *p = (const char *)bytes, *const end = p + n;
    int rc =
        leat_io_interrupted() ? leat_fail(error, LEAT_E_CANCELLED, "reading %s was interrupted", s->path) : LEAT_OK;
    while (p < end && !rc) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *const to = newline ? newline : end;
        if (!newline || s->n_rest)
            rc = keep_rest(s, p, (size_t)(to - p), error);
        if (newline && !rc && s->n_rest) {
            rc = take_line(s, s->rest, s->n_rest, error);
            s->n_rest = 0;
        } else if (newline && !rc) {
            rc = take_line(s, p, (size_t)(to - p), error);
        }
        p = newline ? newline + 1 : end;
    }
    return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int number_items(struct leat_event_scan *s, struct leat_error *error)
{
    struct leat_event_facts *f = &s->table.facts;
    int64_t *items = s->table.own[LEAT_EVENT_DST];
    f->users = (uint64_t)f->most_src + 1;
    if (f->most_dst > INT32_MAX - (int64_t)f->users)
        return leat_fail_at(error, LEAT_E_CORRUPT, s->path, LEAT_NO_OFFSET,
                            "%s has users up to %" PRId64 " and items up to %" PRId64
                            ": together these are more than 2^31 nodes, number them without gaps",
                            s->path, f->most_src, f->most_dst);
    for (uint64_t i = 0; i < f->count; i++)
        items[i] += (int64_t)f->users;
    return LEAT_OK;
}

/* A number by which times sort as unsigned ones. */
static uint64_t sort_key(bool real, int64_t time)
{
    const uint64_t sign = UINT64_C(1) << 63, bits = (uint64_t)time;
    return real && (bits & sign) ? ~bits : bits ^ sign;
}

struct keyed {
    uint64_t key, event;
};

/* Sorts by all bytes of the keys, the lowest first; those that are the same in all are passed over. Returns where the
 * sorted ones are. */
static struct keyed *sort(struct keyed *a, struct keyed *b, uint64_t n)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        uint64_t begins[257] = {0};
        for (uint64_t i = 0; i < n; i++)
            begins[(a[i].key >> shift & 0xff) + 1]++;
        if (begins[(a[0].key >> shift & 0xff) + 1] == n)
            continue;
        for (unsigned k = 0; k < 256; k++)
            begins[k + 1] += begins[k];
        for (uint64_t i = 0; i < n; i++)
            b[begins[a[i].key >> shift & 0xff]++] = a[i];
        struct keyed *other = a;
        a = b;
        b = other;
    }
    return a;
}

/* The events in order of time, and `order`. */
static int sort_events(struct leat_event_scan *s, struct leat_error *error)
{
    struct leat_event_table *t = &s->table;
    const uint64_t n = t->facts.count, k = t->facts.n_features;
    const int64_t *times = t->own[LEAT_EVENT_TIME];
    struct keyed *pairs = n <= SIZE_MAX / 2 ? leat_new_array(2 * (size_t)n, sizeof *pairs) : NULL;
    int64_t *order = leat_new_array((size_t)n, sizeof *order);
    t->own[LEAT_EVENT_ORDER] = order;
    for (uint64_t i = 0; pairs && order && i < n; i++)
        pairs[i] = (struct keyed){sort_key(t->facts.real, times[i]), i};
    const struct keyed *sorted = pairs && order ? sort(pairs, pairs + n, n) : NULL;
    for (uint64_t i = 0; sorted && i < n; i++)
        order[i] = (int64_t)sorted[i].event;
    leat_free(pairs);
    bool good = sorted;
    for (unsigned c = 0; good && c < LEAT_EVENT_ORDER; c++) {
        const size_t each = c == LEAT_EVENT_FEATURES ? (size_t)k * sizeof(float) : sizeof(int64_t);
        if (!t->own[c] || !each)
            continue;
        uint8_t *from = t->own[c], *to = leat_new_array((size_t)n, each);
        good = to;
        for (uint64_t i = 0; good && i < n; i++)
            memcpy(to + i * each, from + (uint64_t)order[i] * each, each);
        if (good)
            t->own[c] = to;
        if (good)
            leat_free(from);
    }
    return good ? LEAT_OK : no_memory(s, error);
}

static int finish(struct leat_event_scan *s, struct leat_error *error)
{
    struct leat_event_table *t = &s->table;
    int rc = s->n_rest ? take_line(s, s->rest, s->n_rest, error) : LEAT_OK;
    if (!rc && !t->facts.count)
        rc = leat_fail_at(error, LEAT_E_FORMAT, s->path, 0, "%s has no event: each is a line \"%s\"", s->path,
                          t->facts.form == LEAT_EVENTS_PLAIN   ? "src dst time"
                          : t->facts.form == LEAT_EVENTS_JODIE ? "user,item,time,label"
                                                               : "number,u,i,ts,label,idx");
    if (!rc && t->facts.form == LEAT_EVENTS_JODIE)
        rc = number_items(s, error);
    if (!rc && t->facts.fall_line)
        rc = sort_events(s, error);
    if (!t->facts.n_features) {
        leat_free(t->own[LEAT_EVENT_FEATURES]);
        t->own[LEAT_EVENT_FEATURES] = NULL;
    }
    for (unsigned c = 0; c < LEAT_EVENT_COLUMNS; c++)
        t->columns[c] = t->own[c];
    return rc;
}

int leat_event_scan_end(struct leat_event_scan *s, bool whole, struct leat_event_table *out, struct leat_error *error)
{
    const int rc = whole ? finish(s, error) : LEAT_OK;
    if (whole && !rc)
        *out = s->table;
    else
        leat_event_table_destroy(&s->table);
    leat_free(s->rest);
    leat_free(s);
    return rc;
}
