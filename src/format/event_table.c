/* The columns of a file of events in memory, and as they are kept: event_table.h. */
#include "format/event_table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/guard.h"

/* Kinds of 8 bytes, with the version. */
static const char kinds[][9] = {
    [LEAT_EVENTS_PLAIN] = "EVENTS 1", [LEAT_EVENTS_JODIE] = "JODIE  1", [LEAT_EVENTS_TGN] = "TGN    1"};

enum { FACTS = LEAT_EVENT_COLUMNS };
static_assert(FACTS < LEAT_KEPT_SECTIONS, "each column has a section, and so have the facts");

void leat_event_table_destroy(struct leat_event_table *t)
{
    leat_kept_release(&t->kept);
    for (unsigned c = 0; c < LEAT_EVENT_COLUMNS; c++)
        leat_free(t->own[c]);
    *t = (struct leat_event_table){0};
}

/* The numbers that a column has. */
static uint64_t length_of(const struct leat_event_facts *f, enum leat_event_column column)
{
    switch (column) {
    case LEAT_EVENT_LABEL:
        return f->form != LEAT_EVENTS_PLAIN ? f->count : 0;
    case LEAT_EVENT_IDX:
        return f->form == LEAT_EVENTS_TGN ? f->count : 0;
    case LEAT_EVENT_FEATURES:
        return f->count * f->n_features;
    case LEAT_EVENT_ORDER:
        return f->fall_line ? f->count : 0;
    default:
        return f->count;
    }
}

static struct leat_kept shape(void)
{
    struct leat_kept k = {0};
    for (unsigned c = 0; c < LEAT_EVENT_COLUMNS; c++)
        k.sections[c].each = c == LEAT_EVENT_FEATURES ? sizeof(float) : sizeof(int64_t);
    k.sections[FACTS].each = sizeof(struct leat_event_facts);
    return k;
}

bool leat_event_table_load(struct leat_event_table *t, enum leat_event_form form, const char *path,
                           struct leat_io_file *source, bool trusts)
{
    struct leat_kept k = shape();
    struct leat_event_facts *f = &t->facts;
    uint64_t all;
    *t = (struct leat_event_table){0};
    if (!leat_kept_load(&k, path, source, kinds[form], trusts))
        return false;
    t->kept = k;
    bool good = k.sections[FACTS].count == 1 && !leat_guarded_copy(f, k.sections[FACTS].data, sizeof *f, NULL) &&
                f->form == form && f->count && leat_mul_u64(f->count, f->n_features, &all);
    for (unsigned c = 0; good && c < LEAT_EVENT_COLUMNS; c++) {
        good = k.sections[c].count == length_of(f, c);
        t->columns[c] = k.sections[c].count ? k.sections[c].data : NULL;
    }
    if (!good)
        leat_event_table_destroy(t);
    return good;
}

bool leat_event_table_save(struct leat_event_table *t, const char *path, struct leat_io_file *source)
{
    struct leat_kept k = shape();
    for (unsigned c = 0; c < LEAT_EVENT_COLUMNS; c++) {
        k.sections[c].data = t->columns[c];
        k.sections[c].count = length_of(&t->facts, c);
    }
    k.sections[FACTS].data = &t->facts;
    k.sections[FACTS].count = 1;
    const bool good = leat_kept_save(&k, path, source, kinds[t->facts.form]);
    leat_free(k.path);
    return good;
}

int leat_event_table_get(const struct leat_event_table *t, enum leat_event_column column, uint64_t i, int64_t *out,
                         struct leat_error *error)
{
    const int64_t *from = (const int64_t *)t->columns[column] + i;
    if (t->kept.file)
        return leat_guarded_copy(out, from, sizeof *out, error);
    *out = *from;
    return LEAT_OK;
}

static const char *time_text(const struct leat_event_facts *f, int64_t time, char *out, size_t room)
{
    double real;
    memcpy(&real, &time, sizeof real);
    if (f->real)
        snprintf(out, room, "%.17g", real);
    else
        snprintf(out, room, "%" PRId64, time);
    return out;
}

int leat_event_table_fall(const struct leat_event_table *t, const char *path, struct leat_error *error)
{
    const struct leat_event_facts *f = &t->facts;
    char before[40], time[40];
    if (!f->fall_line)
        return LEAT_OK;
    return leat_fail_at(error, LEAT_E_CORRUPT, path, f->fall_byte <= INT64_MAX ? (int64_t)f->fall_byte : LEAT_NO_OFFSET,
                        "%s, line %" PRIu64 ": time %s comes after %s, and events stand in order of time: sort=True "
                        "(--sort) sorts them, if these are times",
                        path, f->fall_line, time_text(f, f->fall_time, time, sizeof time),
                        time_text(f, f->fall_before, before, sizeof before));
}
