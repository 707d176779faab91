/*
 * The events of a file as columns: read from its text once (event_scan.c), in order of time, and kept (kept.h), so that
 * the next opening reads no text.
 *
 *     src | dst | time | label | idx | features | order | facts       of int64 or double; features are float
 *
 * `order` is there if the file was out of order: the number in the file of each event, by which it finds its row in an
 * array of features.
 */
#ifndef LEAT_FORMAT_EVENT_TABLE_H
#define LEAT_FORMAT_EVENT_TABLE_H

#include "format/event_line.h"
#include "format/kept.h"

enum leat_event_column {
    LEAT_EVENT_SRC,
    LEAT_EVENT_DST,
    LEAT_EVENT_TIME,
    LEAT_EVENT_LABEL,
    LEAT_EVENT_IDX,
    LEAT_EVENT_FEATURES,
    LEAT_EVENT_ORDER,
    LEAT_EVENT_COLUMNS
};

/* The facts are kept as they stand here. */
struct leat_event_facts {
    uint64_t form, count, n_features; /* features of each event */
    uint64_t real;                    /* times are double, not int64 */
    /* The first line whose time is before that of an event in front of it, and both; 0: there is none. */
    uint64_t fall_line, fall_byte;
    int64_t fall_before, fall_time; /* as the times lie in their column */
    int64_t most_src, most_dst, most_idx;
    uint64_t users; /* JODIE: items begin here */
    uint64_t sums[2];
    uint64_t features_bytes, features_pieces; /* of the file of features that is in the sums; 0: of none */
    int64_t features_time;
};

struct leat_event_table {
    struct leat_event_facts facts;
    const void *columns[LEAT_EVENT_COLUMNS]; /* NULL: there is none */
    void *own[LEAT_EVENT_COLUMNS];           /* or: */
    struct leat_kept kept;
};

void leat_event_table_destroy(struct leat_event_table *table);
/* Reads what was kept. False: there is nothing that is right. `trusts`: as leat_kept_load. */
bool leat_event_table_load(struct leat_event_table *table, enum leat_event_form form, const char *path,
                           struct leat_io_file *source, bool trusts);
bool leat_event_table_save(struct leat_event_table *table, const char *path, struct leat_io_file *source);
/* Copies one number of a column of int64 or double. IO: what was kept cannot be read. */
int leat_event_table_get(const struct leat_event_table *table, enum leat_event_column column, uint64_t i, int64_t *out,
                         struct leat_error *error);
/* CORRUPT, if the events of the file at `path` are out of order. */
int leat_event_table_fall(const struct leat_event_table *table, const char *path, struct leat_error *error);

/* ---- making ---------------------------------------------------------------------------------- */

/* Takes the decoded bytes of a file in order: begin, push any number of times, end, also after an error (`whole`
 * false). `sorts`: events out of order are sorted by time, those of equal time as they stand; else they are CORRUPT, as
 * everything else that is wrong, with line and byte. The sums are not made. Errors also: FORMAT (there is no event),
 * NOMEM, CANCELLED. */
struct leat_event_scan;
int leat_event_scan_begin(const char *path, enum leat_event_form form, bool sorts, struct leat_event_scan **out,
                          struct leat_error *error);
int leat_event_scan_push(struct leat_event_scan *scan, const uint8_t *bytes, size_t n, struct leat_error *error);
int leat_event_scan_end(struct leat_event_scan *scan, bool whole, struct leat_event_table *out,
                        struct leat_error *error);

#endif
