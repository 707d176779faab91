/*
 * A loader's reports on itself: statistics as JSON, and the report of broken samples, one JSON object per line, each
 * written with one write(2) to a file opened for appending, so that several loaders may share it.
 */
#include "engine/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/loader.h"
#include "io/blocks.h"

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *seconds(int64_t ns)
{
    return json_real((double)ns * 1e-9);
}

/* JSON text is UTF-8; paths and decoders' words need not be. */
static json_t *words(const char *text)
{
    json_t *string = json_string(text);
    char *copy = string ? NULL : leat_strdup(text);
    for (char *c = copy; c && *c; c++)
        if (*c & 0x80)
            *c = '?';
    if (copy)
        string = json_string(copy);
    leat_free(copy);
    return string;
}

static double rate(uint64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

struct step_sum {
    struct leat_step_time times[LEAT_MAX_STEPS];
    size_t n;
};

static void add_times(struct step_sum *sum, const struct leat_step_time *times, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < sum->n &&
               (strcmp(sum->times[k].output, times[i].output) || strcmp(sum->times[k].step, times[i].step)))
            k++;
        if (k == LEAT_MAX_STEPS)
            return;
        if (k == sum->n) {
            sum->times[sum->n++] = times[i];
        } else {
            sum->times[k].ns += times[i].ns;
            sum->times[k].rows += times[i].rows;
        }
    }
}

/* Scratches at rest are asked; of those at work the last snapshot counts. */
static json_t *operators(const struct leat_loader *l)
{
    struct step_sum sum = {.n = 0};
    for (const struct leat_work *w = l->tasks.all_work; w; w = w->all) {
        struct leat_step_time times[LEAT_MAX_STEPS];
        bool rests = false;
        for (const struct leat_work *f = l->tasks.free_work; f; f = f->next)
            rests |= f == w;
        if (rests)
            add_times(&sum, times, leat_scratch_times(w->scratch, times, LEAT_MAX_STEPS));
        else
            add_times(&sum, w->times, w->n_times);
    }
    json_t *list = json_array();
    for (size_t i = 0; i < sum.n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "output", sum.times[i].output, "step",
                                              sum.times[i].step, "s", seconds((int64_t)sum.times[i].ns), "rows",
                                              number(sum.times[i].rows)));
    return list;
}

static json_t *totals(const struct leat_loader *l, int64_t now)
{
    const struct leat_counters *c = &l->count;
    int64_t open_ns = now - l->pace.opened_ns,
            recent_ns = now - (l->pace.recent_ns[0] ? l->pace.recent_ns[0] : l->pace.opened_ns);
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:o}", "samples", number(c->samples), "batches",
                     number(c->batches), "bytes", number(c->bytes), "samples_per_s", rate(c->samples, open_ns),
                     "bytes_per_s", rate(c->bytes, open_ns), "recent_samples_per_s",
                     rate(l->pace.recent_samples[0] + l->pace.recent_samples[1], recent_ns), "recent_bytes_per_s",
                     rate(l->pace.recent_bytes[0] + l->pace.recent_bytes[1], recent_ns), "open_s", seconds(open_ns));
}

static void add_running(json_t *root, const struct leat_loader *l)
{
    const struct leat_counters *c = &l->count;
    json_object_set_new(root, "operators", operators(l));
    json_object_set_new(root, "fetch",
                        json_pack("{s:o, s:o, s:o}", "s", seconds(c->fetch_ns), "values", number(c->fetches), "bytes",
                                  number(c->fetched_bytes)));
    json_object_set_new(root, "native_s", seconds(c->native_ns));
    size_t ready = 0;
    for (size_t i = 0; i < l->window.n; i++)
        ready += leat_window_at(&l->window, i)->state == LEAT_BATCH_READY;
    json_object_set_new(root, "window",
                        json_pack("{s:o, s:o, s:o}", "depth", number(l->window.n), "ready", number(ready), "capacity",
                                  number(leat_window_room(l))));
    json_object_set_new(root, "consumer_wait_s", seconds(c->wait_ns));
    json_object_set_new(root, "consumer_help_s", seconds(c->help_ns));
    json_object_set_new(root, "consumer_waits", number(c->waits));
    json_object_set_new(root, "reused_rows", number(c->reused));
    json_object_set_new(root, "tasks",
                        json_pack("{s:o, s:o, s:i, s:i}", "done", number(c->tasks), "helped", number(c->helped_tasks),
                                  "running", (int)l->tasks.running, "parked", (int)l->tasks.parked));
    json_object_set_new(root, "threads", number(l->client.max_threads));
}

static void add_memory(json_t *root, const struct leat_loader *l)
{
    uint64_t tasks = leat_budget_tasks(&l->budget), held = leat_batch_pool_held_batches(&l->pool);
    json_object_set_new(root, "memory",
                        json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "in_use_bytes",
                                  number(l->budget.used[LEAT_IN_FLIGHT] + l->budget.fixed + tasks), "budget_bytes",
                                  number(l->budget.limit), "held_bytes", number(l->budget.used[LEAT_HELD]),
                                  "max_held_bytes", number(l->budget.max_held), "held_batches", number(held), "region",
                                  l->pool.region.kind->name));
}

static void add_decoded(json_t *root, const struct leat_loader *l)
{
    struct leat_decoded *decoded = atomic_load_explicit(&l->decoded, memory_order_relaxed);
    struct leat_decoded_counts counts;
    if (!decoded)
        return;
    leat_decoded_count(decoded, &counts);
    json_object_set_new(root, "decoded",
                        json_pack("{s:o, s:o, s:o}", "hits", number(counts.hits), "fills", number(counts.fills),
                                  "bytes", number(counts.bytes)));
}

static json_t *warnings(const struct leat_counters *c)
{
    json_t *root = json_object();
    for (unsigned i = 0; c->warning_names && c->warning_names[i]; i++)
        if (c->warned[i])
            json_object_set_new(root, c->warning_names[i], number(c->warned[i]));
    return root;
}

int leat_loader_stats(const struct leat_loader *l, char **out, struct leat_error *error)
{
    *out = NULL;
    if (!leat_batch_pool_is_ours(&l->pool))
        return leat_fail(error, LEAT_E_FORKED, "this loader belongs to the process that opened it");
    uint64_t cached, filled;
    leat_blocks_stats(&cached, &filled); /* a fork takes its lock before the engine's */
    leat_engine_lock();
    json_t *root = totals(l, leat_clock_ns());
    if (root) {
        add_running(root, l);
        add_memory(root, l);
        add_decoded(root, l);
        json_object_set_new(root, "cache", json_pack("{s:o, s:o}", "bytes", number(cached), "blocks", number(filled)));
        json_object_set_new(root, "broken",
                            json_pack("{s:o, s:o, s:o}", "skipped", number(l->count.skipped), "substituted",
                                      number(l->count.substituted), "raised", number(l->count.raised)));
        json_object_set_new(root, "warnings", warnings(&l->count));
        if (l->unordered)
            json_object_set_new(root, "unordered",
                                json_pack("{s:o, s:o}", "gathered_batches", number(l->count.gathered), "copied_rows",
                                          number(l->count.copied)));
        json_t *others = json_array();
        for (const struct leat_consumer *c = l->consumer.next; c; c = c->next)
            json_array_append_new(others,
                                  json_pack("{s:o, s:o, s:o, s:o, s:o}", "batch_size", number(c->batch_rows), "epoch",
                                            number(c->reader.epoch), "rows", number(c->rows), "copied_rows",
                                            number(c->copied), "remade_rows", number(c->remade)));
        json_object_set_new(root, "consumers", others);
        json_object_set_new(root, "epoch", number(l->consumer.at.epoch));
        json_object_set_new(root, "row", number(l->consumer.at.row));
        json_object_set_new(root, "step", number(l->consumer.reader.step));
        char hash[17];
        uint64_t parts[3] = {leat_hash64(l->fingerprint, sizeof l->fingerprint), leat_program_hash(l->program),
                             leat_plan_hash(l->plan)};
        snprintf(hash, sizeof hash, "%016" PRIx64, leat_hash64(parts, sizeof parts)); /* the values that all ranks must
                                                                                       * agree on */
        json_object_set_new(root, "plan_hash", json_string(hash));
    }
    leat_engine_unlock();
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    *out = text ? leat_strdup(text) : NULL;
    free(text);
    return *out ? LEAT_OK : leat_fail(error, LEAT_E_NOMEM, "no memory for statistics");
}

/* ---- the report ------------------------------------------------------------------------------ */

static void write_line(int fd, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (text) {
        size_t n = strlen(text);
        text[n] = '\n';                                 /* in the place of the terminator: one write, one line */
        if (write(fd, text, n + 1) != (ssize_t)(n + 1)) /* the report is a by-product: the batch itself says the same */
            leat_log(LEAT_LOG_WARNING, "a line of the error report could not be written (%s%s): %.*s", strerror(errno),
                     leat_if_full(errno), (int)n, text);
    }
    free(text);
    json_decref(object);
}

void leat_report_broken(struct leat_loader *l, const struct leat_batch *b)
{
    const bool planned = !l->delivery->numbers_rows;
    for (size_t i = 0; l->report.fd >= 0 && i < b->faults.n_broken; i++) {
        const struct leat_broken_row *row = &b->faults.broken[i];
        if (row->told)
            continue;
        write_line(l->report.fd,
                   json_pack("{s:o, s:o, s:o, s:I, s:o, s:s, s:o}", "epoch", number(b->plan.epoch), "step",
                             number(planned ? row->step : b->plan.step), "row",
                             number(planned ? row->planned_row : row->row), "planned", (json_int_t)row->planned,
                             "delivered", row->delivered < 0 ? json_null() : json_integer(row->delivered), "code",
                             leat_status_name(row->code), "reason", words(row->reason)));
    }
}

void leat_report_raised(struct leat_loader *l, uint64_t epoch, uint64_t step, const struct leat_error *e)
{
    if (l->report.fd < 0)
        return;
    write_line(l->report.fd, json_pack("{s:o, s:o, s:I, s:s, s:o, s:o}", "epoch", number(epoch), "step", number(step),
                                       "planned", (json_int_t)e->sample, "code", leat_status_name(e->code), "file",
                                       *e->file ? words(e->file) : json_null(), "reason", words(e->message)));
}
