/*
 * Files of events as sources: who met whom, and when, in order of time. "events", "jodie" and "tgn" are this, with
 * another form of lines.
 *
 *     src, dst      int64: nodes
 *     t             int64 if all times are whole numbers, else float64
 *     label, idx    int64, if the form has them
 *     feat          numbers beside the events of each line (float32), or rows of an array
 *
 * All fields are mapped columns (event_table.h, npy_rows.h).
 */
#ifndef LEAT_FORMAT_EVENTS_H
#define LEAT_FORMAT_EVENTS_H

#include "format/event_table.h"
#include "format/source.h"

/* Whether a file begins with the line of names that such files have. */
bool leat_events_recognise(enum leat_event_form form, bool folder, const uint8_t *head, size_t n);
int leat_events_open(const struct leat_source_vtable *v, enum leat_event_form form, const char *path,
                     const struct leat_open_options *options, struct leat_source **out, struct leat_error *error);

/* As the functions of the vtable. */
void leat_events_close(struct leat_source *source);
int leat_events_rows(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                     const void **rows, size_t *failed, struct leat_error *error);
int leat_events_column(struct leat_source *source, size_t field, const void **data, struct leat_error *error);
int leat_events_span(struct leat_source *source, size_t field, uint64_t sample, uint64_t n, const void **data,
                     uint64_t *got, struct leat_error *error);
int leat_events_refresh(struct leat_source *source, struct leat_error *error);
int leat_events_about(struct leat_source *source, struct leat_source_about *out, struct leat_error *error);
#define LEAT_EVENTS_FUNCTIONS                                                                                          \
    .timed = true, .close = leat_events_close, .rows = leat_events_rows, .column = leat_events_column,                 \
    .span = leat_events_span, .refresh = leat_events_refresh, .about = leat_events_about

#endif
