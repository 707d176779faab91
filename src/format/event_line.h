/*
 * One line of a file of events, in the forms in which they are published. Pure: no I/O, no memory.
 *
 *     plain    src dst time [feature ...]            blanks, tabs or commas between; lines with # or % are comments
 *     JODIE    user,item,time,label[,feature ...]    behind a line of names; users and items are numbered apart
 *     TGN      number,u,i,ts,label,idx               behind the line ",u,i,ts,label,idx"
 */
#ifndef LEAT_FORMAT_EVENT_LINE_H
#define LEAT_FORMAT_EVENT_LINE_H

#include "base/number.h"

enum leat_event_form { LEAT_EVENTS_PLAIN = 0, LEAT_EVENTS_JODIE, LEAT_EVENTS_TGN };

struct leat_event {
    int64_t src, dst; /* 0 to INT32_MAX */
    struct leat_number time;
    int64_t label, idx; /* 0 where the form has none */
    size_t n_features;
};

struct leat_event_fault {
    const char *what; /* a clause for a person: what had to stand at ... */
    size_t at;        /* a byte of the line, at most n */
};

/* Whether a line of `n` bytes, without its end, is blank or a comment. */
bool leat_event_line_is_nothing(enum leat_event_form form, const char *line, size_t n);
/* Reads another one. `features` has room for n / 2 + 1 numbers. False: `fault` says why. */
bool leat_event_line_read(enum leat_event_form form, const char *line, size_t n, struct leat_event *event,
                          float *features, struct leat_event_fault *fault);
/* Whether a line has the names of columns, as the first one that is not nothing may, or must. */
bool leat_event_line_is_header(enum leat_event_form form, const char *line, size_t n);

/* Whether a header of the plain form has a usual name of src, dst or time in the place of another column. */
bool leat_event_line_names_others(const char *line, size_t n);

#endif
