/*
 * The common part of the files of this layer.
 *
 *     order.c     one pass of one source: index in the pass -> position
 *     weighted.c  the two weighted orders
 *     packed.c    a row of a pass -> the pieces of documents that it is made of
 *     best_fit.c  documents -> rows that cut none of them
 *     groups.c    samples -> batches of about one length
 *     mixture.c   index in a phase of several sources -> (source, how many rows it gave before)
 *     fair.c      the same where shares are of tokens and rows vary in length
 *     lengths.c   running sums of the tokens of a source's rows
 *     phase.c     a phase of a mixture from the one before it: shares, and what each source has given before
 *     timeline.c  position -> phase
 *     geometry.c  the log's segments of an epoch -> batches and parts of ranks
 *     log.c       the entries of the log and decisions
 *     state.c     the log and a position as text, and back
 *     blob.c      a list of positions as text, and back
 *     numbers.c   numbers of sources as text, and back
 *     order_json.c  what a state says of the order that a plan was opened with
 *     received.c  what was received out of order as text, and back
 *     rest.c      decisions on rows that hold from within an epoch
 *     plan.c      a plan from its specification; rows
 */
#ifndef LEAT_PLAN_INTERNAL_H
#define LEAT_PLAN_INTERNAL_H

#include <pthread.h>

#include "base/permute.h"
#include "plan/plan.h"

#define LEAT_PLAN_MAX_SOURCES 1024
#define LEAT_PLAN_MAX_LOG (1 << 20)
#define LEAT_PLAN_MAX_ROWS (UINT64_C(1) << 63)
#define LEAT_PLAN_MAX_FACTS 8192
#define LEAT_PLAN_MAX_RESTS 256      /* decisions on rows within an epoch: a state has all of them */
#define LEAT_PLAN_MAX_REST_EPOCHS 16 /* epochs to come that have such ones: all rows of each are in memory */
#define LEAT_PLAN_MAX_POINTS (UINT32_C(1) << 20) /* of a schedule, */
#define LEAT_PLAN_MAX_SHARES (UINT32_C(1) << 27) /* ... with so many shares: 1 GiB */
#define LEAT_SHARE_BITS 32 /* shares are integers that sum to 2^32, so that counting them is exact */

/* Keys of (seed, tag) differ from those of (seed, epoch), because epochs are below 2^63. */
#define LEAT_TAG_ORDER ((UINT64_C(1) << 63) | 1)
#define LEAT_TAG_SUBSTITUTE ((UINT64_C(1) << 63) | 2)
#define LEAT_TAG_COMPANION ((UINT64_C(1) << 63) | 3)
#define LEAT_TAG_BINS ((UINT64_C(1) << 63) | 4)

struct leat_list {
    uint64_t n, hash;
    int64_t *positions; /* NULL with n > 0: released, see log.c */
    bool selects;       /* the order is that of the plan, over these samples; else the rows are these, as they are */
    struct leat_list *next; /* of those that are known; see leat_plan_know_list */
};
int leat_list_new(const int64_t *positions, uint64_t n, uint64_t count, struct leat_list **out,
                  struct leat_error *error);
void leat_list_free(struct leat_list *list);
/* Freed with leat_free. *out stays NULL if the text would be longer than `room` or the positions were released. */
int leat_list_to_text(const struct leat_list *list, uint64_t room, char **out);
int leat_list_from_text(const char *text, uint64_t count, struct leat_list **out, struct leat_error *error);
/* Text freed with leat_free, or NULL. */
char *leat_to_base64(const uint8_t *bytes, uint64_t n);
/* The bytes of base64 text, at most 3 / 4 of its length. False: it is not base64. */
bool leat_from_base64(const char *text, uint8_t *out, uint64_t *n);

#define LEAT_VARINT_BYTES 10
/* A number, zigzag-coded, as a base-128 varint: the number of bytes; and back, from `*at` on. */
uint64_t leat_varint_put(int64_t value, uint8_t *out);
bool leat_varint_take(const uint8_t *bytes, uint64_t n, uint64_t *at, int64_t *out);

/* numbers.c: a number for each of n sources. Not `packed`: always an array, as few sources have it anyway. */
struct json_t;
struct json_t *leat_numbers_json(const int64_t *numbers, uint32_t n, bool packed);
/* INVALID: they are not that. NOMEM. */
int leat_numbers_read(const struct json_t *value, uint32_t n, int64_t *out);
/* Whether so many sources are few. */
bool leat_numbers_listed(uint32_t n);
/* order_json.c: the opening of the plan. */
struct json_t *leat_order_json(const struct leat_plan *plan);
/* The number of samples in all sources of the order of a state. */
uint64_t leat_order_samples(const struct json_t *order);
/* Whether orders of few sources are the same but for the lengths of packed documents. */
bool leat_order_differs_in_lengths(const struct json_t *a, const struct json_t *b);

/* received.c: the part of a state about rows received out of order. `value` is the result of leat_received_json.
 * Errors: those of leat_plan_load_unordered. */
struct json_t *leat_received_json(const struct leat_plan *plan, struct leat_position at,
                                  const struct leat_plan_received *received);
int leat_received_read(const struct leat_plan *plan, const struct json_t *value, struct leat_position at,
                       struct leat_plan_received *out, struct leat_error *error);

struct leat_weights {
    uint64_t n, hash, positive; /* how many are above 0 */
    double *cumulative;         /* cumulative[i] = w[0] + .. + w[i] */
    /* Without replacement: the draws of the two passes used last, in memory that is allocated at the start. */
    uint64_t num_samples;
    struct leat_weighted_key {
        double key, weight;
        uint64_t position;
    } * scratch;
    struct {
        bool set;
        uint64_t key;
        uint64_t *positions;
    } pass[2];
    unsigned newest;
    pthread_mutex_t lock;
};
/* num_samples 0: with replacement. */
int leat_weights_new(const double *weights, uint64_t n, uint64_t num_samples, struct leat_weights **out,
                     struct leat_error *error);
void leat_weights_free(struct leat_weights *w);
/* The i-th draw under a key, with replacement. */
uint64_t leat_weights_draw(const struct leat_weights *w, uint64_t key, uint64_t i);
/* n of the num_samples draws under a key, without replacement, from the first-th on. Any thread. */
void leat_weights_take(struct leat_weights *w, uint64_t key, uint64_t first, size_t n, uint64_t *out);

/* Rows that cut no document: best_fit.c. Row k has the rest of documents [begin[k], begin[k + 1]) of the list when
 * pieces of a row's length are cut off, the longest first. */
struct leat_bins {
    uint64_t n; /* rows */
    uint32_t *begin, *documents;
};
#define LEAT_BINS_MAX_LENGTH (UINT32_C(1) << 24)
/* Errors: INVALID, RANGE, NOMEM; `out` is then empty. */
int leat_bins_new(const uint32_t *lengths, uint64_t documents, uint64_t length, uint64_t seed, struct leat_bins *out,
                  struct leat_error *error);
void leat_bins_clear(struct leat_bins *bins);

/* Rows made of documents: packed.c. */
struct leat_packed_pass {
    bool set;
    uint64_t key;
    struct leat_permutation order; /* of the documents, if they are shuffled */
    uint64_t *sums;                /* number of elements before document 16 i */
};
struct leat_packing {
    pthread_rwlock_t lock; /* of `pass` and `oldest`; all else is fixed */
    enum leat_pack_how how;
    uint64_t documents, length, elements, rows, hash;
    uint64_t multiple; /* of elements that a document takes up: 1 but for BEST_FIT */
    bool shuffled;     /* the documents are permuted: CUT only */
    uint32_t *lengths;
    uint64_t *chunks; /* PAD, BEST_FIT: rows of one document each, before document 16 i; NULL: there are none */
    uint64_t n_chunks;
    struct leat_bins bins;           /* BEST_FIT: the rows after these */
    struct leat_packed_pass pass[2]; /* the second only if shuffled */
    unsigned oldest;
};
int leat_packing_new(const struct leat_pack_spec *spec, uint64_t documents, bool shuffled, struct leat_packing **out,
                     struct leat_error *error);
void leat_packing_free(struct leat_packing *packing);

/* Batches of samples of about one length: groups.c. */
struct leat_groups_pass {
    bool set;
    uint64_t key;
    struct leat_permutation order; /* of the groups, if they are shuffled */
    uint64_t *sums;                /* rows before the group in each place; at the end, all */
};
struct leat_groups {
    pthread_rwlock_t lock; /* of `pass` and `oldest`; all else is fixed */
    bool shuffled;
    uint64_t samples, elements, n_buckets, hash;
    uint64_t n, most_rows, most_elements; /* groups; the most rows of one, and elements with padding */
    uint32_t *sorted;                     /* samples by bucket */
    struct leat_bucket *buckets;          /* those that have samples */
    struct leat_groups_pass pass[2];      /* the second only if shuffled */
    unsigned oldest;
};
#define LEAT_GROUPS_MAX_WIDTHS 65536
#define LEAT_GROUPS_OWN_WIDTHS (8 * 64)
/* Errors: INVALID, RANGE (with the position of the sample), NOMEM. */
int leat_groups_new(const struct leat_group_spec *spec, uint64_t samples, bool shuffled, struct leat_groups **out,
                    struct leat_error *error);
void leat_groups_free(struct leat_groups *groups);
/* Rows of the groups [first, first + n) of the pass with this key: the first one's number, and how many. Any thread. */
void leat_groups_rows(struct leat_groups *groups, uint64_t key, uint64_t first, uint64_t n, uint64_t *begin,
                      uint64_t *rows);
/* Positions of the rows [row, row + n) of a pass. Any thread. */
void leat_groups_run(struct leat_groups *groups, uint64_t key, uint64_t row, size_t n, uint64_t *out);

/* One source's order. */
struct leat_source_order {
    enum leat_order order;
    uint64_t count;      /* samples, or rows of a packed source */
    uint64_t rows;       /* of a pass; for a LIST: see the list */
    uint64_t block_rows; /* BLOCKS: at most count */
    bool replacement;
    enum leat_exhausted exhausted; /* of a mixture, as is */
    uint64_t limit;
    uint64_t key; /* of (seed, source) */
    struct leat_weights *weights;
    struct leat_list *list; /* LIST of a mixture, or the one that the plan was opened with */
    struct leat_packing *packing;
    struct leat_lengths *lengths; /* if shares are of tokens and rows vary in length */
    struct leat_groups *groups;
};

/* The state that a run of rows of one pass can share. Zero is a valid start. */
struct leat_order_cursor {
    bool pass_set, window_set;
    const struct leat_source_order *order;
    const struct leat_list *list;
    uint64_t pass, key, window, slot;
    struct leat_permutation outer, inner;
};
#define LEAT_ORDER_RUN 256 /* rows that are computed together */
/* Positions of the rows [first, first + n) of a pass; n <= LEAT_ORDER_RUN. `list`: the one in force, or NULL. */
void leat_order_run(const struct leat_source_order *order, const struct leat_list *list,
                    struct leat_order_cursor *cursor, uint64_t pass, uint64_t first, size_t n, uint64_t *out);
uint64_t leat_order_pass_key(const struct leat_source_order *order, uint64_t pass);

/* Integers for shares: sums[0] = 0, sums[k + 1] - sums[k] that of source k, sums[n] = 2^32. */
int leat_shares_set(const double *shares, uint32_t n, uint64_t *sums, struct leat_error *error);
/* Makes sums of n numbers, in place. */
void leat_shares_sum(uint64_t *parts, uint32_t n);
/* Divides n numbers by `divisors` (NULL: by 1), scales them to 2^32 and makes sums of them, in place. False: they are
 * all 0. */
bool leat_shares_scale(uint64_t *parts, uint32_t n, const uint64_t *divisors);
/* Shares of a straight line between two sums, at / 2 rows into its `length` rows. */
void leat_shares_between(const uint64_t *from, const uint64_t *to, uint32_t n, uint64_t at, uint64_t length,
                         uint64_t *out);

/* The division of the rows of a phase among n sources: mixture.c. */
struct leat_tree {
    uint32_t n;
    uint64_t *sums;   /* n + 1 */
    int64_t *offsets; /* by node, n */
};
/* The mean excess of the sources with a share, in units of 2^-32 rows: rounded down. */
int64_t leat_mix_mean(const struct leat_tree *tree, const int64_t *carry);
/* Sets the offsets so that each of these comes to it, whatever it had. */
void leat_mix_aim(struct leat_tree *tree, const int64_t *carry, int64_t mean);
/* The source of the i-th row of a phase, and how many rows before it in the phase come from that source. */
uint32_t leat_mix_pick(const struct leat_tree *tree, uint64_t i, uint64_t *ordinal);
/* The same of n rows from the i-th on. */
void leat_mix_run(const struct leat_tree *tree, uint64_t i, size_t n, uint32_t *sources, uint64_t *ordinals);
/* The number of the first i rows that come from each source. */
void leat_mix_counts(const struct leat_tree *tree, uint64_t i, uint64_t *counts);
/* The row that is the j-th of source k; UINT64_MAX: there is none below 2^63. */
uint64_t leat_mix_place(const struct leat_tree *tree, uint32_t k, uint64_t j);

/* The phases of a mixture: timeline.c. Any thread may look up; forgetting and cutting exclude that. */
struct leat_entry;
struct leat_timeline *leat_timeline_new(uint32_t n);
void leat_timeline_free(struct leat_timeline *timeline);
/* Gives up all phases; those that end behind a position, where shares change. */
void leat_timeline_forget(struct leat_timeline *timeline);
void leat_timeline_cut(const struct leat_plan *plan, struct leat_position at);
/* Makes the first phase of an epoch from begin->base, carry and stream at its start: those of earlier epochs are then
 * not needed. For a new timeline. False: it has no rows. */
bool leat_timeline_seed(const struct leat_plan *plan, const struct leat_entry *begin);
/* Sources of up to n rows from a position of the epoch on, and which row of which of their passes they are. Returns of
 * how many: those of one phase. */
size_t leat_timeline_run(const struct leat_plan *plan, struct leat_position at, size_t n, uint32_t *sources,
                         uint64_t *passes, uint64_t *indices);
/* Rows of an epoch whose sources end it. 0: it lies too far behind those that are known, or has none. */
uint64_t leat_timeline_epoch_rows(const struct leat_plan *plan, uint64_t epoch);
/* The rows that each source has given before a position (in the epoch, for one that does not repeat), its excess in
 * units of 2^-32 rows, and the number of rows. */
bool leat_timeline_counts(const struct leat_plan *plan, struct leat_position at, uint64_t *given, int64_t *carry,
                          uint64_t *stream);
/* Whether the row at a position can be found, in not too many steps. */
bool leat_timeline_gives(const struct leat_plan *plan, struct leat_position at);
/* The phase of a position: its first row, the rows that each source had given before it and its excess, and the sources
 * that were through. False: there is none. */
bool leat_timeline_begin(const struct leat_plan *plan, struct leat_position at, uint64_t *row, uint64_t *given,
                         int64_t *carry, bool *through);

enum leat_entry_kind { LEAT_ENTRY_OPEN = 0, LEAT_ENTRY_RESUME, LEAT_ENTRY_DECIDE, LEAT_ENTRY_FOLDED };

/* One entry: its changes (0 or NULL: none; -1 for the tail), and the values that hold from then on. */
struct leat_entry {
    enum leat_entry_kind kind;
    struct leat_position at;
    uint64_t global_batch;
    uint32_t world_size;
    int tail;
    uint64_t *sums;         /* n_sources + 1 */
    struct leat_list *list; /* of the only source */
    bool unlisted;          /* the list before it ends: the order is that of the opening again */
    char *facts;
    struct {
        uint64_t global_batch;
        uint32_t world_size;
        enum leat_tail tail;
        const struct leat_list *list;
        uint64_t rests_in;      /* 0, or 1 and the epoch within which the last decision on rows holds */
        uint32_t rests;         /* of these, how many within that epoch */
        uint32_t phase;         /* the entry whose sums hold */
        uint64_t steps, missed; /* of its epoch, before it; those of them that this rank has no part of */
    } now;
    /* FOLDED, of a mixture: as leat_timeline_counts says of the start of its epoch */
    uint64_t *base, stream;
    int64_t *carry;
    /* FOLDED, if the shares that hold were decided after the epoch's start: the phase that it lies in (as
     * leat_timeline_begin says). Only the first of the rows before are needed, which padding repeats. */
    struct leat_fold_inside {
        uint64_t row;     /* the phase's first; 0: nothing of this, phases follow from the epoch's start */
        uint64_t opening; /* rows of the epoch before its first decision about shares */
        uint64_t *first;  /* sums that held in these; NULL: as opened */
        uint64_t *given;
        int64_t *carry;
        bool *through;
    } inside;
    struct {
        uint64_t entries;      /* how many it replaces */
        uint64_t steps;        /* of its epoch, before it */
        uint64_t hash;         /* of the log up to it */
        uint64_t opened_batch; /* the global batch that the last opening or resume asked for */
        bool rests;            /* rows of its epoch were decided within it: behind it they are not known */
    } folded;                  /* FOLDED: entry 1, which replaces entries 1 to .entries */
};

/* A point of a schedule. */
struct leat_point {
    uint64_t row;   /* of the stream */
    uint64_t *sums; /* n_sources + 1 */
};

struct leat_plan {
    struct leat_source_order *sources;
    uint32_t n_sources;
    bool packed;            /* some source is */
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

/* Whether an entry decides rows from within its epoch on. (A folded one is about the epochs behind it.) */
static inline bool leat_entry_is_rest(const struct leat_entry *e)
{
    return e->kind == LEAT_ENTRY_DECIDE && e->at.row && (e->list || e->unlisted);
}

/* The unit of positions of an epoch: rows, or groups. */
static inline uint64_t leat_plan_epoch_units(const struct leat_plan *plan, uint64_t epoch)
{
    return plan->sources->groups ? plan->sources->groups->n : leat_plan_epoch_rows(plan, epoch);
}

/* The list of an epoch's rows, or NULL: those that the plan was opened with. Its positions are NULL where they are not
 * known any more, with `n` 0 if their number is not. It excludes mixtures. */
const struct leat_list *leat_plan_list(const struct leat_plan *plan, uint64_t epoch);

/* All rows of an epoch within which a decision on rows holds: rest.c. */
struct leat_rest {
    struct leat_rest *next; /* of a later epoch */
    uint64_t epoch;
    struct leat_list *list;
};
/* Those of the epoch of `at`, if from there on `decided` holds (NULL: the plan's opening). Errors: INVALID (nothing is
 * left), RANGE (earlier rows are not known), NOMEM. */
int leat_rest_new(const struct leat_plan *plan, struct leat_position at, const struct leat_list *decided,
                  struct leat_rest **out, struct leat_error *error);
/* Takes them over, in the place of those that the epoch had. */
void leat_rest_set(struct leat_plan *plan, struct leat_rest *rest);
/* Makes those of `epoch` and later ones from the log. Errors: as above. */
int leat_rest_load(struct leat_plan *plan, uint64_t epoch, struct leat_error *error);
/* Frees those of epochs before this one, or NULL. */
void leat_rest_forget(struct leat_plan *plan, uint64_t epoch);
void leat_rest_free(struct leat_rest *rest);
/* The rows of an epoch, or NULL. */
const struct leat_list *leat_rest_of(const struct leat_plan *plan, uint64_t epoch);
/* Whether another epoch may have such ones: `from` is the first that the run still needs. */
bool leat_rest_has_room(const struct leat_plan *plan, uint64_t from, uint64_t epoch);

/* A hash over the points of the schedule. */
uint64_t leat_plan_schedule_hash(const struct leat_plan *plan);

/* The entry that replaces older ones, or NULL. Positions before it can no longer be planned. */
static inline const struct leat_entry *leat_plan_fold(const struct leat_plan *plan)
{
    return plan->n_log > 1 && plan->log[1].kind == LEAT_ENTRY_FOLDED ? &plan->log[1] : NULL;
}

static inline bool leat_plan_forgot(const struct leat_plan *plan, struct leat_position at)
{
    const struct leat_entry *fold = leat_plan_fold(plan);
    return fold && leat_position_precedes(at, fold->at);
}

/* Rows of an epoch that padding repeats: all that come before its first decision about shares, if later ones are
 * folded. */
uint64_t leat_plan_repeated_rows(const struct leat_plan *plan, uint64_t epoch);

/* The last entry that holds at a position. Padding repeats rows of an epoch that may lie before the folded entry; for
 * these it is the folded one. */
const struct leat_entry *leat_log_entry(const struct leat_plan *plan, struct leat_position at);
void leat_entry_destroy(struct leat_entry *entry);
void leat_log_free(struct leat_entry *log, uint32_t n);
/* Makes one entry of entries 1 to `last`. Its list is borrowed from an entry, or NULL. Errors: NOMEM. */
int leat_log_fold(const struct leat_plan *plan, uint32_t last, struct leat_entry *out);
/* The last entry up to `last` up to which the log can be folded. If epochs end by their sources, that is not one that
 * ended its own epoch, or whose row a further decision may be for, which might end it: the end of an epoch follows from
 * the shares before. Nor is it one of `epoch` or a later one behind a decision on rows within that. */
uint32_t leat_log_foldable(const struct leat_plan *plan, uint32_t last, uint64_t epoch);
/* Folds the entries 1 to `last`. If memory runs out, the log stays as it is, which is correct and only longer. */
void leat_log_fold_up_to(struct leat_plan *plan, uint32_t last);
/* Computes the steps before an entry from those before the one that precedes it. */
void leat_plan_count_steps(const struct leat_plan *plan, const struct leat_entry *before, struct leat_entry *e);
/* Computes the values after each entry of a log from the first-th on. Errors: INVALID (sizes that do not fit each
 * other). */
int leat_log_resolve(const struct leat_plan *plan, struct leat_entry *log, uint32_t first, uint32_t n,
                     struct leat_error *error);

#endif
