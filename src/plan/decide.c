/*
 * Decisions, each a new entry of the log.
 *
 * Lists of positions may be large and are replaced every epoch. The last KEPT_LISTS stay in memory, and so do those
 * that the run still needs: all of the epoch that it is in, from whose first rows padding is made and substitutes of
 * any row are drawn, and whose rest a state follows from. Only the hash of older ones is known.
 *
 * A run may make a decision every epoch without end. So when there are more than FOLD_ABOVE entries, those before the
 * position that the run has passed are folded into one, except the last KEPT_ENTRIES of them:
 *
 *     open  e1 e2 e3 ... e190 | e191 ... e254 | done | e255 e256      ->      open  folded  e191 ... e256
 *
 * From the folded entry on, the plan and its hash are unchanged; rows before it can no longer be planned. In a mixture
 * the folded entry has the rows that each source had given by the start of its epoch. If shares were decided since
 * then, it also says so of the phase that it lies in, and has the shares of the epoch's start: padding repeats rows
 * from there.
 */
#include "plan/decide.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/fair.h"
#include "plan/geometry.h"
#include "plan/groups.h"
#include "plan/hash.h"
#include "plan/lengths.h"
#include "plan/rest.h"
#include "plan/timeline.h"

#define KEPT_LISTS 4
#define KEPT_ENTRIES 64 /* more than a state holds (state.c): it is the same text whether or not the log was folded */
#define FOLD_ABOVE 256
#define FOLD_PART 8 /* entries are folded when they are this part of the log at least */

/* Whether rows of an entry's epoch were decided within it. */
static bool has_rest(const struct leat_entry *e)
{
    return e->now.rests_in == e->at.epoch + 1;
}

static void give_up_old_lists(struct leat_plan *plan, struct leat_position done)
{
    unsigned kept = 0;
    if (plan->mixed)
        return;
    done.row = 0;
    struct leat_position until = {UINT64_MAX, UINT64_MAX}; /* from the start of the next list */
    for (uint32_t i = plan->n_log; i-- > 1;) {
        struct leat_list *list = plan->log[i].list;
        if (!list && !plan->log[i].unlisted)
            continue;
        if (list && ++kept > KEPT_LISTS && !leat_position_precedes(done, until)) {
            leat_free(list->positions);
            list->positions = NULL;
        }
        until = plan->log[i].at;
    }
}

static uint64_t *copy_sums(const struct leat_plan *plan, const uint64_t *sums)
{
    uint64_t *copy = leat_new_array(plan->n_sources + 1u, sizeof *copy);
    return copy ? memcpy(copy, sums, (plan->n_sources + 1u) * sizeof *copy) : NULL;
}

/* The first entry up to `last` that decided shares within the epoch of that one, or NULL. */
static const struct leat_entry *first_inside(const struct leat_plan *plan, uint32_t last)
{
    const struct leat_entry *found = NULL;
    for (uint32_t i = last; i && plan->log[i].at.epoch == plan->log[last].at.epoch; i--) {
        const struct leat_entry *e = &plan->log[i];
        if (e->kind == LEAT_ENTRY_FOLDED ? e->inside.row > 0 : e->sums && e->at.row)
            found = e;
    }
    return found;
}

/* The folded entry of a mixture. */
static bool fold_shares(const struct leat_plan *plan, uint32_t last, struct leat_entry *out)
{
    const struct leat_entry *e = &plan->log[last], *inside = first_inside(plan, last), *before = inside;
    const uint32_t n = plan->n_sources;
    out->base = leat_new_array(n, sizeof *out->base);
    out->carry = leat_new_array(n, sizeof *out->carry);
    if ((e->now.phase && !(out->sums = copy_sums(plan, plan->log[e->now.phase].sums))) || !out->base || !out->carry ||
        !leat_timeline_counts(plan, (struct leat_position){e->at.epoch, 0}, out->base, out->carry, &out->stream))
        return false;
    if (!inside)
        return true;
    const bool again = inside->kind == LEAT_ENTRY_FOLDED;
    while (before->kind != LEAT_ENTRY_FOLDED && before->at.epoch == e->at.epoch && before->at.row)
        before--;
    const uint64_t *first = again ? inside->inside.first : before->now.phase ? plan->log[before->now.phase].sums : NULL;
    struct leat_fold_inside *in = &out->inside;
    in->opening = again ? inside->inside.opening : inside->at.row;
    in->given = leat_new_array(n, sizeof *in->given);
    in->carry = leat_new_array(n, sizeof *in->carry);
    in->through = leat_new_array(n, sizeof *in->through);
    return (!first || (in->first = copy_sums(plan, first))) && in->given && in->carry && in->through &&
           leat_timeline_begin(plan, e->at, &in->row, in->given, in->carry, in->through);
}

uint32_t leat_log_foldable(const struct leat_plan *plan, uint32_t last, uint64_t epoch)
{
    const struct leat_position end = plan->log[plan->n_log - 1].at;
    while (last && plan->log[last].at.epoch >= epoch && has_rest(&plan->log[last]))
        last--;
    for (; plan->varies && last; last--) {
        const struct leat_position at = plan->log[last].at;
        if (leat_position_precedes(at, end) && (!at.row || at.row < leat_plan_epoch_rows(plan, at.epoch)))
            break;
    }
    return last;
}

int leat_log_fold(const struct leat_plan *plan, uint32_t last, struct leat_entry *out)
{
    const struct leat_entry *e = &plan->log[last];
    const char *facts = NULL;
    *out = (struct leat_entry){.kind = LEAT_ENTRY_FOLDED,
                               .at = e->at,
                               .global_batch = e->now.global_batch,
                               .world_size = e->now.world_size,
                               .tail = (int)e->now.tail};
    out->folded.steps = e->now.steps;
    out->folded.rests = has_rest(e);
    out->folded.hash = leat_plan_hash_until(plan, last);
    for (uint32_t i = 0; i <= last; i++) {
        const struct leat_entry *f = &plan->log[i];
        bool fold = f->kind == LEAT_ENTRY_FOLDED;
        out->folded.entries += fold ? f->folded.entries : i > 0;
        if (f->kind != LEAT_ENTRY_DECIDE && f->global_batch)
            out->folded.opened_batch = fold ? f->folded.opened_batch : f->global_batch;
        facts = f->facts ? f->facts : facts;
    }
    if (facts && !(out->facts = leat_strdup(facts)))
        return LEAT_E_NOMEM;
    if (plan->mixed && !fold_shares(plan, last, out)) {
        leat_entry_destroy(out);
        return LEAT_E_NOMEM;
    }
    if (e->now.list != plan->log->now.list)
        out->list = (struct leat_list *)e->now.list;
    return LEAT_OK;
}

void leat_log_fold_up_to(struct leat_plan *plan, uint32_t last)
{
    struct leat_entry fold;
    last = leat_log_foldable(plan, last, plan->rests ? plan->rests->epoch : UINT64_MAX);
    if (last < 2 || leat_log_fold(plan, last, &fold))
        return;
    for (uint32_t i = 1; i <= last; i++) {
        if (plan->log[i].list == fold.list)
            plan->log[i].list = NULL; /* the folded entry owns it now */
        leat_entry_destroy(&plan->log[i]);
    }
    plan->log[1] = fold;
    memmove(plan->log + 2, plan->log + last + 1, (plan->n_log - last - 1) * sizeof *plan->log);
    plan->n_log -= last - 1;
    const bool resolved = !leat_log_resolve(plan, plan->log, 0, plan->n_log, NULL);
    assert(resolved); /* the same entries were in force before */
    (void)resolved;
    if (plan->mixed)
        leat_timeline_forget(plan->timeline); /* later rows follow from the folded entry */
}

/* Moving the entries that stay takes time, so those that go must be a part of them. */
static void fold_old_entries(struct leat_plan *plan, struct leat_position done)
{
    if (plan->n_log <= FOLD_ABOVE || leat_plan_forgot(plan, done))
        return;
    const uint32_t past = (uint32_t)(leat_log_entry(plan, done) - plan->log) + 1;
    if (past > KEPT_ENTRIES + 1 && past - 1 - KEPT_ENTRIES >= plan->n_log / FOLD_PART)
        leat_log_fold_up_to(plan, past - 1 - KEPT_ENTRIES);
}

/* For a decision on rows within an epoch. */
static int check_rest(const struct leat_plan *plan, const struct leat_decision *d, struct leat_position at,
                      struct leat_error *error)
{
    const struct leat_entry *last = &plan->log[plan->n_log - 1];
    if (plan->sources->order == LEAT_ORDER_WEIGHTED && !d->positions)
        return leat_fail(error, LEAT_E_INVALID, "the draws of a weighted order begin with an epoch, and not within it");
    if (plan->sources->order == LEAT_ORDER_LIST)
        return leat_fail(error, LEAT_E_INVALID, "a new list holds from an epoch's start: row must be 0, not %llu",
                         (unsigned long long)at.row);
    if (last->now.rests_in == at.epoch + 1 && last->now.rests >= LEAT_PLAN_MAX_RESTS)
        return leat_fail(error, LEAT_E_RANGE,
                         "the rows of epoch %llu were decided %d times within it, as often as they may be",
                         (unsigned long long)at.epoch, LEAT_PLAN_MAX_RESTS);
    if (!leat_rest_has_room(plan, d->done.epoch, at.epoch))
        return leat_fail(
            error, LEAT_E_RANGE,
            "rows are decided within %d epochs that are not over, as many as may be: decide those of epoch "
            "%llu later",
            LEAT_PLAN_MAX_REST_EPOCHS, (unsigned long long)at.epoch);
    return LEAT_OK;
}

static int check_decision(const struct leat_plan *plan, const struct leat_decision *d, struct leat_position at,
                          struct leat_error *error)
{
    const struct leat_position last = plan->log[plan->n_log - 1].at;
    if (!d->global_batch && !d->shares && !d->positions && !d->unlisted)
        return leat_fail(error, LEAT_E_INVALID,
                         "a decision must change something: the global batch, the shares or the list of positions");
    if (leat_position_precedes(at, last))
        return leat_fail(error, LEAT_E_INVALID,
                         "a decision at epoch %llu row %llu lies before an earlier one at epoch %llu row %llu: they "
                         "are made in the order of what they decide, and a state from before that one goes back",
                         (unsigned long long)at.epoch, (unsigned long long)at.row, (unsigned long long)last.epoch,
                         (unsigned long long)last.row);
    if (at.epoch >> 63 || at.row > leat_plan_epoch_units(plan, at.epoch))
        return leat_fail(error, LEAT_E_RANGE, "a decision at row %llu of epoch %llu, which has %llu rows",
                         (unsigned long long)at.row, (unsigned long long)at.epoch,
                         (unsigned long long)leat_plan_epoch_units(plan, at.epoch));
    if (plan->mixed && !leat_plan_epoch_units(plan, at.epoch))
        return leat_fail(error, LEAT_E_RANGE, "epoch %llu lies too far ahead: no run gets there",
                         (unsigned long long)at.epoch);
    if (plan->mixed && !plan->varies && (unsigned __int128)at.epoch * plan->epoch_rows + at.row > plan->most_rows)
        return leat_fail(error, LEAT_E_RANGE, "epoch %llu lies beyond all rows that can be planned: no run gets there",
                         (unsigned long long)at.epoch);
    for (uint32_t k = 0; d->shares && k < plan->n_sources; k++)
        if (d->shares[k] > 0 && !plan->sources[k].rows)
            return leat_fail(error, LEAT_E_INVALID, "source %u is empty, and cannot have a share", k);
        else if (d->shares[k] > 0 && plan->fair && !leat_lengths_total(plan->sources[k].lengths))
            return leat_fail(error, LEAT_E_INVALID, "source %u has no tokens, and cannot have a share of them", k);
    if (d->shares && plan->n_sources < 2)
        return leat_fail(error, LEAT_E_INVALID, "this plan has one source: there are no shares to change");
    if ((d->positions || d->unlisted) && (plan->mixed || plan->sources->groups || plan->packed) &&
        (plan->mixed || plan->sources->order != LEAT_ORDER_LIST))
        return leat_fail(error, LEAT_E_INVALID,
                         "lists are of samples of one data set, not of a mixture, packed rows or batches by size");
    if (d->positions && d->selects && plan->sources->order == LEAT_ORDER_WEIGHTED)
        return leat_fail(error, LEAT_E_INVALID,
                         "a weighted order draws from all samples: decide rows, or make the weights 0");
    if (plan->n_log >= LEAT_PLAN_MAX_LOG)
        return leat_fail(error, LEAT_E_RANGE, "the log has %u entries, the most that it may have: decide less often",
                         plan->n_log);
    return (d->positions || d->unlisted) && at.row ? check_rest(plan, d, at, error) : LEAT_OK;
}

int leat_plan_decide(struct leat_plan *plan, const struct leat_decision *d, struct leat_error *error)
{
    struct leat_position at = d->at;
    struct leat_entry entry = {.kind = LEAT_ENTRY_DECIDE, .global_batch = d->global_batch, .tail = -1};
    struct leat_rest *rest = NULL;
    uint64_t rows = at.epoch >> 63 ? 0 : leat_plan_epoch_units(plan, at.epoch);
    if (rows && at.row == rows) /* after the last row is the next epoch's start */
        at = (struct leat_position){at.epoch + 1, 0};
    entry.at = at;
    int rc = check_decision(plan, d, at, error);
    if (rc)
        return rc;
    if (d->positions && (rc = leat_list_new(d->positions, d->n_positions, plan->sources->count, &entry.list, error)))
        return rc;
    if (entry.list)
        entry.list->selects = d->selects;
    entry.unlisted = d->unlisted && !d->positions;
    if (leat_entry_is_rest(&entry) && (rc = leat_rest_new(plan, at, entry.list, &rest, error)))
        goto out;
    if (d->shares) {
        entry.sums = leat_new_array(plan->n_sources + 1u, sizeof *entry.sums);
        if (!entry.sums) {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for %u shares", plan->n_sources);
            goto out;
        }
        rc = leat_shares_set(d->shares, plan->n_sources, entry.sums, error);
        if (rc)
            goto out;
    }
    if (!leat_grow(&plan->log, &plan->room, plan->n_log + (size_t)1, sizeof *plan->log)) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a log of %u entries", plan->n_log + 1u);
        goto out;
    }
    plan->log[plan->n_log] = entry;
    rc = leat_log_resolve(plan, plan->log, plan->n_log, plan->n_log + 1u, error);
    if (rc)
        goto out;
    plan->n_log++;
    if (rest)
        leat_rest_set(plan, rest);
    if (plan->mixed && d->shares)
        leat_timeline_cut(plan, at);
    if (entry.list || entry.unlisted) /* no other decision adds a list, and the walk is as long as the log */
        give_up_old_lists(plan, d->done);
    leat_rest_forget(plan, d->done.epoch);
    fold_old_entries(plan, d->done);
    return LEAT_OK;
out:
    leat_rest_free(rest);
    leat_entry_destroy(&entry);
    return rc;
}
