/*
 * The index of a graph of events: of each node its events in their order, so that those before a moment are found by
 * bisection, and those that are most recent lie side by side.
 *
 *     events    0 1 2 3 4 ...                    ends[e]: source and destination; tie[e]: the first event of its time
 *     nodes     | a        | b  | c     | ...    begin[v]
 *     sides     1 3 4 9      0 9  3 4 8          the other node, the event, its time: 16 bytes
 *
 * For negatives that a source had before, the distinct destinations of each source stand in the order of their first
 * events (`past`), and each event has the number of its own among them (`pair`).
 */
#ifndef LEAT_DATA_EVENT_INDEX_H
#define LEAT_DATA_EVENT_INDEX_H

#include "data/dataset.h"
#include "format/kept.h"

#define LEAT_MOST_EVENTS ((UINT64_C(1) << 31) - 1)
#define LEAT_NO_NODE UINT32_MAX

struct leat_event_ends {
    int32_t src, dst;
};
struct leat_event_side {
    int32_t other;
    uint32_t event;
    int64_t time; /* of floats: the bits of the double */
};
struct leat_event_past {
    int32_t dst;
    uint32_t event; /* the first of the pair */
};

struct leat_event_index {
    uint64_t n, n_nodes, n_destinations;
    bool floats;
    const struct leat_event_ends *ends;
    const uint32_t *tie, *begin; /* n; n_nodes + 1 */
    const struct leat_event_side *sides;
    const int32_t *destinations; /* distinct, ascending */
    const int32_t *nodes;        /* the node of each number, ascending; NULL: they are the numbers */
    const uint32_t *pair;        /* NULL: nothing was asked about the past */
    const uint32_t *past_begin;  /* n_nodes + 1 */
    const struct leat_event_past *past;
    _Atomic uint32_t *hints;       /* of each node: where its last search ended; any number is right */
    struct leat_kept kept;         /* where the arrays lie, maybe mapped: then they are read inside leat_guarded */
    void *own[LEAT_KEPT_SECTIONS]; /* or here */
};

/* The sections of an index that is kept. */
enum leat_event_section {
    LEAT_EVENT_ENDS = 0,
    LEAT_EVENT_TIE,
    LEAT_EVENT_BEGIN, /* with `past_begin` behind it */
    LEAT_EVENT_SIDES,
    LEAT_EVENT_DESTINATIONS,
    LEAT_EVENT_NODES,
    LEAT_EVENT_PAIR,
    LEAT_EVENT_PAST
};

/* Reads the columns of `events`, whose fields have been checked, and makes the index; or takes the one that was kept in
 * `dir` (NULL: none is) for the same fingerprint. CORRUPT, RANGE, NOMEM, CANCELLED, and those of reading. */
int leat_event_index_make(struct leat_event_index *index, const struct leat_dataset *events, const size_t fields[3],
                          bool past, const char *dir, struct leat_error *error);
void leat_event_index_destroy(struct leat_event_index *index);

/* ---- kept in a folder: event_index_kept.c ----------------------------------------------------- */

/* The file of the index of `events` in `dir`, which is made. False: the path is too long. */
bool leat_event_index_place(const struct leat_dataset *events, bool past, const char *dir, char *path, size_t room);
/* Takes the index of x->n events from there. False: there is none, or it is another one, or damaged. `trusts`: the
 * fingerprint and the checksums are not compared: for fuzzers. */
bool leat_event_index_load(struct leat_event_index *index, const struct leat_dataset *events, bool past,
                           const char *path, bool trusts);
/* Writes it there; that it cannot is logged. */
void leat_event_index_save(struct leat_event_index *index, const struct leat_dataset *events, bool past,
                           const char *path);

/* ---- looking up ------------------------------------------------------------------------------- */

/* The number of a node; LEAT_NO_NODE: it has no event. */
static inline uint32_t leat_event_node(const struct leat_event_index *x, int64_t node)
{
    if (!x->nodes)
        return node >= 0 && (uint64_t)node < x->n_nodes ? (uint32_t)node : LEAT_NO_NODE;
    uint64_t low = 0, high = x->n_nodes;
    while (low < high) {
        const uint64_t i = low + (high - low) / 2;
        if (x->nodes[i] < node)
            low = i + 1;
        else
            high = i;
    }
    return low < x->n_nodes && x->nodes[low] == node ? (uint32_t)low : LEAT_NO_NODE;
}

/* The end of the sides of a node that are of events before `event`. Fast where calls of a node follow each other in the
 * order of events. */
uint32_t leat_event_before(const struct leat_event_index *index, uint32_t node, uint64_t event);
/* The same, fast where it is near `at`, which may be any number. */
uint32_t leat_event_before_near(const struct leat_event_index *index, uint32_t node, uint64_t event, uint32_t at);
/* ... whose times are below `time`. */
uint32_t leat_event_before_time(const struct leat_event_index *index, uint32_t node, int64_t time);
/* The distinct destinations that a node had before `event`. */
uint32_t leat_event_past_before(const struct leat_event_index *index, uint32_t node, uint64_t event);

#endif
