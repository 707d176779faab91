/* A reader of a port, and the calls that a loader has: open, close, epochs, states, and looking at it. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/interrupt.h"
#include "engine/loader.h"
#include "port/attached.h"
#include "port/folder.h"

/* ---- state ----------------------------------------------------------------------------------- */

static struct leat_reader_run run_of(const struct leat_attached *a)
{
    return (struct leat_reader_run){
        .kind = "attached",
        .fingerprint = a->fingerprint,
        .order = a->order,
        .not_one = "not a state of a reader of a port: give what its state_dict() gave, unchanged"};
}

static int state(struct leat_reader *r, char **json, struct leat_error *error)
{
    const struct leat_attached *a = leat_attached_of(r);
    int rc = leat_attached_check(a, error);
    if (rc)
        return rc;
    const bool within = leat_reader_is_reading(&a->reader) || a->reader.loaded;
    const uint64_t epoch = within ? a->reader.epoch : leat_reader_next_epoch(&a->reader),
                   step = within ? a->reader.step : 0;
    const struct leat_cut cut = leat_attached_cut(a, epoch);
    const uint64_t row = within ? cut.origin + (step - cut.first_step) * cut.global_batch : 0;
    const struct leat_reader_run run = run_of(a);
    const struct leat_state_number number = {"step", step};
    json_t *o = leat_reader_state(&run, (struct leat_position){epoch, row}, &number, 1);
    rc = o ? leat_own_save(a->own, o, epoch, row, error) : LEAT_OK;
    if (!rc)
        return leat_reader_text(o, json, error);
    json_decref(o);
    return rc;
}

static int load_object(struct leat_attached *a, const json_t *o, struct leat_error *error)
{
    const struct leat_reader_run run = run_of(a);
    struct leat_state_number number = {"step", 0};
    struct leat_position at = {0, 0};
    uint64_t rows = 0;
    if (json_object_get(o, "plan"))
        return leat_fail(error, LEAT_E_INVALID,
                         "this is the state of a leat.Loader, not of a reader of a port: load it into the loader that "
                         "the port is opened over, and readers begin there");
    int rc = leat_reader_read(&run, o, &at, &number, 1, error);
    const uint64_t epoch = at.epoch, row = at.row, step = number.value;
    rc = rc ? rc : leat_attached_rows(a, epoch, &rows, error);
    if (rc)
        return rc;
    if (row > rows || step > row)
        return leat_fail(error, LEAT_E_STATE, "the state has %" PRIu64 " rows of an epoch of %" PRIu64, row, rows);
    rc = leat_own_load(a->own, o, epoch, row, error);
    if (rc)
        return rc;
    if (a->own)
        leat_session_close(a); /* a line goes forward alone */
    const bool regular = row % a->cut.global_batch == 0;
    a->cut_epoch = epoch;
    a->cut.origin = regular ? 0 : row;
    a->cut.first_step = regular ? 0 : step;
    a->reader.epoch = row == rows ? epoch + 1 : epoch;
    a->reader.step = row == rows ? 0 : regular ? row / a->cut.global_batch : step;
    leat_reader_drop(&a->reader);
    leat_reader_load(&a->reader);
    return LEAT_OK;
}

static int load(struct leat_reader *r, const char *json, struct leat_error *error)
{
    struct leat_attached *a = leat_attached_of(r);
    int rc = leat_attached_check(a, error);
    if (rc)
        return rc;
    json_t *o = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    rc = load_object(a, o, error);
    json_decref(o);
    return rc;
}

/* ---- as a reader ------------------------------------------------------------------------------ */

static int lock(struct leat_reader *r, struct leat_error *error)
{
    return leat_attached_check(leat_attached_of(r), error);
}

static void unlock(struct leat_reader *r)
{
    (void)r; /* one thread at a time uses it */
}

static int start(struct leat_reader *r, struct leat_error *error)
{
    (void)error;
    leat_reader_drop(r);
    r->epoch = leat_reader_next_epoch(r);
    r->step = r->loaded ? r->step : 0;
    return LEAT_OK;
}

static void wake(struct leat_reader *r)
{
    (void)r; /* it waits in slices */
}

static int steps(struct leat_reader *r, uint64_t *out, struct leat_error *error)
{
    struct leat_attached *a = leat_attached_of(r);
    const uint64_t epoch = leat_reader_epoch(r);
    const struct leat_cut cut = leat_attached_cut(a, epoch);
    uint64_t rows = 0;
    int rc = leat_attached_check(a, error);
    rc = rc ? rc : leat_attached_rows(a, epoch, &rows, error);
    if (!rc)
        *out = leat_cut_steps(&cut, rows);
    return rc;
}

static const struct leat_reader_kind kind = {.name = "reader",
                                             .lock = lock,
                                             .unlock = unlock,
                                             .end = leat_attached_end,
                                             .take = leat_attached_take,
                                             .wait = leat_attached_wait,
                                             .start = start,
                                             .wake = wake,
                                             .steps = steps,
                                             .state = state,
                                             .load = load};

struct leat_consumer *leat_attached_consumer(struct leat_attached *a)
{
    return (struct leat_consumer *)(void *)&a->reader;
}

void leat_attached_interrupt(struct leat_attached *a)
{
    leat_consumer_interrupt(leat_attached_consumer(a));
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void given_back(struct leat_batch_pool *pool)
{
    (void)pool; /* nobody waits for its memory */
}

static void destroy(struct leat_batch_pool *pool)
{
    struct leat_attached *a = leat_attached_of_pool(pool);
    leat_batch_pool_clear(pool);
    leat_cut_free_spares(a);
    leat_program_free(a->program);
    leat_free(a->message);
    leat_free(a->name);
    leat_free(a->folder);
    leat_free(a->label);
    leat_free(a->outputs);
    leat_own_free(a->own);
    leat_free(a->about);
    leat_free(a);
}

static char *own_label(const char *given)
{
    char name[32] = "";
    if (given)
        return leat_strdup(given);
    FILE *f = fopen("/proc/self/comm", "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = 0;
    if (f)
        fclose(f);
    return leat_strdup(name);
}

static int take_options(struct leat_attached *a, const struct leat_attach_options *o, struct leat_error *error)
{
    if (!o->world_size || o->rank >= o->world_size)
        return leat_fail(error, LEAT_E_INVALID, "rank %" PRIu32 " of %" PRIu32 " does not exist: ranks count from 0",
                         o->rank, o->world_size);
    if (o->batch_size > LEAT_MAX_GLOBAL_BATCH / o->world_size)
        return leat_fail(error, LEAT_E_INVALID, "a batch of %" PRIu64 " rows is too large", o->batch_size);
    if (o->tail < LEAT_TAIL_PAD || o->tail > LEAT_TAIL_UNEVEN || o->lag < LEAT_LAG_RECOMPUTE || o->lag > LEAT_LAG_WAIT)
        return leat_fail(error, LEAT_E_INVALID, "tail must be pad, drop or uneven, and lag recompute or wait");
    if (o->key > INT64_MAX)
        return leat_fail(error, LEAT_E_INVALID, "key must be below 2^63, not %" PRIu64, o->key);
    char folder[LEAT_FOLDER_PATH];
    int rc = leat_folder_kept(o->folder, o->name, folder, error);
    if (rc)
        return rc;
    const bool named = leat_folder_is_named(o->folder);
    a->name = leat_strdup(o->name);
    a->folder = named ? leat_strdup(folder) : NULL;
    a->label = own_label(o->label);
    a->outputs = o->outputs ? leat_strdup(o->outputs) : NULL;
    a->key = o->key;
    a->message = leat_new(struct leat_message);
    a->batch_rows = o->batch_size;
    a->cut = (struct leat_cut){.rank = o->rank, .world_size = o->world_size, .tail = o->tail};
    a->lag = o->lag;
    a->writable = o->writable;
    a->patience_ms = o->patience_ms;
    return a->name && a->label && a->message && (!named || a->folder) && (!o->outputs || a->outputs)
               ? LEAT_OK
               : leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
}

int leat_attach(const struct leat_attach_options *given, struct leat_attached **out, struct leat_error *error)
{
    static const struct leat_attach_options defaults = LEAT_ATTACH_OPTIONS_INIT;
    struct leat_attach_options o = defaults;
    *out = NULL;
    if (!given || given->struct_size < sizeof(size_t))
        return leat_fail(error, LEAT_E_INVALID, "options must be given and begun with LEAT_ATTACH_OPTIONS_INIT");
    memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
    struct leat_own *own = NULL;
    int rc = leat_folder_check_name(o.name, error);
    if (!rc && o.samples && o.world_size != 1)
        rc = leat_fail(error, LEAT_E_INVALID,
                       "samples of one's own have an order of their own on each rank: give each rank its samples, and "
                       "world_size 1");
    if (!rc && o.samples)
        rc = leat_own_new(o.samples, o.n_samples, o.seed, &own, error);
    if (rc)
        return rc;
    struct leat_attached *a = leat_new(struct leat_attached);
    if (!a) {
        leat_own_free(own);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    }
    a->reader.kind = &kind;
    a->reader.pool = &a->pool;
    a->own = own;
    a->pool = (struct leat_batch_pool){.budget = &a->budget,
                                       .generation = leat_engine_generation(),
                                       .references = 1,
                                       .let_go = leat_cut_let_go,
                                       .given_back = given_back,
                                       .destroy = destroy};
    a->pool.region.fd = -1;
    a->budget.limit = a->budget.max_held = UINT64_MAX / 4;
    a->last = &a->first;
    rc = take_options(a, &o, error);
    rc = rc ? rc : leat_session_open(a, true, error);
    if (!rc) {
        a->pool.program = a->program;
        a->pool.n_outputs = leat_program_outputs(a->program);
        a->pool.live = leat_new_array(a->pool.n_outputs + 1, sizeof *a->pool.live);
        rc = a->pool.live ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for a consumer");
    }
    if (rc) {
        leat_attached_close(a);
        return rc;
    }
    if (!a->batch_rows)
        a->batch_rows = a->port_cut.global_batch > o.world_size ? a->port_cut.global_batch / o.world_size : 1;
    a->cut.global_batch = a->batch_rows * o.world_size;
    if (own) /* its epochs are its own */
        a->others = (struct leat_position){0, 0};
    a->reader.epoch = a->others.epoch;
    a->reader.step = o.beginning ? 0 : a->others.row / a->cut.global_batch;
    a->reader.loaded = true;
    *out = a;
    return LEAT_OK;
}

void leat_attached_close(struct leat_attached *a)
{
    if (!a || !leat_batch_pool_is_ours(&a->pool))
        return;
    leat_reader_drop(&a->reader);
    leat_session_close(a);
    leat_engine_lock();
    leat_batch_pool_unref_unlock(&a->pool);
}

/* ---- looking --------------------------------------------------------------------------------- */

const char *leat_attached_about(const struct leat_attached *a)
{
    return a->about;
}

static int no_step(struct leat_attached *a, uint64_t epoch, uint64_t step, int rc, struct leat_error *error)
{
    return rc == LEAT_E_END
               ? leat_fail(error, LEAT_E_RANGE, "epoch %" PRIu64 " has no step %" PRIu64 " for rank %" PRIu32, epoch,
                           step, a->cut.rank)
               : rc;
}

/* For samples of its own only the running or next epoch has an order. */
static int ready(struct leat_attached *a, uint64_t epoch, struct leat_error *error)
{
    int rc = leat_attached_check(a, error);
    if (rc || !a->own)
        return rc;
    return epoch == leat_reader_epoch(&a->reader)
               ? leat_own_order(a, epoch, error)
               : leat_fail(error, LEAT_E_RANGE,
                           "of samples of one's own an epoch's order is drawn as it begins: epoch %" PRIu64
                           " is not at hand",
                           epoch);
}

int leat_attached_plan(struct leat_attached *a, uint64_t epoch, uint64_t step, int64_t **ids, uint64_t *n,
                       struct leat_error *error)
{
    struct leat_plan_batch plan;
    *ids = NULL;
    *n = 0;
    int rc = ready(a, epoch, error);
    rc = rc ? rc : no_step(a, epoch, step, leat_attached_plan_batch(a, epoch, step, &plan, error), error);
    if (rc)
        return rc;
    int64_t *list = leat_new_array(plan.rows, sizeof *list);
    rc = list ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for %" PRIu64 " rows", plan.rows);
    rc = rc ? rc : leat_attached_ids(a, leat_attached_ask, leat_attached_ask_batch(&plan), list, error);
    if (rc) {
        leat_free(list);
        return rc;
    }
    *ids = list;
    *n = plan.rows;
    return LEAT_OK;
}

int leat_attached_batch_at(struct leat_attached *a, uint64_t epoch, uint64_t step, struct leat_batch **out,
                           struct leat_error *error)
{
    struct leat_plan_batch plan;
    *out = NULL;
    int rc = ready(a, epoch, error);
    rc = rc ? rc : no_step(a, epoch, step, leat_attached_plan_batch(a, epoch, step, &plan, error), error);
    return rc ? rc : leat_attached_make(a, &plan, out, error);
}

int leat_attached_stats(const struct leat_attached *a, char **json, struct leat_error *error)
{
    *json = NULL;
    int rc = leat_attached_check(a, error);
    if (rc)
        return rc;
    leat_engine_lock();
    const uint64_t held = a->session ? a->session->out : 0;
    leat_engine_unlock();
    json_t *o = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "port", a->name, "attached",
                          (int)(a->session != NULL), "batches", (json_int_t)a->batches, "samples",
                          (json_int_t)a->samples, "bytes", (json_int_t)a->bytes, "copied", (json_int_t)a->copied,
                          "made", (json_int_t)a->made, "waits", (json_int_t)a->waits, "wait_s",
                          (double)a->wait_ns / 1e9, "held", (json_int_t)held, "reconnects", (json_int_t)a->reconnects);
    return leat_reader_text(o, json, error);
}
