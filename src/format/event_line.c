/* Lines of files of events: event_line.h. */
#include "format/event_line.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define MOST_NODE INT32_MAX
/* The whole numbers that a double tells apart. */
#define MOST_WHOLE 9007199254740992.0
/* From here on doubles round to an infinite float. */
#define MOST_FLOAT 0x1.ffffffp127

struct cursor {
    const char *begin, *p, *end;
    bool commas; /* nothing else separates */
    bool more;   /* a separator was passed: a field follows */
    struct leat_event_fault *fault;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *skip(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

static bool wrong(const struct cursor *c, const char *at, const char *what)
{
    *c->fault = (struct leat_event_fault){what, (size_t)(at - c->begin)};
    return false;
}

/* Goes past the separator behind a field that ends at `p`. False: there is none. */
static bool pass(struct cursor *c, const char *p)
{
    const char *q = skip(p, c->end);
    c->more = q < c->end && (*q == ',' || (q > p && !c->commas));
    if (q < c->end && !c->more)
        return false;
    c->p = c->more && *q == ',' ? skip(q + 1, c->end) : q;
    return true;
}

static bool is_there(struct cursor *c, const char *columns)
{
    return c->more || wrong(c, c->end, columns);
}

static bool read_node(struct cursor *c, const char *what, int64_t *out)
{
    const char *const begin = c->p, *p = begin;
    int64_t value = 0;
    for (; p < c->end && *p >= '0' && *p <= '9' && value <= MOST_NODE; p++)
        value = 10 * value + (*p - '0');
    *out = value;
    return (p > begin && value <= MOST_NODE && pass(c, p)) || wrong(c, begin, what);
}

static bool read_number(struct cursor *c, const char *what, struct leat_number *out)
{
    const char *const begin = c->p;
    const size_t n = leat_number_read(begin, (size_t)(c->end - begin), LEAT_NUMBER_TEXT, out);
    return (n && isfinite(out->value) && pass(c, begin + n)) || wrong(c, begin, what);
}

/* A whole number, which may be written with a point: "1.0". */
static bool read_whole(struct cursor *c, const char *what, int64_t *out)
{
    const char *const begin = c->p;
    struct leat_number number;
    if (!read_number(c, what, &number))
        return false;
    if (!number.is_whole && !(fabs(number.value) <= MOST_WHOLE && number.value == floor(number.value)))
        return wrong(c, begin, what);
    *out = number.is_whole ? number.whole : (int64_t)number.value;
    return true;
}

static bool read_features(struct cursor *c, size_t *n, float *features)
{
    static const char what[] = "a feature is a number that float32 can hold";
    struct leat_number number;
    for (*n = 0; c->more; ++*n) {
        const char *const begin = c->p;
        if (!read_number(c, what, &number))
            return false;
        if (!(fabs(number.value) < MOST_FLOAT))
            return wrong(c, begin, what);
        features[*n] = (float)number.value;
    }
    return true;
}

/* Digits alone are a whole number, which float64 would round if int64 cannot hold it. */
static bool read_time(struct cursor *c, struct leat_number *out)
{
    const char *const begin = c->p;
    if (!read_number(c, "a time is a finite number", out))
        return false;
    bool digits = !out->is_whole;
    for (const char *p = begin; p < c->p && digits; p++)
        digits = *p != '.' && *p != 'e' && *p != 'E';
    return !digits || wrong(c, begin, "a time without a point is at least -2^63 and below 2^63");
}

static bool read_plain(struct cursor *c, struct leat_event *e, float *features)
{
    static const char columns[] = "a line is src, dst and time";
    return read_node(c, "src is a whole number from 0 to 2147483647", &e->src) && is_there(c, columns) &&
           read_node(c, "dst is a whole number from 0 to 2147483647", &e->dst) && is_there(c, columns) &&
           read_time(c, &e->time) && read_features(c, &e->n_features, features);
}

static bool read_jodie(struct cursor *c, struct leat_event *e, float *features)
{
    static const char columns[] = "a line is user, item, time and label, then features";
    return read_node(c, "a user is a whole number from 0 to 2147483647", &e->src) && is_there(c, columns) &&
           read_node(c, "an item is a whole number from 0 to 2147483647", &e->dst) && is_there(c, columns) &&
           read_time(c, &e->time) && is_there(c, columns) && read_whole(c, "a label is a whole number", &e->label) &&
           read_features(c, &e->n_features, features);
}

static bool read_tgn(struct cursor *c, struct leat_event *e)
{
    static const char columns[] = "a line is a number, u, i, ts, label and idx";
    struct leat_number number;
    return read_number(c, "a line begins with its number", &number) && is_there(c, columns) &&
           read_node(c, "u is a whole number from 0 to 2147483647", &e->src) && is_there(c, columns) &&
           read_node(c, "i is a whole number from 0 to 2147483647", &e->dst) && is_there(c, columns) &&
           read_time(c, &e->time) && is_there(c, columns) && read_whole(c, "a label is a whole number", &e->label) &&
           is_there(c, columns) && read_node(c, "idx is a whole number from 0 to 2147483647", &e->idx) &&
           (!c->more || wrong(c, c->p, columns));
}

bool leat_event_line_is_nothing(enum leat_event_form form, const char *line, size_t n)
{
    const char *const end = line + n, *const p = skip(line, end);
    return p == end || (form == LEAT_EVENTS_PLAIN && (*p == '#' || *p == '%'));
}

bool leat_event_line_read(enum leat_event_form form, const char *line, size_t n, struct leat_event *event,
                          float *features, struct leat_event_fault *fault)
{
    struct cursor c = {line, skip(line, line + n), line + n, form != LEAT_EVENTS_PLAIN, true, fault};
    *event = (struct leat_event){0};
    return form == LEAT_EVENTS_PLAIN   ? read_plain(&c, event, features)
           : form == LEAT_EVENTS_JODIE ? read_jodie(&c, event, features)
                                       : read_tgn(&c, event);
}

static bool begins_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '"';
}

/* The place of src, dst or time, 0 to 2, that a word is a usual name of; -1: of none. */
static int place_of_name(const char *word, size_t n)
{
    static const struct {
        const char *name;
        int place;
    } names[] = {{"src", 0},     {"source", 0},    {"u", 0},        {"user", 0},       {"user_id", 0},
                 {"from", 0},    {"dst", 1},       {"target", 1},   {"i", 1},          {"item", 1},
                 {"item_id", 1}, {"to", 1},        {"dest", 1},     {"time", 2},       {"t", 2},
                 {"ts", 2},      {"timestamp", 2}, {"unixtime", 2}, {"destination", 1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == n && !strncasecmp(names[i].name, word, n))
            return names[i].place;
    return -1;
}

bool leat_event_line_names_others(const char *line, size_t n)
{
    const char *const end = line + n, *p = skip(line, end);
    bool others = false;
    for (int column = 0; p < end && !others; column++) {
        const char *const word = p;
        while (p < end && !is_blank(*p) && *p != ',')
            p++;
        const int place = place_of_name(word, (size_t)(p - word));
        others = place >= 0 && place != column;
        p = skip(p, end);
        p = p < end && *p == ',' ? skip(p + 1, end) : p;
    }
    return others;
}

bool leat_event_line_is_header(enum leat_event_form form, const char *line, size_t n)
{
    static const char tgn[] = ",u,i,ts,label,idx";
    const char *const end = line + n, *p = skip(line, end);
    if (form == LEAT_EVENTS_TGN)
        return n >= sizeof tgn - 1 && !memcmp(line, tgn, sizeof tgn - 1) && skip(line + sizeof tgn - 1, end) == end;
    bool words = p < end;
    while (words && p < end) {
        words = begins_word(*p);
        while (p < end && !is_blank(*p) && *p != ',')
            p++;
        p = skip(p, end);
        p = p < end && *p == ',' ? skip(p + 1, end) : p;
    }
    return words;
}
