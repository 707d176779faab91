/*
 * Finding the phase of a position. Phases are made one from the other (phase.c), and kept in memory that was allocated
 * at the start:
 *
 *     number   0       64      128      192  197 198 199 200
 *     kept     x        x        x        x    x   x   x   x        spacing 64; all near the one that was made last
 *
 * If there is no place for another, those stay whose number is a multiple of `spacing`, which doubles, and those near
 * the new one. Any other is made again from the one that is kept before it, at most `spacing` steps away. So a phase is
 * found in a small part of the time of making all, whatever their number, and no memory grows with it.
 */
#include "plan/timeline.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "plan/fair.h"
#include "plan/order.h"
#include "plan/phase.h"

#define KEPT_BYTES (UINT64_C(1) << 20) /* in which phases are kept, */
#define FEWEST_KEPT 256                /* ... but so many at least, */
#define MOST_KEPT 2048                 /* ... and at most */
#define EPOCHS 16                      /* whose number of rows is kept */
/* Phases that are made to learn how long an epoch is, and phases times sources beside them: some seconds. No run gets
 * so far ahead of the kept phases; a request for an epoch without end gets this error. */
#define MOST_PHASES 16384
#define MOST_WALKED 4000000

struct leat_timeline {
    pthread_rwlock_t lock;
    uint32_t n, n_kept, room;
    uint64_t spacing;
    struct leat_phase **kept, *spare; /* kept: in order */
    bool begun;
    struct leat_entry begin; /* if begun: of an epoch, at which a chain may begin as well */
    struct {
        bool set;
        uint64_t epoch, rows;
    } epochs[EPOCHS];
    unsigned next_epoch;
    uint64_t *scratch; /* of the makers of phases */
    void *memory;
};

struct leat_timeline *leat_timeline_new(uint32_t n)
{
    struct leat_timeline *t = leat_new(struct leat_timeline);
    if (!t)
        return NULL;
    const uint64_t bytes = leat_phase_bytes(n), fit = KEPT_BYTES / bytes;
    pthread_rwlock_init(&t->lock, NULL);
    t->n = n;
    t->spacing = 1;
    t->room = fit < FEWEST_KEPT ? FEWEST_KEPT : fit > MOST_KEPT ? MOST_KEPT : (uint32_t)fit;
    t->memory = leat_new_array(t->room + 1u, bytes);
    t->kept = leat_new_array(t->room, sizeof *t->kept);
    t->scratch = leat_new_array(2 * (size_t)n + 1, sizeof *t->scratch);
    t->begin.base = leat_new_array(n, sizeof *t->begin.base);
    t->begin.carry = leat_new_array(n, sizeof *t->begin.carry);
    if (!t->memory || !t->kept || !t->scratch || !t->begin.base || !t->begin.carry) {
        leat_timeline_free(t);
        return NULL;
    }
    for (uint32_t i = 0; i < t->room; i++)
        t->kept[i] = leat_phase_place((uint8_t *)t->memory + i * bytes, n);
    t->spare = leat_phase_place((uint8_t *)t->memory + t->room * bytes, n);
    return t;
}

void leat_timeline_free(struct leat_timeline *t)
{
    if (!t)
        return;
    pthread_rwlock_destroy(&t->lock);
    leat_free(t->memory);
    leat_free(t->kept);
    leat_free(t->scratch);
    leat_entry_destroy(&t->begin);
    leat_free(t);
}

void leat_timeline_forget(struct leat_timeline *t)
{
    t->n_kept = 0;
    t->spacing = 1;
    t->begun = false;
    memset(t->epochs, 0, sizeof t->epochs);
}

/* ---- looking up -------------------------------------------------------------------------------------------------- */

/* Whether a phase begins at a position or before it; whether it ends before it. */
static bool begins_by(const struct leat_plan *plan, const struct leat_phase *p, struct leat_position at,
                      uint64_t stream)
{
    return plan->varies ? p->d.epoch < at.epoch || (p->d.epoch == at.epoch && p->row <= at.row) : p->stream <= stream;
}

static bool reaches(const struct leat_plan *plan, const struct leat_phase *p, struct leat_position at, uint64_t stream)
{
    if (!plan->varies)
        return stream - p->stream < p->rows;
    return p->d.epoch == at.epoch && (p->last || at.row - p->row < p->rows);
}

static struct leat_phase *last_before(const struct leat_plan *plan, struct leat_position at, uint64_t stream,
                                      uint32_t *i)
{
    const struct leat_timeline *t = plan->timeline;
    *i = (uint32_t)LEAT_BISECT(k, 0, t->n_kept, begins_by(plan, t->kept[k], at, stream));
    struct leat_phase *found = *i ? t->kept[*i - 1] : NULL;
    const bool opening = found && leat_phase_opens(plan, (struct leat_position){found->d.epoch, found->row}) &&
                         !leat_phase_opens(plan, at);
    return opening ? NULL : found; /* from those first rows on nothing is known */
}

/* Makes room beside the phase of a number. Returns how many of the first i stay. */
static uint32_t thin(struct leat_timeline *t, uint64_t number, uint32_t i)
{
    for (;; t->spacing *= 2) {
        uint32_t n = 0, before = 0;
        for (uint32_t k = 0; k < t->n_kept; k++) {
            struct leat_phase *p = t->kept[k];
            const uint64_t away = p->number < number ? number - p->number : p->number - number;
            if (p->number % t->spacing && away >= t->room / 4)
                continue;
            t->kept[k] = t->kept[n];
            t->kept[n++] = p;
            before += k < i;
        }
        t->n_kept = n;
        i = before;
        if (n <= t->room / 4 * 3)
            return i;
    }
}

/* Keeps a copy of a phase behind the first i. Returns its number among those that are kept. */
static uint32_t keep(struct leat_timeline *t, uint32_t i, const struct leat_phase *p)
{
    if (t->n_kept == t->room)
        i = thin(t, p->number, i);
    struct leat_phase *place = t->kept[t->n_kept];
    memmove(&t->kept[i + 1], &t->kept[i], (t->n_kept - i) * sizeof(struct leat_phase *));
    t->kept[i] = place;
    t->n_kept++;
    leat_phase_copy(place, p);
    return i;
}

static void note_epoch(struct leat_timeline *t, const struct leat_phase *last)
{
    const uint64_t rows = last->row + last->rows;
    for (unsigned i = 0; i < EPOCHS; i++)
        if (t->epochs[i].set && t->epochs[i].epoch == last->d.epoch)
            return;
    t->epochs[t->next_epoch].set = true;
    t->epochs[t->next_epoch].epoch = last->d.epoch;
    t->epochs[t->next_epoch].rows = rows;
    t->next_epoch = (t->next_epoch + 1) % EPOCHS;
}

/* The base of the chain if no phase before a position is kept. */
static void begin_chain(const struct leat_plan *plan, struct leat_position at, struct leat_phase *p)
{
    const struct leat_timeline *t = plan->timeline;
    const struct leat_entry *fold = leat_plan_fold(plan);
    if (t->begun && !leat_position_precedes(at, t->begin.at) && (!fold || fold->at.epoch < t->begin.at.epoch))
        leat_phase_begin(plan, p, &t->begin);
    else if (fold && fold->inside.row && !leat_phase_opens(plan, at))
        leat_phase_begin_inside(plan, p, fold);
    else
        leat_phase_begin(plan, p, fold);
}

/* Makes phases up to the one of a position, under the lock; `most` of them. False: it is too far, or there is none. */
static bool walk(const struct leat_plan *plan, struct leat_position at, uint64_t stream, uint64_t most)
{
    struct leat_timeline *t = plan->timeline;
    struct leat_phase *p = t->spare;
    uint32_t i;
    const struct leat_phase *from = last_before(plan, at, stream, &i);
    if (from && reaches(plan, from, at, stream))
        return true;
    if (from) {
        leat_phase_copy(p, from);
        leat_phase_advance(plan, t->scratch, p);
    } else {
        begin_chain(plan, at, p);
    }
    bool follows = from != NULL; /* the phase before place i */
    for (; most; most--) {
        if (p->stream >= plan->most_rows || p->d.epoch > at.epoch)
            return false;
        if (!leat_phase_make(plan, t->scratch, p)) {
            if (!p->row || !follows) /* an epoch without rows, or a folded entry that is none of ours */
                return false;
            t->kept[i - 1]->last = true; /* the one before it */
            note_epoch(t, t->kept[i - 1]);
            if (reaches(plan, t->kept[i - 1], at, stream))
                return true;
            leat_phase_next_epoch(plan, p);
            continue;
        }
        i = keep(t, i, p) + 1;
        follows = true;
        if (p->last && !leat_phase_opens(plan, (struct leat_position){p->d.epoch, p->row}))
            note_epoch(t, p);
        if (reaches(plan, p, at, stream))
            return true;
        leat_phase_advance(plan, t->scratch, p);
    }
    return false;
}

bool leat_timeline_seed(const struct leat_plan *plan, const struct leat_entry *begin)
{
    struct leat_timeline *t = plan->timeline;
    t->begun = true;
    t->begin.at = (struct leat_position){begin->at.epoch, 0};
    t->begin.stream = begin->stream;
    memcpy(t->begin.base, begin->base, t->n * sizeof *t->begin.base);
    memcpy(t->begin.carry, begin->carry, t->n * sizeof *t->begin.carry);
    return walk(plan, t->begin.at, 0, 1);
}

/* The phase of a position, with the lock held; or NULL, without it. One that was not kept is made and looked at under
 * the same lock: else threads whose phases are far apart would evict each other's before they have looked. */
static const struct leat_phase *enter(const struct leat_plan *plan, struct leat_position at, uint64_t most)
{
    struct leat_timeline *t = plan->timeline;
    const uint64_t stream = plan->varies ? 0 : at.epoch * plan->epoch_rows + at.row;
    uint32_t i;
    pthread_rwlock_rdlock(&t->lock);
    const struct leat_phase *p = last_before(plan, at, stream, &i);
    if (p && reaches(plan, p, at, stream))
        return p;
    pthread_rwlock_unlock(&t->lock);
    pthread_rwlock_wrlock(&t->lock);
    p = walk(plan, at, stream, most) ? last_before(plan, at, stream, &i) : NULL;
    if (p && reaches(plan, p, at, stream))
        return p;
    pthread_rwlock_unlock(&t->lock);
    return NULL;
}

/* Rows of a phase before a position. */
static uint64_t offset_of(const struct leat_plan *plan, const struct leat_phase *p, struct leat_position at)
{
    return plan->varies ? at.row - p->row : at.epoch * plan->epoch_rows + at.row - p->stream;
}

size_t leat_timeline_run(const struct leat_plan *plan, struct leat_position at, size_t n, uint32_t *sources,
                         uint64_t *passes, uint64_t *indices)
{
    const struct leat_phase *p = enter(plan, at, LEAT_NO_END);
    if (!p)
        return 0;
    const uint64_t offset = offset_of(plan, p, at);
    n = p->rows - offset < n ? (size_t)(p->rows - offset) : n;
    if (plan->fair) {
        n = leat_fair_run(plan->fair, &p->d, offset, n, sources, passes, indices);
        pthread_rwlock_unlock(&plan->timeline->lock);
        return n;
    }
    leat_mix_run(&p->d, offset, n, sources, indices);
    for (size_t i = 0; i < n; i++) {
        const struct leat_source_order *o = &plan->sources[sources[i]];
        indices[i] += p->d.given[sources[i]];
        passes[i] = at.epoch;
        if (o->exhausted == LEAT_EXHAUSTED_REPEAT) {
            passes[i] = indices[i] / o->rows;
            indices[i] -= passes[i] * o->rows;
        }
    }
    pthread_rwlock_unlock(&plan->timeline->lock);
    return n;
}

/* The number of phases that are made to learn the length of an epoch. */
static uint64_t most_phases(const struct leat_plan *plan)
{
    const uint64_t of_schedule = (uint64_t)plan->n_points * (plan->linear ? LEAT_LINE_PARTS : 1);
    return MOST_PHASES + MOST_WALKED / plan->n_sources + of_schedule + plan->n_log;
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
    const struct leat_phase *p = enter(plan, (struct leat_position){epoch, LEAT_NO_END >> 1}, most_phases(plan));
    if (!p)
        return 0;
    rows = p->row + p->rows;
    pthread_rwlock_unlock(&t->lock);
    return rows;
}

bool leat_timeline_counts(const struct leat_plan *plan, struct leat_position at, uint64_t *given, int64_t *carry,
                          uint64_t *stream)
{
    const struct leat_phase *p = enter(plan, at, LEAT_NO_END);
    if (!p)
        return false;
    const uint64_t offset = offset_of(plan, p, at);
    leat_phase_counts(plan, p, offset, given, carry);
    for (uint32_t k = 0; k < plan->n_sources; k++)
        given[k] += p->d.given[k];
    *stream = p->stream + offset;
    pthread_rwlock_unlock(&plan->timeline->lock);
    return true;
}

bool leat_timeline_gives(const struct leat_plan *plan, struct leat_position at)
{
    const struct leat_phase *p = enter(plan, at, most_phases(plan));
    if (!p)
        return false;
    const bool found = offset_of(plan, p, at) < p->rows;
    pthread_rwlock_unlock(&plan->timeline->lock);
    return found;
}

bool leat_timeline_begin(const struct leat_plan *plan, struct leat_position at, uint64_t *row, uint64_t *given,
                         int64_t *carry, bool *through)
{
    const struct leat_phase *p = enter(plan, at, LEAT_NO_END);
    if (!p)
        return false;
    *row = p->row;
    memcpy(given, p->d.given, plan->n_sources * sizeof *given);
    memcpy(carry, p->d.carry, plan->n_sources * sizeof *carry);
    memcpy(through, p->through, plan->n_sources * sizeof *through);
    pthread_rwlock_unlock(&plan->timeline->lock);
    return true;
}

void leat_timeline_cut(const struct leat_plan *plan, struct leat_position at)
{
    struct leat_timeline *t = plan->timeline;
    const uint64_t stream = plan->varies ? 0 : at.epoch * plan->epoch_rows + at.row;
    while (t->n_kept) {
        const struct leat_phase *p = t->kept[t->n_kept - 1];
        if (begins_by(plan, p, at, stream) && !reaches(plan, p, at, stream))
            break;
        t->n_kept--;
    }
    t->begun = t->begun && !leat_position_precedes(at, t->begin.at);
    struct leat_phase *last = t->n_kept ? t->kept[t->n_kept - 1] : NULL;
    if (last && plan->varies && last->d.epoch == at.epoch && at.row - last->row == last->rows)
        last->ends = plan->n_sources; /* the decision ends it: the source may have a share, or none, from here on */
    memset(t->epochs, 0, sizeof t->epochs);
}
