/*
 * The phases of a mixture: runs of rows over which shares stay the same. They form a chain, each following from the one
 * before it.
 *
 *     epoch 0                                    | epoch 1
 *     |---- shares as opened ---|-- decision --|-|----------- ...
 *                                                ^ a source is through: its share goes to the others
 *
 * A phase begins where shares change, where a source is through, and, if epochs end by that, where an epoch begins. It
 * carries what each source has given, and how far that is from its shares of all rows before (exactly, in units of
 * 2^-32 rows). The next one aims its tree by that. So the phases of an epoch follow from those of the epochs before it.
 * If all sources repeat, an epoch has a fixed number of rows, and begins no phase: any position is then found in one
 * step.
 *
 * Phases are made when they are asked for, in memory that was allocated at the start. KEPT of them stay. If there is no
 * place for another, every second one is forgotten and made again from one before it when it is needed.
 */
#include <string.h>

#include "base/alloc.h"
#include "plan/internal.h"

#define KEPT 128
#define EPOCHS 16           /* whose number of rows is kept */
#define MOST_WALKED 1000000 /* phases times sources that are made to learn how long an epoch is */
#define PARTS 64            /* of a line between two points of a schedule */
#define NEVER UINT64_MAX

struct phase {
    uint64_t epoch, row, stream; /* of its first row */
    uint64_t rows;               /* NEVER: it has no end */
    bool last;                   /* of its epoch, if epochs end by their sources */
    uint32_t ends;               /* the source that cannot give the row behind it, or n */
    struct leat_tree tree;
    uint64_t *given;    /* by each source before: over all epochs if it repeats, else in this one */
    uint64_t *at_first; /* `given` as the epoch began */
    int64_t *carry;     /* that it was given too much */
    bool *through;
};

struct leat_timeline {
    pthread_rwlock_t lock;
    uint32_t n, n_kept;
    struct phase *kept[KEPT], *spare; /* kept: in order */
    struct {
        bool set;
        uint64_t epoch, rows;
    } epochs[EPOCHS];
    unsigned next_epoch;
    uint64_t *counts, *shares; /* of who makes phases, n + 1 */
    void *memory;
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint64_t phase_bytes(uint32_t n)
{
    return sizeof(struct phase) + (5 * (uint64_t)n + 1) * sizeof(uint64_t) + (n + 7u) / 8 * 8;
}

static struct phase *place_phase(void *memory, uint32_t n)
{
    struct phase *p = memory;
    uint64_t *at = (uint64_t *)(p + 1);
    p->tree.n = n;
    p->tree.sums = at;
    p->tree.offsets = (int64_t *)(at + n + 1);
    p->given = at + 2 * n + 1;
    p->at_first = at + 3 * n + 1;
    p->carry = (int64_t *)(at + 4 * n + 1);
    p->through = (bool *)(at + 5 * n + 1);
    return p;
}

struct leat_timeline *leat_timeline_new(uint32_t n)
{
    struct leat_timeline *t = leat_new(struct leat_timeline);
    if (!t)
        return NULL;
    pthread_rwlock_init(&t->lock, NULL);
    t->n = n;
    t->memory = leat_new_array(KEPT + 1, phase_bytes(n));
    t->counts = leat_new_array(n + 1u, sizeof *t->counts);
    t->shares = leat_new_array(n + 1u, sizeof *t->shares);
    if (!t->memory || !t->counts || !t->shares) {
        leat_timeline_free(t);
        return NULL;
    }
    for (uint32_t i = 0; i < KEPT; i++)
        t->kept[i] = place_phase((uint8_t *)t->memory + i * phase_bytes(n), n);
    t->spare = place_phase((uint8_t *)t->memory + KEPT * phase_bytes(n), n);
    return t;
}

void leat_timeline_free(struct leat_timeline *t)
{
    if (!t)
        return;
    pthread_rwlock_destroy(&t->lock);
    leat_free(t->memory);
    leat_free(t->counts);
    leat_free(t->shares);
    leat_free(t);
}

void leat_timeline_forget(struct leat_timeline *t)
{
    t->n_kept = 0;
    memset(t->epochs, 0, sizeof t->epochs);
}

/* ---- shares that were asked for ---------------------------------------------------------------------------------- */

/* How many rows there are from a phase's first one to a position; NEVER if that lies in a later epoch. */
static uint64_t rows_until(const struct leat_plan *plan, const struct phase *p, struct leat_position at)
{
    if (!plan->varies) {
        unsigned __int128 stream = (unsigned __int128)at.epoch * plan->epoch_rows + at.row;
        return stream > LEAT_PLAN_MAX_ROWS ? NEVER : (uint64_t)stream - p->stream;
    }
    return at.epoch == p->epoch ? at.row - p->row : NEVER;
}

/* The point of the schedule that holds at a row of the stream. */
static uint32_t point_at(const struct leat_plan *plan, uint64_t stream)
{
    uint32_t low = 0, high = plan->n_points;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->points[middle].row <= stream)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t begin_of_part(uint64_t part, uint64_t length, uint64_t parts)
{
    return (uint64_t)((unsigned __int128)part * length / parts);
}

/* The shares of the schedule at a row of the stream, and for how many rows. A line is followed in parts, each with the
 * shares of its middle. */
static uint64_t scheduled(const struct leat_plan *plan, uint64_t stream, uint64_t *shares)
{
    const uint32_t n = plan->n_sources, i = point_at(plan, stream);
    const struct leat_point *point = &plan->points[i], *next = i + 1 < plan->n_points ? point + 1 : NULL;
    if (!next || !plan->linear) {
        for (uint32_t k = 0; k < n; k++)
            shares[k] = point->sums[k + 1] - point->sums[k];
        return next ? next->row - stream : NEVER;
    }
    const uint64_t length = next->row - point->row, parts = length < PARTS ? length : PARTS, at = stream - point->row;
    uint64_t part = (uint64_t)((unsigned __int128)at * parts / length);
    while (begin_of_part(part + 1, length, parts) <= at)
        part++;
    const uint64_t begin = begin_of_part(part, length, parts), end = begin_of_part(part + 1, length, parts);
    leat_shares_between(point->sums, next->sums, n, begin + end, length, shares);
    return end - at;
}

/* The folded entry, if the position lies before the phase within an epoch from which phases follow then: only rows that
 * padding repeats are asked for there. */
static const struct leat_entry *opens(const struct leat_plan *plan, struct leat_position at)
{
    const struct leat_entry *fold = leat_plan_fold(plan);
    return fold && at.epoch == fold->at.epoch && at.row < fold->inside.row ? fold : NULL;
}

/* The same of the first rows of an epoch that are folded. */
static uint64_t asked_for_first(const struct leat_plan *plan, const struct phase *p, const struct leat_entry *fold,
                                uint64_t *shares)
{
    const uint64_t *sums = fold->inside.first ? fold->inside.first : plan->log->sums,
                   left = fold->inside.opening > p->row ? fold->inside.opening - p->row : 0;
    uint64_t rows = NEVER;
    for (uint32_t k = 0; k < plan->n_sources; k++)
        shares[k] = sums[k + 1] - sums[k];
    if (!fold->inside.first && plan->n_points)
        rows = scheduled(plan, p->stream, shares);
    return left < rows ? left : rows;
}

/* Shares that hold at the phase's begin, and for how many rows they do. */
static uint64_t asked_for(const struct leat_plan *plan, const struct phase *p, uint64_t *shares)
{
    const struct leat_entry *fold = opens(plan, (struct leat_position){p->epoch, p->row});
    if (fold)
        return asked_for_first(plan, p, fold, shares);
    const struct leat_entry *e = leat_log_entry(plan, (struct leat_position){p->epoch, p->row}), *next = e + 1;
    const struct leat_entry *holds = &plan->log[e->now.phase];
    uint64_t rows = NEVER, until;
    for (uint32_t k = 0; k < plan->n_sources; k++)
        shares[k] = holds->sums[k + 1] - holds->sums[k];
    if (!e->now.phase && plan->n_points)
        rows = scheduled(plan, p->stream, shares);
    while (next < plan->log + plan->n_log && !next->sums)
        next++;
    if (next < plan->log + plan->n_log && (until = rows_until(plan, p, next->at)) < rows)
        rows = until;
    return rows;
}

/* ---- making phases ----------------------------------------------------------------------------------------------- */

static bool repeats(const struct leat_plan *plan, uint32_t k)
{
    return plan->sources[k].exhausted == LEAT_EXHAUSTED_REPEAT;
}

/* Rows that a source may still give in the epoch. */
static uint64_t left_of(const struct leat_plan *plan, const struct phase *p, uint32_t k)
{
    const struct leat_source_order *o = &plan->sources[k];
    uint64_t most;
    if (!repeats(plan, k))
        return o->rows - p->given[k];
    if (!o->limit || __builtin_mul_overflow(o->limit, o->rows, &most))
        return NEVER;
    return most - (p->given[k] - p->at_first[k]);
}

/* Rows of an epoch that no source ends: until each source with a share has been read once. 0: each has. */
static uint64_t rows_to_read_all(const struct leat_plan *plan, const struct phase *p)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const uint64_t given = p->given[k] - p->at_first[k], rows = plan->sources[k].rows;
        if (given >= rows || p->tree.sums[k + 1] == p->tree.sums[k])
            continue;
        const uint64_t place = leat_mix_place(&p->tree, k, rows - given - 1);
        most = place >= LEAT_PLAN_MAX_ROWS ? LEAT_PLAN_MAX_ROWS : place + 1 > most ? place + 1 : most;
    }
    return most;
}

/* Ends a phase where its epoch must end, if that is before its end. False: that is at its begin. */
static bool end_epoch(const struct leat_plan *plan, const uint64_t *asked, struct phase *p)
{
    bool some = false, left = false;
    uint64_t rows = NEVER;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        some |= asked[k] && !repeats(plan, k);
        left |= asked[k] && !repeats(plan, k) && !p->through[k];
    }
    if (some && !left)
        return false;
    if (plan->epoch_rows)
        rows = plan->epoch_rows > p->row ? plan->epoch_rows - p->row : 0;
    else if (!some)
        rows = rows_to_read_all(plan, p);
    if (rows <= p->rows) {
        p->rows = rows;
        p->last = true;
        p->ends = plan->n_sources;
    }
    return rows > 0;
}

static void begin_epoch(const struct leat_plan *plan, struct phase *p)
{
    p->epoch++;
    p->row = 0;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->given[k] = repeats(plan, k) ? p->given[k] : 0;
        p->at_first[k] = p->given[k];
        p->through[k] = false;
    }
}

/* How long a phase is whose tree is made, if a source ends it. */
static void find_end(const struct leat_plan *plan, struct phase *p)
{
    p->ends = plan->n_sources;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const uint64_t left = p->tree.sums[k + 1] > p->tree.sums[k] ? left_of(plan, p, k) : NEVER;
        const uint64_t rows = left < LEAT_PLAN_MAX_ROWS ? leat_mix_place(&p->tree, k, left) : NEVER;
        if (rows < p->rows) {
            p->rows = rows;
            p->ends = k;
        }
    }
}

/* Makes the tree from shares that were asked for, without sources that are through. False: nobody is left. */
static bool make_tree(const struct leat_plan *plan, const uint64_t *asked, struct phase *p)
{
    bool some = false;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->tree.sums[k] = p->through[k] ? 0 : asked[k];
        some |= p->through[k] && asked[k];
    }
    if (!some && !plan->tokens)
        leat_shares_sum(p->tree.sums, plan->n_sources);
    else if (!leat_shares_scale(p->tree.sums, plan->n_sources, plan->tokens))
        return false;
    leat_mix_aim(&p->tree, p->carry);
    return true;
}

/* Makes a phase whose position and counts are known. False: its epoch ends before it. */
static bool make_phase(const struct leat_plan *plan, struct leat_timeline *t, struct phase *p)
{
    for (;;) {
        p->rows = asked_for(plan, p, t->shares);
        p->last = false;
        p->ends = plan->n_sources;
        if (!make_tree(plan, t->shares, p))
            return false;
        if (!plan->varies)
            return true;
        find_end(plan, p);
        if (!end_epoch(plan, t->shares, p))
            return false;
        if (p->ends < plan->n_sources && plan->sources[p->ends].exhausted == LEAT_EXHAUSTED_STOP) {
            p->last = true;
            return p->rows > 0;
        }
        if (p->rows || p->ends == plan->n_sources)
            return true;
        p->through[p->ends] = true;
    }
}

/* Moves a phase to where the next one begins. */
static void advance(const struct leat_plan *plan, struct leat_timeline *t, struct phase *p)
{
    leat_mix_counts(&p->tree, p->rows, t->counts);
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const uint64_t share = p->tree.sums[k + 1] - p->tree.sums[k];
        p->given[k] += t->counts[k];
        p->carry[k] = (int64_t)((uint64_t)p->carry[k] + (t->counts[k] << LEAT_SHARE_BITS) - p->rows * share);
    }
    p->stream += p->rows;
    p->row += p->rows;
    if (!plan->varies) { /* numbered by the stream; epoch and row only say where decisions are looked up */
        p->epoch = p->stream / plan->epoch_rows;
        p->row = p->stream % plan->epoch_rows;
        return;
    }
    if (p->last)
        begin_epoch(plan, p);
    else if (p->ends < plan->n_sources)
        p->through[p->ends] = true;
}

/* The begin of the phase within an epoch that a folded entry lies in. */
static void set_inside(const struct leat_plan *plan, struct phase *p, const struct leat_entry *fold)
{
    p->epoch = fold->at.epoch;
    p->row = fold->inside.row;
    p->stream = fold->stream + fold->inside.row;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->given[k] = fold->inside.given[k];
        p->at_first[k] = fold->base[k];
        p->carry[k] = fold->inside.carry[k];
        p->through[k] = fold->inside.through[k];
    }
}

/* The begin of an epoch, from what sources had given then; NULL: of the first one. */
static void set_begin(const struct leat_plan *plan, struct phase *p, const struct leat_entry *begin)
{
    p->epoch = begin ? begin->at.epoch : 0;
    p->row = 0;
    p->stream = begin ? begin->stream : 0;
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        p->given[k] = p->at_first[k] = begin ? begin->base[k] : 0;
        p->carry[k] = begin ? begin->carry[k] : 0;
        p->through[k] = false;
    }
}

static void copy_phase(struct phase *to, const struct phase *from)
{
    const uint32_t n = from->tree.n;
    const struct phase place = *to;
    *to = *from;
    to->tree = place.tree;
    to->given = place.given;
    to->at_first = place.at_first;
    to->carry = place.carry;
    to->through = place.through;
    memcpy(to->tree.sums, from->tree.sums, phase_bytes(n) - sizeof *from);
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

/* Whether a phase begins at a position or before it; whether it ends before it. */
static bool begins_by(const struct leat_plan *plan, const struct phase *p, struct leat_position at, uint64_t stream)
{
    return plan->varies ? p->epoch < at.epoch || (p->epoch == at.epoch && p->row <= at.row) : p->stream <= stream;
}

static bool reaches(const struct leat_plan *plan, const struct phase *p, struct leat_position at, uint64_t stream)
{
    if (!plan->varies)
        return stream - p->stream < p->rows;
    return p->epoch == at.epoch && (p->last || at.row - p->row < p->rows);
}

static struct phase *last_before(const struct leat_plan *plan, struct leat_position at, uint64_t stream, uint32_t *i)
{
    const struct leat_timeline *t = plan->timeline;
    uint32_t low = 0, high = t->n_kept;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (begins_by(plan, t->kept[middle], at, stream))
            low = middle + 1;
        else
            high = middle;
    }
    *i = low;
    struct phase *found = low ? t->kept[low - 1] : NULL;
    const bool opening = found && opens(plan, (struct leat_position){found->epoch, found->row}) && !opens(plan, at);
    return opening ? NULL : found; /* from those first rows on nothing is known */
}

/* Keeps a copy of a phase behind the first i. Returns its number. */
static uint32_t keep(struct leat_timeline *t, uint32_t i, const struct phase *p)
{
    if (t->n_kept == KEPT) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < KEPT; k += 2) { /* the first one stays */
            struct phase *other = t->kept[n];
            t->kept[n++] = t->kept[k];
            t->kept[k] = other;
        }
        t->n_kept = n;
        i = (i + 1) / 2;
    }
    struct phase *place = t->kept[t->n_kept];
    memmove(&t->kept[i + 1], &t->kept[i], (t->n_kept - i) * sizeof *t->kept);
    t->kept[i] = place;
    t->n_kept++;
    copy_phase(place, p);
    return i;
}

static void note_epoch(struct leat_timeline *t, const struct phase *last)
{
    const uint64_t rows = last->row + last->rows;
    for (unsigned i = 0; i < EPOCHS; i++)
        if (t->epochs[i].set && t->epochs[i].epoch == last->epoch)
            return;
    t->epochs[t->next_epoch].set = true;
    t->epochs[t->next_epoch].epoch = last->epoch;
    t->epochs[t->next_epoch].rows = rows;
    t->next_epoch = (t->next_epoch + 1) % EPOCHS;
}

/* Makes phases up to the one of a position, under the lock; `most` of them. False: it is too far, or there is none. */
static bool walk(const struct leat_plan *plan, struct leat_position at, uint64_t stream, uint64_t most)
{
    struct leat_timeline *t = plan->timeline;
    struct phase *p = t->spare;
    uint32_t i;
    const struct phase *from = last_before(plan, at, stream, &i);
    if (from && reaches(plan, from, at, stream))
        return true;
    if (from) {
        copy_phase(p, from);
        advance(plan, t, p);
    } else { /* the chain's beginning */
        const struct leat_entry *fold = leat_plan_fold(plan);
        if (fold && fold->inside.row && !opens(plan, at))
            set_inside(plan, p, fold);
        else
            set_begin(plan, p, fold);
    }
    bool follows = from != NULL; /* the phase before place i */
    for (; most; most--) {
        if (p->stream >= LEAT_PLAN_MAX_ROWS || p->epoch > at.epoch)
            return false;
        if (!make_phase(plan, t, p)) {
            if (!p->row || !follows) /* an epoch without rows, or a folded entry that is none of ours */
                return false;
            t->kept[i - 1]->last = true; /* the one before it */
            note_epoch(t, t->kept[i - 1]);
            if (reaches(plan, t->kept[i - 1], at, stream))
                return true;
            begin_epoch(plan, p);
            continue;
        }
        i = keep(t, i, p) + 1;
        follows = true;
        if (p->last && !opens(plan, (struct leat_position){p->epoch, p->row}))
            note_epoch(t, p);
        if (reaches(plan, p, at, stream))
            return true;
        advance(plan, t, p);
    }
    return false;
}

bool leat_timeline_seed(const struct leat_plan *plan, const struct leat_entry *begin)
{
    struct leat_timeline *t = plan->timeline;
    struct phase *p = t->spare;
    set_begin(plan, p, begin);
    if (!make_phase(plan, t, p))
        return false;
    keep(t, 0, p);
    return true;
}

/* The phase of a position, with the lock held for reading; or NULL, without it. */
static const struct phase *enter(const struct leat_plan *plan, struct leat_position at, uint64_t most)
{
    struct leat_timeline *t = plan->timeline;
    const uint64_t stream = plan->varies ? 0 : at.epoch * plan->epoch_rows + at.row;
    for (bool found = true; found;) {
        uint32_t i;
        pthread_rwlock_rdlock(&t->lock);
        const struct phase *p = last_before(plan, at, stream, &i);
        if (p && reaches(plan, p, at, stream))
            return p;
        pthread_rwlock_unlock(&t->lock);
        pthread_rwlock_wrlock(&t->lock);
        found = walk(plan, at, stream, most);
        pthread_rwlock_unlock(&t->lock);
    }
    return NULL;
}

/* Rows of a phase before a position. */
static uint64_t offset_of(const struct leat_plan *plan, const struct phase *p, struct leat_position at)
{
    return plan->varies ? at.row - p->row : at.epoch * plan->epoch_rows + at.row - p->stream;
}

size_t leat_timeline_run(const struct leat_plan *plan, struct leat_position at, size_t n, uint32_t *sources,
                         uint64_t *passes, uint64_t *indices)
{
    const struct phase *p = enter(plan, at, NEVER);
    if (!p)
        return 0;
    const uint64_t offset = offset_of(plan, p, at);
    n = p->rows - offset < n ? (size_t)(p->rows - offset) : n;
    leat_mix_run(&p->tree, offset, n, sources, indices);
    for (size_t i = 0; i < n; i++) {
        const struct leat_source_order *o = &plan->sources[sources[i]];
        indices[i] += p->given[sources[i]];
        passes[i] = at.epoch;
        if (o->exhausted == LEAT_EXHAUSTED_REPEAT) {
            passes[i] = indices[i] / o->rows;
            indices[i] -= passes[i] * o->rows;
        }
    }
    pthread_rwlock_unlock(&plan->timeline->lock);
    return n;
}

uint64_t leat_timeline_epoch_rows(const struct leat_plan *plan, uint64_t epoch)
{
    struct leat_timeline *t = plan->timeline;
    uint64_t rows = 0;
    if (epoch >> 63)
        return 0;
    pthread_rwlock_rdlock(&t->lock);
    for (unsigned i = 0; i < EPOCHS; i++)
        if (t->epochs[i].set && t->epochs[i].epoch == epoch)
            rows = t->epochs[i].rows;
    pthread_rwlock_unlock(&t->lock);
    if (rows)
        return rows;
    const struct phase *p = enter(plan, (struct leat_position){epoch, NEVER >> 1}, MOST_WALKED / plan->n_sources);
    if (!p)
        return 0;
    rows = p->row + p->rows;
    pthread_rwlock_unlock(&t->lock);
    return rows;
}

bool leat_timeline_counts(const struct leat_plan *plan, struct leat_position at, uint64_t *given, int64_t *carry,
                          uint64_t *stream)
{
    const struct phase *p = enter(plan, at, NEVER);
    if (!p)
        return false;
    const uint64_t offset = offset_of(plan, p, at);
    leat_mix_counts(&p->tree, offset, given);
    for (uint32_t k = 0; k < plan->n_sources; k++) {
        const uint64_t share = p->tree.sums[k + 1] - p->tree.sums[k];
        carry[k] = (int64_t)((uint64_t)p->carry[k] + (given[k] << LEAT_SHARE_BITS) - offset * share);
        given[k] += p->given[k];
    }
    *stream = p->stream + offset;
    pthread_rwlock_unlock(&plan->timeline->lock);
    return true;
}

bool leat_timeline_gives(const struct leat_plan *plan, struct leat_position at)
{
    const struct phase *p = enter(plan, at, MOST_WALKED / plan->n_sources);
    if (!p)
        return false;
    const bool found = offset_of(plan, p, at) < p->rows;
    pthread_rwlock_unlock(&plan->timeline->lock);
    return found;
}

bool leat_timeline_begin(const struct leat_plan *plan, struct leat_position at, uint64_t *row, uint64_t *given,
                         int64_t *carry, bool *through)
{
    const struct phase *p = enter(plan, at, NEVER);
    if (!p)
        return false;
    *row = p->row;
    memcpy(given, p->given, plan->n_sources * sizeof *given);
    memcpy(carry, p->carry, plan->n_sources * sizeof *carry);
    memcpy(through, p->through, plan->n_sources * sizeof *through);
    pthread_rwlock_unlock(&plan->timeline->lock);
    return true;
}

void leat_timeline_cut(const struct leat_plan *plan, struct leat_position at)
{
    struct leat_timeline *t = plan->timeline;
    const uint64_t stream = plan->varies ? 0 : at.epoch * plan->epoch_rows + at.row;
    while (t->n_kept) {
        const struct phase *p = t->kept[t->n_kept - 1];
        if (begins_by(plan, p, at, stream) && !reaches(plan, p, at, stream))
            break;
        t->n_kept--;
    }
    struct phase *last = t->n_kept ? t->kept[t->n_kept - 1] : NULL;
    if (last && plan->varies && last->epoch == at.epoch && at.row - last->row == last->rows)
        last->ends = plan->n_sources; /* the decision ends it: the source may have a share, or none, from here on */
    memset(t->epochs, 0, sizeof t->epochs);
}
