/*
 * The plan: the samples of each batch, as a pure function of (counts, seed, log, position). No I/O, no threads, no
 * clock, no state but the log. docs/order.md defines its results.
 *
 * A position is (epoch, row in the global order). The log is a list of decisions, each holding from a position; its
 * first entry, at (0, 0), is the opening of the loader. `step` counts global batches since the epoch's start, through
 * the log.
 */
#ifndef LEAT_PLAN_PLAN_H
#define LEAT_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leat/leat.h"

#define LEAT_PLAN_VERSION 1
#define LEAT_MAX_GLOBAL_BATCH (UINT64_C(1) << 40)

struct leat_position {
    uint64_t epoch, row; /* of a plan of groups, `row` counts these */
};
static inline bool leat_position_is(struct leat_position a, struct leat_position b)
{
    return a.epoch == b.epoch && a.row == b.row;
}
static inline bool leat_position_precedes(struct leat_position a, struct leat_position b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.row < b.row);
}

/* The sizes of a reader that has the rows of a plan in batches of its own: global batches from row `origin` of an epoch
 * on, at which step `first_step` begins. */
struct leat_cut {
    uint64_t global_batch; /* above 0 */
    uint32_t rank, world_size;
    enum leat_tail tail;
    uint64_t origin, first_step;
};

/* Part of a row: `count` elements from `begin` of one sample; UINT64_MAX: all of it. */
struct leat_piece {
    uint32_t source;
    uint64_t position; /* in that source's data set */
    uint64_t begin, count;
};

/* The count of a row of a packed source, as leat_plan_rows gives it: `position` is its number in pass `begin`.
 * leat_plan_pieces gives its pieces. */
#define LEAT_PIECE_PACKED (UINT64_MAX - 1)

/* One row of a batch. Most rows have one piece; `more` then is NULL. */
struct leat_plan_row {
    uint64_t row; /* in the global order of the epoch; the base of the random key */
    uint64_t key; /* leat_plan_key(seed, epoch, row) */
    struct leat_piece piece;
    const struct leat_piece *more; /* the pieces after the first, in the array given to leat_plan_pieces */
    uint32_t n_more;
    bool valid; /* false: padding */
};              /* 64 bytes, a cache line: filling it is a good part of a row's cost */

/* One batch of one rank. Rows [begin, begin + rows) of the global order, padding included. */
struct leat_plan_batch {
    uint64_t epoch, step;
    struct leat_position at;   /* the global batch's first row */
    struct leat_position next; /* after the global batch; row = epoch's rows at its end */
    uint64_t global_rows;      /* real rows of the global batch */
    uint64_t begin, rows;      /* this rank's */
    bool last;                 /* of the epoch */
};

/* The order of rows. */
struct leat_order_spec {
    enum leat_order order;
    uint64_t block_rows;
    const double *weights; /* WEIGHTED: of length count */
    uint64_t num_samples;
    bool replacement;
    const int64_t *positions; /* LIST */
    uint64_t n_positions;
};

/* The samples of a source are made into rows of `length` elements, as enum leat_pack_how of leat.h says. The order is
 * then one of rows; SHUFFLED permutes the samples first if they are joined and cut, by a key of the pass, and then the
 * rows. */
struct leat_pack_spec {
    enum leat_pack_how how;
    uint64_t length; /* 1 to 2^32 - 1 */
    /* Elements of each sample, bos and eos included; below 2^32. Copied, 4 bytes each. */
    const uint64_t *lengths;
    bool partial;       /* CUT: keep the last row if its elements do not fill it */
    uint64_t seed;      /* BEST_FIT: decides between documents of one length */
    uint64_t multiple;  /* BEST_FIT: documents take up a multiple of this, which divides `length`; 0: 1 */
    uint64_t n_weights; /* WEIGHTED: the number of weights: one per row */
};

/* A batch of a rank has samples of about one length (docs/order.md, "Batches by length"). The global batch of the plan
 * is then one of such a batch for each rank, and positions, in the log and the state too, count these in the place of
 * rows. SEQUENTIAL and SHUFFLED only, and no mixture. */
struct leat_group_spec {
    const uint64_t *lengths; /* elements of each sample; not kept */
    uint64_t budget;        /* elements of a batch of a rank, as if each sample had its bucket's width; 0: any number */
    uint64_t rows;          /* at most so many rows of a rank; 0: any number */
    const uint64_t *widths; /* of the buckets, rising: a sample is in the first that is not below its length */
    size_t n_widths;        /* 0: made from the lengths */
};

struct leat_plan_source {
    uint64_t count;                /* samples */
    double share;                  /* of the rows; ignored if there is one source */
    enum leat_exhausted exhausted; /* of a mixture, */
    uint64_t limit;                /* ... as in leat_mix_source */
    uint64_t tokens;               /* of each of its rows; 0 and row_tokens NULL: shares are of rows */
    const uint64_t *row_tokens;    /* of each of its samples, if they vary; at most 2^28. Copied, 4 bytes each */
    struct leat_order_spec order;
    const struct leat_pack_spec *pack;   /* NULL: a row is a sample */
    const struct leat_group_spec *group; /* NULL: batches have the same number of rows */
};

struct leat_plan_spec {
    const struct leat_plan_source *sources;
    uint32_t n_sources;
    bool mixed;          /* the sources are a mixture, also if there is one */
    uint64_t epoch_rows; /* of a mixture: as in leat_mix_options, as are */
    const struct leat_mix_point *schedule;
    size_t n_points;
    bool linear;
    uint64_t seed;
    uint64_t global_batch; /* G, above 0 */
    uint32_t rank, world_size;
    enum leat_tail tail;
    const char *view;  /* JSON of the part of a data set that the only source is, for the state; or NULL */
    const char *facts; /* JSON object copied into the first log entry (error policy, program hash), or NULL */
};

/* The batch of a step, as leat_plan_batch has those of the plan. LEAT_E_END: there is none. */
int leat_cut_batch(const struct leat_cut *cut, uint64_t epoch, uint64_t epoch_rows, uint64_t step,
                   struct leat_plan_batch *out);
/* The number of steps of its rank, those before the origin included. */
uint64_t leat_cut_steps(const struct leat_cut *cut, uint64_t epoch_rows);

struct leat_plan; /* any thread may read; leat_plan_decide excludes readers */

/* Arrays in the specification are copied. Errors: INVALID, RANGE, NOMEM. */
int leat_plan_new(const struct leat_plan_spec *spec, struct leat_plan **out, struct leat_error *error);
void leat_plan_free(struct leat_plan *plan);

/* Rows of a pass of a source. */
uint64_t leat_plan_source_rows(const struct leat_plan *plan, uint32_t source);
uint64_t leat_plan_epoch_rows(const struct leat_plan *plan, uint64_t epoch);
/* Global batches of an epoch, and those of this rank (fewer with LEAT_TAIL_UNEVEN). */
uint64_t leat_plan_steps(const struct leat_plan *plan, uint64_t epoch);
uint64_t leat_plan_rank_steps(const struct leat_plan *plan, uint64_t epoch);

/* The batch that begins at `at`, the start of a global batch (else LEAT_E_INVALID). LEAT_E_END: the epoch ends there.
 * LEAT_E_RANGE: past 2^63 rows, or an epoch whose list was released or whose decisions were folded. `rows` is 0 if
 * LEAT_TAIL_UNEVEN leaves this rank without a batch. */
int leat_plan_batch(const struct leat_plan *plan, struct leat_position at, struct leat_plan_batch *out);
/* For a plan of groups, else 0: the most rows of one, and the most elements as a share of those of all samples, in rows
 * of the mean length. */
uint64_t leat_plan_group_rows(const struct leat_plan *plan);
uint64_t leat_plan_group_weight(const struct leat_plan *plan);
/* Rows of a global batch under the last decision of the log. */
uint64_t leat_plan_global_batch(const struct leat_plan *plan);
/* The position of step `step`. LEAT_E_RANGE if the epoch has fewer, or the step lies before folded decisions. */
int leat_plan_seek(const struct leat_plan *plan, uint64_t epoch, uint64_t step, struct leat_position *out);
/* The position of the global batch that a row of an epoch is in. LEAT_E_END: the epoch has fewer rows; LEAT_E_RANGE: it
 * has none, or decisions were folded that it needs. */
int leat_plan_find(const struct leat_plan *plan, struct leat_position row, struct leat_position *out);
/* Whether it does: it can be planned only with the whole log. */
bool leat_plan_step_is_folded(const struct leat_plan *plan, uint64_t epoch, uint64_t step);
/* Rows [first, first + n) of the batch. Fast: it is called for every row. LEAT_E_RANGE, with `rows` untouched:
 * decisions made since the batch was planned released its data. */
int leat_plan_rows(const struct leat_plan *plan, const struct leat_plan_batch *batch, uint64_t first, uint64_t n,
                   struct leat_plan_row *rows);

/* Rows of an epoch by number (leat_plan_row.row); padding is numbered after the epoch's rows. LEAT_E_RANGE: as above,
 * or an epoch without rows. */
int leat_plan_rows_at(const struct leat_plan *plan, uint64_t epoch, const uint64_t *numbers, uint64_t n,
                      struct leat_plan_row *rows);

/* Pieces of many rows, in one array that grows. Zero is a valid start. The caller frees `at` with leat_free. */
struct leat_pieces {
    struct leat_piece *at;
    size_t n, room;
};
/* Finds the pieces of n rows of packed sources: replaces `piece`, sets `more`. Pieces are in document order and not
 * empty; together they have the row's elements, which are fewer than its length in the last row of a pass. Other rows
 * stay as they are. The former contents of `pieces` are lost. The first call for a pass sums up its lengths. Any
 * thread, each with its own array. NOMEM. */
int leat_plan_pieces(const struct leat_plan *plan, struct leat_plan_row *rows, size_t n, struct leat_pieces *pieces);
/* Elements of the whole sample that such a piece is of. */
uint64_t leat_plan_piece_of(const struct leat_plan *plan, const struct leat_piece *piece);

/* The number of the first `rows` rows of an epoch that each source of a mixture gives; at most all rows. LEAT_E_RANGE:
 * an epoch that has none, or decisions were folded that it needs. NOMEM. */
int leat_plan_mix_counts(const struct leat_plan *plan, uint64_t epoch, uint64_t rows, uint64_t *counts);

uint64_t leat_plan_key(uint64_t seed, uint64_t epoch, uint64_t row);
/* The substitute of a broken sample at attempt 0 to 15: a pure function of (seed, epoch, row, attempt). Its count is 0
 * if leat_plan_rows would return LEAT_E_RANGE. */
struct leat_piece leat_plan_substitute(const struct leat_plan *plan, uint64_t epoch, uint64_t row, unsigned attempt);

/* The n-th sample that is drawn to go with a row's own (Mosaic): a pure function of (seed, epoch, row, n), by the
 * order's weights or from its list, and another than its own if there is one. Its count is 0 as above. */
struct leat_piece leat_plan_companion(const struct leat_plan *plan, uint64_t epoch, uint64_t row, unsigned n);

/* Decisions. Each holds from `at`, which must not lie before an earlier entry's. */
struct leat_decision {
    struct leat_position at;
    uint64_t global_batch; /* 0: unchanged */
    const double *shares;  /* one per source, or NULL: unchanged */
    const int64_t
        *positions; /* a list (of the rest of the epoch of `at`, and of later ones), or NULL: unchanged, unless */
    uint64_t n_positions;
    bool unlisted; /* ... no list holds any more, and the order is that of the opening */
    bool selects;  /* not the rows as they are, but the samples that the order is one of; not WEIGHTED */
    /* The run needs nothing before this position any more, so that old entries may be folded and old lists be released.
     * {0, 0}: none are. */
    struct leat_position done;
};
/* Errors: INVALID, RANGE, NOMEM; the plan is then unchanged. If `at` lies within a batch, that batch is cut short. */
int leat_plan_decide(struct leat_plan *plan, const struct leat_decision *decision, struct leat_error *error);
/* A hash over seed, order and log, but not the rank: ranks compare it to see that they run the same plan. */
uint64_t leat_plan_hash(const struct leat_plan *plan);

/* A hash over seed and order alone: the same for any sizes and decisions. */
uint64_t leat_plan_order_hash(const struct leat_plan *plan);

/* Entries of the log from the first-th on, as leat_loader_log. Errors: NOMEM. */
int leat_plan_log(const struct leat_plan *plan, uint64_t first, char **json, struct leat_error *error);

/* A saved state as JSON text, freed with leat_free: versions, fingerprint, seed, position, log. It holds the hashes of
 * lists of positions and of weights. Only LIST decisions made after opening are in it (base64), if they fit 64 KiB. */
int leat_plan_state(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at, char **json,
                    struct leat_error *error);
/* Checks a state against this plan and data set, takes over its log, with an entry for sizes or ranks that differ now,
 * and returns the position. LEAT_E_STATE names the difference; LEAT_E_INVALID: not a state. */
int leat_plan_load(struct leat_plan *plan, const uint8_t fingerprint[16], const char *json, struct leat_position *at,
                   struct leat_error *error);

/* A list for the next leat_plan_load, if a state has its hash alone; copied. It is no part of the plan until a state
 * with it is loaded. Errors: RANGE (a negative position), NOMEM. */
int leat_plan_know_list(struct leat_plan *plan, const int64_t *positions, uint64_t n, struct leat_error *error);
void leat_plan_forget_lists(struct leat_plan *plan);

/* A list of numbers from 0 on as text, freed with leat_free, and back: `n` of them. Errors: NOMEM, INVALID. */
int leat_positions_to_text(const int64_t *positions, uint64_t n, char **out);
int leat_positions_from_text(const char *text, uint64_t n, int64_t **out, struct leat_error *error);

/* The rows of an epoch that one rank has received out of order. The state's position is then the frontier: the first
 * batch of which this rank lacks a row. Bit i (of byte i / 8, the lowest first) is the i-th of this rank's rows from
 * that batch's first one on. As many bits are set as this rank's batches from the frontier to `row` have rows. */
#define LEAT_PLAN_MAX_BITS 65536 /* 8 KiB: a state stays small; no row is delivered so far beyond the frontier */
struct leat_plan_received {
    uint64_t row; /* the start of the planned batch that gives the next one handed out its number and size */
    uint64_t n_bits;
    uint8_t bits[LEAT_PLAN_MAX_BITS / 8]; /* zero after n_bits */
};
/* As leat_plan_state; `received` NULL: no rows out of order. */
int leat_plan_state_unordered(const struct leat_plan *plan, const uint8_t fingerprint[16], struct leat_position at,
                              const struct leat_plan_received *received, char **json, struct leat_error *error);
/* As leat_plan_load, which refuses a state with rows received out of order. Here *found says whether it has any; then
 * its rank and sizes must be those of this plan (else LEAT_E_STATE). `at` NULL: the state is checked alone, and the
 * plan stays as it is. */
int leat_plan_load_unordered(struct leat_plan *plan, const uint8_t fingerprint[16], const char *json,
                             struct leat_position *at, struct leat_plan_received *received, bool *found,
                             struct leat_error *error);

#endif
