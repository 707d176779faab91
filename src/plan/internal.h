/*
 * A plan. Each file of this layer has a header that says what it knows, and includes only those of files that stand
 * above it in this list (tools/check_layers.py):
 *
 *     spec.h      what a plan is made from: data alone
 *     internal.h  the plan itself
 *     list.c      lists of positions, and their text
 *     numbers.c   numbers of sources as text, and back
 *     cut.c       sizes of batches, and a rank's part of one
 *     weighted.c  the two weighted orders
 *     best_fit.c  documents -> rows that cut none of them; samples -> batches whose costs have a bound
 *     packed.c    a row of a pass -> the pieces of documents that it is made of
 *     groups.c    samples -> batches of about one length or cost
 *     members.c   a group and the key of a row -> the member that it draws
 *     order.c     one pass of one source: index in the pass -> position
 *     lengths.c   running sums of the tokens of a source's rows
 *     mixture.c   index in a phase of several sources -> (source, how many rows it gave before)
 *     fair.c      the same where shares are of tokens and rows vary in length
 *     log.c       the entries of the log: what holds at a position
 *     hash.c      hashes of orders and of the log
 *     phase.c     a phase of a mixture from the one before it: shares, and what each source has given before
 *     timeline.c  position -> phase
 *     geometry.c  the log's segments of an epoch -> batches and parts of ranks
 *     rows.c      rows of a batch
 *     rest.c      decisions on rows that hold from within an epoch
 *     decide.c    decisions: new entries of the log, and folding old ones
 *     entry_json.c  entries of the log as text, and back
 *     order_json.c  what a state says of the order
 *     received.c  what was received out of order as text, and back
 *     state.c     the log and a position as text, and back
 *     plan.c      a plan from its specification
 *     dependent.c  an order that follows those of others
 *     prompt_sort.c  prompts by their tokens, and what neighbours have in common
 *     prompt_records.c  a file of prompts -> where its records end
 *     prompt_tree.c  sorted prompts -> the groups that share most
 *     prompt_cache.c  sorted prompts -> what a cache of prefixes saves of them
 *
 * So the rows of a mixture are found one way: the timeline knows which phase holds, the phase by which rules it begins
 * and ends, the division whose row comes at a place, and the order of a source which sample that row is.
 */
#ifndef LEAT_PLAN_INTERNAL_H
#define LEAT_PLAN_INTERNAL_H

#include "plan/spec.h"

/* A point of a schedule. */
struct leat_point {
    uint64_t row;   /* of the stream */
    uint64_t *sums; /* n_sources + 1 */
};

struct leat_plan {
    struct leat_source_order *sources;
    uint32_t n_sources;
    bool packed;            /* some source is */
    bool draws;             /* rows of some source are groups, of which each draws a member */
    bool mixed;             /* rows come from a stream over all epochs: several sources, or epoch_rows given */
    bool varies;            /* mixed: epochs end when sources are through */
    uint64_t epoch_rows;    /* mixed: of each epoch; if that varies, at most, or 0 */
    uint64_t *tokens;       /* of a row of each source, if shares are of tokens; else NULL */
    struct leat_fair *fair; /* if they are, and rows of a source vary in length; else NULL */
    uint64_t most_rows;     /* of the stream: positions beyond it cannot be planned */
    struct leat_point *points;
    uint32_t n_points;
    bool linear;
    struct leat_timeline *timeline;
    uint64_t seed;
    uint32_t rank;
    uint64_t opened_global_batch; /* the options of this process, whatever a loaded state had */
    uint32_t opened_world_size;
    enum leat_tail opened_tail;
    char *opened_facts;
    char *view;
    struct leat_entry *log;
    uint32_t n_log;
    size_t room;             /* of the log */
    struct leat_rest *rests; /* rows of epochs within which decisions on rows hold, by epoch */
    struct leat_list *known; /* for the next state that is loaded, by leat_plan_know_list */
};

#endif
