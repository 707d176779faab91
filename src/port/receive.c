/* The way a reader of a port gets its batches: its requests to the port, and putting the next batch together from the
 * port's loans. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/loader.h"
#include "io/interrupt.h"
#include "port/attached.h"

#define SLICE_NS INT64_C(50000000)
#define MOST_PARTS 64

int leat_attached_check(const struct leat_attached *a, struct leat_error *error)
{
    return leat_batch_pool_is_ours(&a->pool)
               ? LEAT_OK
               : leat_fail(error, LEAT_E_FORKED,
                           "this reader of a port belongs to the process that attached; attach in "
                           "the child");
}

/* ---- asking, whatever becomes of the port ---------------------------------------------------- */

int leat_attached_reopen(struct leat_attached *a, struct leat_error *error)
{
    int rc = leat_session_open(a, false, error);
    return rc == LEAT_E_NOT_FOUND
               ? leat_fail(error, LEAT_E_CLOSED, "port \"%s\" has ended, and none has come in its place", a->name)
               : rc;
}

int leat_attached_ask(struct leat_attached *a, enum leat_message_type type, const void *body, size_t bytes,
                      struct leat_error *error)
{
    for (int tries = 0;; tries++) {
        int rc = a->session ? leat_session_ask(a, type, body, bytes, error) : LEAT_E_CLOSED;
        if (rc != LEAT_E_CLOSED || tries == 3)
            return rc;
        leat_session_close(a);
        rc = leat_attached_reopen(a, error);
        if (rc)
            return rc;
    }
}

int leat_attached_rows(struct leat_attached *a, uint64_t epoch, uint64_t *rows, struct leat_error *error)
{
    if (a->known_rows && a->known_epoch == epoch) {
        *rows = a->known_rows;
        return LEAT_OK;
    }
    const struct leat_ask_rows what = {epoch};
    struct leat_reply_rows reply = {a->own ? a->own->n : 0};
    int rc = a->own ? LEAT_OK : leat_attached_ask(a, LEAT_MESSAGE_ROWS, &what, sizeof what, error);
    if (rc)
        return rc;
    const void *body = a->own ? &reply : leat_message_body(a->message, sizeof reply);
    if (!body)
        return leat_fail(error, LEAT_E_FORMAT, "the port does not answer with rows");
    memmove(&reply, body, sizeof reply);
    *rows = reply.rows;
    if (epoch == a->reader.epoch || !a->known_rows) {
        a->known_epoch = epoch;
        a->known_rows = reply.rows;
    }
    return LEAT_OK;
}

struct leat_cut leat_attached_cut(const struct leat_attached *a, uint64_t epoch)
{
    struct leat_cut cut = a->cut;
    if (epoch != a->cut_epoch)
        cut.origin = cut.first_step = 0;
    return cut;
}

int leat_attached_plan_batch(struct leat_attached *a, uint64_t epoch, uint64_t step, struct leat_plan_batch *plan,
                             struct leat_error *error)
{
    uint64_t rows = 0;
    const struct leat_cut cut = leat_attached_cut(a, epoch);
    int rc = leat_attached_rows(a, epoch, &rows, error);
    if (rc)
        return rc;
    if (leat_cut_batch(&cut, epoch, rows, step, plan) || !plan->rows)
        return leat_fail(error, LEAT_E_END, "epoch %" PRIu64 " has no step %" PRIu64 " for this rank", epoch, step);
    return LEAT_OK;
}

struct leat_ask_batch leat_attached_ask_batch(const struct leat_plan_batch *plan)
{
    return (struct leat_ask_batch){.epoch = plan->epoch,
                                   .step = plan->step,
                                   .at_row = plan->at.row,
                                   .global_rows = plan->global_rows,
                                   .begin = plan->begin,
                                   .rows = plan->rows};
}

int leat_attached_ids(struct leat_attached *a,
                      int (*ask)(struct leat_attached *, enum leat_message_type, const void *, size_t,
                                 struct leat_error *),
                      struct leat_ask_batch what, int64_t *ids, struct leat_error *error)
{
    int rc = LEAT_OK;
    for (; !rc && what.first < what.rows; what.first += what.n) {
        what.n = what.rows - what.first < LEAT_MOST_IDS ? what.rows - what.first : LEAT_MOST_IDS;
        rc = ask(a, LEAT_MESSAGE_IDS, &what, sizeof what, error);
        const void *body = rc ? NULL : leat_message_body(a->message, what.n * sizeof *ids);
        if (!rc && !body)
            rc = leat_fail(error, LEAT_E_FORMAT, "the port does not answer with ids");
        if (!rc)
            memcpy(ids + what.first, body, what.n * sizeof *ids);
    }
    return rc;
}

static struct leat_excerpt excerpt_of(const struct leat_lent *lent, uint64_t first, uint64_t n)
{
    return (struct leat_excerpt){.plan = lent->batch->plan, .first = first, .n = n, .batch = lent->batch};
}

int leat_attached_make(struct leat_attached *a, const struct leat_plan_batch *plan, struct leat_batch **out,
                       struct leat_error *error)
{
    const struct leat_ask_batch what = leat_attached_ask_batch(plan);
    struct leat_lent *lent;
    int rc = leat_attached_ask(a, LEAT_MESSAGE_MAKE, &what, sizeof what, error);
    rc = rc ? rc : leat_session_made(a, &lent, error);
    if (rc)
        return rc;
    const struct leat_batch *made = lent->batch;
    const struct leat_excerpt all = excerpt_of(lent, 0, made->plan.rows);
    if (all.n != plan->rows || made->state == LEAT_BATCH_FAILED || made->plan.epoch != plan->epoch ||
        made->plan.begin != plan->begin)
        rc = leat_fail(error, LEAT_E_FORMAT, "the port has made another batch than it was asked for");
    rc = rc ? rc : leat_cut_out(a, plan, &all, 1, lent, out, error);
    leat_engine_lock();
    leat_lent_unref(lent);
    leat_engine_unlock();
    a->made += !rc;
    return rc;
}

/* ---- the next batch -------------------------------------------------------------------------- */

static bool precedes_rows(const struct leat_lent *lent, struct leat_position at)
{
    const struct leat_plan_batch *p = &lent->batch->plan;
    return p->epoch < at.epoch || (p->epoch == at.epoch && p->begin + p->rows <= at.row);
}

/* The port gives rows from a row on. */
static int seek(struct leat_attached *a, struct leat_position at, struct leat_error *error)
{
    while (a->first)
        leat_session_drop_first(a);
    struct leat_ask_seek what = {.epoch = at.epoch, .row = at.row, .stream = ++a->stream};
    a->streams = false;
    int rc = leat_attached_ask(a, LEAT_MESSAGE_SEEK, &what, sizeof what, error);
    if (rc)
        return rc;
    a->streams = true;
    a->expected = at;
    return LEAT_OK;
}

/* Whether the port's batches will come to `at` soon. */
static bool will_come(const struct leat_attached *a, struct leat_position at)
{
    if (!a->session || !a->streams || leat_position_precedes(at, a->expected))
        return false;
    const uint64_t far = 64 * a->port_cut.global_batch;
    return at.epoch == a->expected.epoch
               ? at.row - a->expected.row <= far
               : at.epoch == a->expected.epoch + 1 && at.row <= far && a->known_rows - a->expected.row <= far;
}

/* The rows of lent batches that a batch is made of. */
struct parts {
    struct leat_excerpt at[MOST_PARTS];
    size_t n;
    struct leat_lent *last;
    bool failed; /* one has none */
};

/* The lent batches that have rows [begin, begin + rows), as far as they are there. PENDING: not all are. */
static int find_parts(struct leat_attached *a, const struct leat_plan_batch *plan, struct parts *parts,
                      struct leat_error *error)
{
    const uint64_t end = plan->begin + plan->rows;
    const struct leat_position from = {plan->epoch, plan->begin};
    while (a->first && precedes_rows(a->first, from))
        leat_session_drop_first(a);
    parts->n = 0;
    parts->failed = false;
    uint64_t row = plan->begin;
    for (struct leat_lent *lent = a->first;; lent = lent->next) {
        if (!lent)
            return LEAT_IO_PENDING;
        const struct leat_plan_batch *its = &lent->batch->plan;
        if (its->epoch != plan->epoch || its->begin > row) { /* not the next one: it was given from elsewhere */
            a->streams = false;
            return LEAT_IO_PENDING;
        }
        const uint64_t its_end = its->begin + its->rows, stop = its_end < end ? its_end : end;
        if (stop <= row)
            continue;
        if (parts->n == MOST_PARTS)
            return leat_fail(error, LEAT_E_BUDGET,
                             "a batch of %" PRIu64 " rows is put together from more than %d of the "
                             "port's",
                             plan->rows, MOST_PARTS);
        parts->at[parts->n++] = excerpt_of(lent, row - its->begin, stop - row);
        parts->last = lent;
        parts->failed |= lent->batch->state == LEAT_BATCH_FAILED;
        row = stop;
        if (row == end)
            return LEAT_OK;
    }
}

/* All parts, as far as they are there. PENDING: the port was asked for the others, or is making them. */
static int gather(struct leat_attached *a, const struct leat_plan_batch *plan, struct parts *parts,
                  struct leat_error *error)
{
    const struct leat_position from = {plan->epoch, plan->begin};
    int rc;
    while ((rc = find_parts(a, plan, parts, error)) == LEAT_IO_PENDING) {
        if (!a->first && !will_come(a, from))
            a->streams = false;
        if (!a->streams || !a->session) {
            rc = seek(a, from, error);
            return rc ? rc : LEAT_IO_PENDING;
        }
        rc = leat_session_take(a, error);
        if (rc)
            return rc;
    }
    return rc;
}

int leat_attached_wait(struct leat_reader *r, struct leat_request *q, struct leat_error *error)
{
    struct leat_attached *a = leat_attached_of(r);
    const int64_t begun = leat_clock_ns(), left = q->deadline_ns - begun;
    if (left <= 0)
        return leat_reader_late(error);
    if (leat_io_interrupted())
        return leat_fail(error, LEAT_E_CANCELLED, "interrupted");
    int rc = leat_session_wait(a, left < SLICE_NS ? left : SLICE_NS, error);
    if (!rc && atomic_load(&a->session->channel->n_given) == a->session->taken && leat_session_check(a, error))
        leat_session_close(a); /* it has ended: the next seek looks for another */
    a->waits += !q->waited;
    q->waited = true;
    a->wait_ns += leat_clock_ns() - begun;
    return rc;
}

/* Whether a batch is made for this reader alone. A port of one rank of several has the rows of that rank only.
 * Operators that see batches as a whole must have seen this one, which the port has made if its own are of the same
 * sizes. */
static bool must_make(const struct leat_attached *a, const struct leat_plan_batch *plan)
{
    const struct leat_cut *cut = &a->port_cut;
    struct leat_plan_batch its;
    if (plan->begin + plan->rows > plan->at.row + plan->global_rows) /* padding */
        return true;
    if (!a->whole && cut->world_size == 1)
        return false;
    if (leat_cut_batch(cut, plan->epoch, a->known_rows, plan->begin / cut->global_batch, &its))
        return true;
    if (a->whole)
        return its.at.row != plan->at.row || its.global_rows != plan->global_rows || its.begin != plan->begin ||
               its.rows != plan->rows;
    return plan->begin < its.begin || plan->begin + plan->rows > its.begin + its.rows;
}

static int next_batch(struct leat_attached *a, const struct leat_plan_batch *plan, struct leat_batch **out,
                      struct leat_error *error)
{
    struct parts parts;
    if (must_make(a, plan))
        return leat_attached_make(a, plan, out, error);
    int rc = gather(a, plan, &parts, error);
    if (rc)
        return rc;
    bool failed =
        parts.failed || (a->whole && (parts.n != 1 || parts.at->first || parts.at->n != parts.at->batch->plan.rows));
    if (!failed)
        rc = leat_cut_out(a, plan, parts.at, parts.n, parts.last, out, error);
    if (!failed && !rc && !leat_batch_rows(*out)) { /* all were left out: a loader raises the first error */
        leat_batch_free(*out);
        *out = NULL;
        failed = true;
    }
    if (failed)
        return leat_attached_make(a, plan, out, error);
    a->copied += parts.n > 1 && !rc ? leat_batch_rows(*out) : 0;
    return rc;
}

/* Moves to the next step; batches behind it go back to the port. */
static void advance(struct leat_attached *a, const struct leat_plan_batch *plan, uint64_t rows)
{
    struct leat_plan_batch next;
    struct leat_reader *r = &a->reader;
    const struct leat_cut cut = leat_attached_cut(a, r->epoch);
    r->step++;
    r->ended = plan->last || leat_cut_batch(&cut, r->epoch, rows, r->step, &next) || !next.rows;
    a->taken = r->ended ? (struct leat_position){r->epoch + 1, 0} : (struct leat_position){r->epoch, next.begin};
    while (a->first && precedes_rows(a->first, a->taken))
        leat_session_drop_first(a);
}

int leat_attached_take(struct leat_reader *r, struct leat_request *q, struct leat_batch **out, struct leat_error *error)
{
    struct leat_attached *a = leat_attached_of(r);
    struct leat_plan_batch plan;
    (void)q;
    int rc = a->own ? leat_own_order(a, r->epoch, error) : LEAT_OK;
    rc = rc ? rc : leat_attached_plan_batch(a, r->epoch, r->step, &plan, error);
    const uint64_t rows = a->known_rows; /* of this epoch; forgotten if the port ends meanwhile */
    rc = rc ? rc : next_batch(a, &plan, out, error);
    if (!rc)
        advance(a, &plan, rows);
    return rc;
}

void leat_attached_end(struct leat_reader *r, const struct leat_request *q, const struct leat_batch *batch, int rc,
                       struct leat_error *error)
{
    struct leat_attached *a = leat_attached_of(r);
    (void)rc, (void)error;
    if (!batch || q->peek)
        return;
    a->batches++;
    a->samples += batch->rows;
    a->bytes += leat_batch_tensor_bytes(batch);
    if (!a->session)
        return;
    struct leat_channel *c = a->session->channel;
    leat_engine_lock();
    const uint32_t out = a->session->out;
    leat_engine_unlock();
    atomic_store_explicit(&c->epoch, a->taken.epoch, memory_order_relaxed);
    atomic_store_explicit(&c->row, a->taken.row, memory_order_relaxed);
    atomic_store_explicit(&c->batches, a->batches, memory_order_relaxed);
    atomic_store_explicit(&c->samples, a->samples, memory_order_relaxed);
    atomic_store_explicit(&c->bytes, a->bytes, memory_order_relaxed);
    atomic_store_explicit(&c->held, out, memory_order_relaxed);
}
