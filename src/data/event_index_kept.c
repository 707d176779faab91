/*
 * Indexes of graphs of events that are kept from one opening to the next, as files of format/kept.h whose facts say of
 * which events they are. A file is believed no number: those by which arrays are read are looked through first.
 */
#include "data/event_index.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "io/guard.h"

static const char kind[8] = "events1";
enum { FINGERPRINT = 0, EVENTS = 2, NODES, FLOATS, WITH_PAST, LISTED };

static void say_facts(const struct leat_event_index *x, const struct leat_dataset *events, bool past, uint64_t *facts)
{
    uint8_t bytes[16];
    leat_dataset_fingerprint(events, bytes);
    facts[FINGERPRINT] = leat_get_u64(bytes);
    facts[FINGERPRINT + 1] = leat_get_u64(bytes + 8);
    facts[EVENTS] = x->n;
    facts[NODES] = x->n_nodes;
    facts[FLOATS] = x->floats;
    facts[WITH_PAST] = past;
    facts[LISTED] = x->nodes != NULL;
}

bool leat_event_index_place(const struct leat_dataset *events, bool past, const char *dir, char *path, size_t room)
{
    uint8_t bytes[16];
    char name[33];
    leat_dataset_fingerprint(events, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(name + 2 * i, 3, "%02x", bytes[i]);
    mkdir(dir, 0777);
    return (size_t)snprintf(path, room, "%s/events-%s%s%s", dir, name, past ? "-past" : "", LEAT_KEPT_END) < room;
}

void leat_event_index_save(struct leat_event_index *x, const struct leat_dataset *events, bool past, const char *path)
{
    say_facts(x, events, past, x->kept.facts);
    leat_kept_save(&x->kept, path, NULL, kind);
}

/* ---- what a file says -------------------------------------------------------------------------- */

/* Whether sections have the lengths that others rely on. */
static bool fits(const struct leat_event_index *x, bool past)
{
    const struct leat_kept_section *s = x->kept.sections;
    return x->n <= LEAT_MOST_EVENTS && x->n_nodes < UINT32_MAX && s[LEAT_EVENT_ENDS].count == x->n &&
           s[LEAT_EVENT_TIE].count == x->n && s[LEAT_EVENT_BEGIN].count == (past ? 2 : 1) * (x->n_nodes + 1) &&
           s[LEAT_EVENT_PAIR].count == (past ? x->n : 0) &&
           s[LEAT_EVENT_NODES].count == (x->kept.facts[LISTED] ? x->n_nodes : 0) &&
           (!x->n || s[LEAT_EVENT_DESTINATIONS].count);
}

static bool ascends(const uint32_t *begin, uint64_t n, uint64_t end)
{
    bool good = !begin[0] && begin[n] == end;
    for (uint64_t i = 0; i < n && good; i++)
        good = begin[i] <= begin[i + 1];
    return good;
}

struct look {
    const struct leat_event_index *x;
    bool past, good;
};

/* Whether no number leads out of an array. */
static int look(void *arg)
{
    struct look *l = arg;
    const struct leat_event_index *x = l->x;
    const struct leat_kept_section *s = x->kept.sections;
    l->good = ascends(x->begin, x->n_nodes, s[LEAT_EVENT_SIDES].count) &&
              (!l->past || ascends(x->past_begin, x->n_nodes, s[LEAT_EVENT_PAST].count));
    for (uint64_t i = 0; i < s[LEAT_EVENT_SIDES].count && l->good; i++)
        l->good = x->sides[i].event < x->n;
    for (uint64_t e = 0; e < x->n && l->good; e++)
        l->good =
            leat_event_node(x, x->ends[e].src) != LEAT_NO_NODE && leat_event_node(x, x->ends[e].dst) != LEAT_NO_NODE;
    return LEAT_OK;
}

bool leat_event_index_load(struct leat_event_index *x, const struct leat_dataset *events, bool past, const char *path,
                           bool trusts)
{
    static const uint32_t each[] = {sizeof *x->ends, 4, 4, sizeof *x->sides, 4, 4, 4, sizeof *x->past};
    uint64_t facts[8] = {0};
    for (size_t i = 0; i < LEAT_KEPT_SECTIONS; i++)
        x->kept.sections[i].each = each[i];
    if (!leat_kept_load(&x->kept, path, NULL, kind, trusts))
        return false;
    const struct leat_kept_section *s = x->kept.sections;
    x->n = trusts ? x->kept.facts[EVENTS] : x->n;
    x->n_nodes = x->kept.facts[NODES];
    x->nodes = x->kept.facts[LISTED] ? s[LEAT_EVENT_NODES].data : NULL;
    if (!trusts)
        say_facts(x, events, past, facts);
    struct look l = {.x = x, .past = past};
    bool good = (trusts || !memcmp(facts, x->kept.facts, sizeof facts)) && fits(x, past);
    if (good) {
        x->ends = s[LEAT_EVENT_ENDS].data;
        x->tie = s[LEAT_EVENT_TIE].data;
        x->begin = s[LEAT_EVENT_BEGIN].data;
        x->sides = s[LEAT_EVENT_SIDES].data;
        x->destinations = s[LEAT_EVENT_DESTINATIONS].data;
        x->n_destinations = s[LEAT_EVENT_DESTINATIONS].count;
        x->pair = past ? s[LEAT_EVENT_PAIR].data : NULL;
        x->past = past ? s[LEAT_EVENT_PAST].data : NULL;
        x->past_begin = past ? x->begin + x->n_nodes + 1 : NULL;
        good = !leat_guarded(look, &l, NULL) && l.good;
    }
    if (!good) {
        const struct leat_event_index none = {.n = x->n, .floats = x->floats};
        leat_kept_release(&x->kept);
        *x = none;
    }
    return good;
}
