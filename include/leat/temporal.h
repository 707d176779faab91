/*
 * libleat: graphs of events. Each event joins two nodes at a time, and what may be known as it happens are the events
 * strictly before it.
 */
#ifndef LEAT_TEMPORAL_H
#define LEAT_TEMPORAL_H

#include "leat/leat.h"

#ifdef __cplusplus
extern "C" {
#endif

enum leat_temporal_before {
    LEAT_BEFORE_EVENT = 0, /* neighbours are of events with a time below that of the row's event */
    LEAT_BEFORE_BATCH      /* ... below that of the first event of the global batch */
};
enum leat_negatives { LEAT_NEGATIVES_RANDOM = 0, LEAT_NEGATIVES_HISTORICAL };

struct leat_temporal_options {
    size_t struct_size;
    uint32_t neighbors; /* of each node; 0: no fields of neighbours */
    uint32_t negatives; /* of each event; 0: none */
    enum leat_temporal_before before;
    enum leat_negatives how;
    bool by_id;                /* negatives are drawn by the event's id, else by the key of its row */
    bool pending;              /* fields that say what a batch has of a node before and behind an event */
    int64_t fill, fill_events; /* the numbers of a neighbour, and of its event, where there is none */
    /* NULL, or negatives of one's own in the place of drawn ones: `negatives` of each event, in the order of positions.
     * They stay as they are until `release` is called with `user`. */
    const int64_t *given;
    void (*release)(void *user);
    void *user;
    const char *index_dir; /* NULL, or a folder, which is made, that keeps the index for the next opening */
};
#define LEAT_TEMPORAL_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(struct leat_temporal_options), 10, 1, LEAT_BEFORE_EVENT, LEAT_NEGATIVES_RANDOM, false, true, -1, -1,    \
            NULL, NULL, NULL, NULL                                                                                     \
    }

/* A graph of the events of `events`: scalar integer fields `src` and `dst` (nodes, 0 to 2^31 - 1), and `t`, the time,
 * which never falls: an integer, or float64. Fields: those of `events`; of each side S (`src`, `dst` and, if there are
 * negatives, `neg`, of m nodes):
 *
 *     S.nodes, S.events    int64 (k,), of neg (m, k): the k most recent neighbours before the event, the newest first,
 *                          and the ids of the events that joined them; `fill` and `fill_events` where there are fewer
 *     S.times              as t, of the same shape: times of these events; 0
 *     S.count              int32 (), of neg (m,): how many there are
 *     S.pending            int32 (), of src and dst: events of the node in the global batch before this one
 *     S.last               bool (): the node has no event in the global batch behind this one
 *     neg                  int64 (m,)
 *
 * A self-loop is one event of its node. A negative is drawn uniformly from the distinct nodes that are `dst` of some
 * event; HISTORICAL: from those that the event's source had as `dst` strictly before, without the present one, if there
 * are any. A sample that is read apart from a batch is a batch of its own, and its negatives are drawn by its id.
 *
 * Ids are those of `events`, if they ascend; else they number its positions. A loader reads the graph in its order. The
 * index takes 16 bytes for each event and side, 12 more for each event, and with HISTORICAL 4 more and 8 for each
 * distinct pair. Retains `events`.
 * Errors: NOT_FOUND (a field is missing), TYPE (of another kind; a time of float32), CORRUPT (a time that falls or is
 * no number, a node out of range: with the sample), RANGE (2^31 events), INVALID, NOMEM, CANCELLED, and those of
 * reading. `release` is called when the graph is closed, not if this fails. */
LEAT_API int leat_dataset_temporal(struct leat_dataset *events, const struct leat_temporal_options *options,
                                   struct leat_dataset **out, struct leat_error *error);

/* The k most recent neighbours of n nodes, each strictly before its time, the newest first. `graph` is of
 * leat_dataset_temporal, or a view of one; `times` and `times_out` have the type that its S.times have. A node of which
 * it knows nothing has none. Outputs (n, k), filled up as above; `count` (n,). NULL: not wanted. Any thread.
 * Errors: INVALID (it is no such data set). */
LEAT_API int leat_temporal_recent(const struct leat_dataset *graph, const int64_t *nodes, const void *times, uint64_t n,
                                  uint32_t k, int64_t *nodes_out, void *times_out, int64_t *events_out, int32_t *count,
                                  struct leat_error *error);
/* Whether times are float64, else int64; the number of events and of distinct nodes. INVALID as above. */
LEAT_API int leat_temporal_look(const struct leat_dataset *graph, bool *floats, uint64_t *events, uint64_t *nodes,
                                struct leat_error *error);

#ifdef __cplusplus
}
#endif

#endif
