/*
 * The record: the rows that were handed out together, if the order is not kept. One file per epoch and rank in a folder
 * of the run's, of JSON lines, so that anyone can read it:
 *
 *     unordered-000003-0-of-2.jsonl
 *         {"record": 1, "fingerprint": "..", "seed": "7", "rank": 0, "world_size": 2}
 *         {"epoch": 3, "step": 0, "rows": [[0, 120], [121, 8]]}        runs of rows by number: first, how many
 *
 * A line is written with one write(2) before its batch reaches the consumer. Lines that are not whole, as a crash
 * leaves them, count for nothing; of two lines for one step the later one holds. Entries are looked up while batches
 * are planned, under the engine's lock, so they stay in memory: those of the epoch that runs and the next.
 */
#include "engine/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/search.h"
#include "base/transfer.h"
#include "engine/loader.h"

#define KEPT_EPOCHS 2
#define RECORD_VERSION 1

struct run {
    uint64_t begin, n;
};

struct step {
    uint64_t step, rows;
    size_t first, n, line; /* its runs; later lines come before earlier ones */
};

/* The contents of a file. */
struct pages {
    uint64_t epoch;
    bool known;
    struct step *steps; /* rising */
    struct run *runs;
    size_t n_steps, n_runs, steps_room, runs_room;
};

struct leat_record {
    pthread_mutex_t lock;
    char *folder;
    char fingerprint[33], seed[24];
    uint32_t rank, world_size;
    struct pages pages[KEPT_EPOCHS];
    unsigned turn;
    uint64_t epoch; /* that is written */
    int fd;
    bool warned;
};

/* ---- reading --------------------------------------------------------------------------------- */

static void empty(struct pages *p)
{
    leat_free(p->steps);
    leat_free(p->runs);
    *p = (struct pages){.epoch = p->epoch};
}

/* One line of a batch. False: memory is out. A line that says nothing of this epoch is passed over. */
static bool add_line(struct pages *p, const json_t *line, size_t ordinal)
{
    const json_t *rows = json_object_get(line, "rows");
    struct step s = {.first = p->n_runs, .line = ordinal};
    uint64_t epoch, end = 0;
    if (!leat_json_number(json_object_get(line, "epoch"), INT64_MAX, &epoch) || epoch != p->epoch ||
        !leat_json_number(json_object_get(line, "step"), INT64_MAX, &s.step) || !json_is_array(rows))
        return true;
    for (; s.n < json_array_size(rows); s.n++) {
        const json_t *pair = json_array_get(rows, s.n);
        struct run run;
        if (!leat_json_number(json_array_get(pair, 0), INT64_MAX, &run.begin) ||
            !leat_json_number(json_array_get(pair, 1), INT64_MAX, &run.n) || !run.n || run.begin < end ||
            !leat_add_u64(run.begin, run.n, &end)) {
            p->n_runs = s.first;
            return true;
        }
        if (!leat_grow(&p->runs, &p->runs_room, p->n_runs + 1, sizeof *p->runs))
            return false;
        p->runs[p->n_runs++] = run;
        s.rows += run.n;
    }
    if (!leat_grow(&p->steps, &p->steps_room, p->n_steps + 1, sizeof *p->steps))
        return false;
    p->steps[p->n_steps++] = s;
    return true;
}

static int by_step(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->line > y->line ? -1 : x->line < y->line;
}

static void sort_steps(struct pages *p)
{
    size_t n = 0;
    if (p->n_steps)
        qsort(p->steps, p->n_steps, sizeof *p->steps, by_step);
    for (size_t i = 0; i < p->n_steps; i++)
        if (!n || p->steps[n - 1].step != p->steps[i].step)
            p->steps[n++] = p->steps[i];
    p->n_steps = n;
}

static void path_of(const struct leat_record *r, uint64_t epoch, char *path, size_t room)
{
    snprintf(path, room, "%s/unordered-%06" PRIu64 "-%" PRIu32 "-of-%" PRIu32 ".jsonl", r->folder, epoch, r->rank,
             r->world_size);
}

/* The whole file as text, NULL if there is none. */
static int read_file(const char *path, char **out, struct leat_error *error)
{
    *out = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = LEAT_OK;
    if (fd < 0 && errno == ENOENT)
        return LEAT_OK;
    if (fd < 0 || fstat(fd, &st)) {
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot read the record of batches");
        goto out;
    }
    char *text = leat_alloc((size_t)st.st_size + 1);
    if (!text) {
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the record of batches");
        goto out;
    }
    const uint64_t n = leat_read_at(fd, text, (uint64_t)st.st_size, 0);
    if (n < (uint64_t)st.st_size && errno) {
        rc = leat_fail_errno(error, LEAT_E_IO, "cannot read the record of batches");
        leat_free(text);
        goto out;
    }
    text[n] = '\0';
    *out = text;
out:
    if (rc)
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* The head of a file must be this run's. */
static int check_head(const struct leat_record *r, const json_t *line, const char *path, struct leat_error *error)
{
    const char *print = json_string_value(json_object_get(line, "fingerprint")),
               *seed = json_string_value(json_object_get(line, "seed"));
    uint64_t version;
    int rc = LEAT_OK;
    if (!leat_json_number(json_object_get(line, "record"), INT64_MAX, &version) || version != RECORD_VERSION)
        rc = leat_fail(
            error, LEAT_E_STATE,
            "the record of batches in log_dir has a version that this leat does not know: give another folder");
    else if (!print || !seed || strcmp(print, r->fingerprint) || strcmp(seed, r->seed))
        rc = leat_fail(error, LEAT_E_STATE,
                       "log_dir holds the record of another run, of data set %.32s with seed %.20s: give each run a "
                       "folder of its own",
                       print ? print : "?", seed ? seed : "?");
    if (rc)
        leat_error_at_file(error, path, LEAT_NO_OFFSET);
    return rc;
}

static int parse(const struct leat_record *r, char *text, const char *path, struct pages *p, struct leat_error *error)
{
    size_t ordinal = 0;
    bool headed = false;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) { /* a line without an end was not
                                                                                 * finished */
        *end = '\0';
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        int rc = LEAT_OK;
        if (json && json_object_get(json, "record")) {
            rc = check_head(r, json, path, error);
            headed = true;
        } else if (json && headed && !add_line(p, json, ordinal++)) {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the record of batches");
        }
        json_decref(json);
        if (rc)
            return rc;
    }
    sort_steps(p);
    p->known = true;
    return LEAT_OK;
}

static int load(const struct leat_record *r, uint64_t epoch, struct pages *p, struct leat_error *error)
{
    char path[4096], *text;
    *p = (struct pages){.epoch = epoch};
    path_of(r, epoch, path, sizeof path);
    int rc = read_file(path, &text, error);
    if (!rc && text)
        rc = parse(r, text, path, p, error);
    leat_free(text);
    if (rc)
        empty(p);
    return rc;
}

int leat_record_read(struct leat_record *r, uint64_t epoch, struct leat_error *error)
{
    struct pages fresh;
    int rc = load(r, epoch, &fresh, error);
    if (rc)
        return rc;
    pthread_mutex_lock(&r->lock);
    unsigned i = 0;
    while (i < KEPT_EPOCHS && !(r->pages[i].known && r->pages[i].epoch == epoch))
        i++;
    if (i == KEPT_EPOCHS)
        i = r->turn++ % KEPT_EPOCHS;
    empty(&r->pages[i]);
    r->pages[i] = fresh;
    r->pages[i].known = true;
    pthread_mutex_unlock(&r->lock);
    return LEAT_OK;
}

static const struct step *find_step(const struct pages *p, uint64_t step)
{
    const size_t low = LEAT_BISECT(i, 0, p->n_steps, p->steps[i].step < step);
    return low < p->n_steps && p->steps[low].step == step ? &p->steps[low] : NULL;
}

static bool rows_of(const struct pages *p, uint64_t step, uint64_t n, uint64_t *numbers)
{
    const struct step *s = find_step(p, step);
    if (!s || s->rows != n)
        return false;
    for (size_t i = 0; i < s->n; i++)
        for (uint64_t k = 0; k < p->runs[s->first + i].n; k++)
            *numbers++ = p->runs[s->first + i].begin + k;
    return true;
}

bool leat_record_find(struct leat_record *r, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers)
{
    bool found = false;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < KEPT_EPOCHS && !found; i++)
        found = r->pages[i].known && r->pages[i].epoch == epoch && rows_of(&r->pages[i], step, n, numbers);
    pthread_mutex_unlock(&r->lock);
    return found;
}

void leat_record_forget(struct leat_record *r, uint64_t epoch, uint64_t step)
{
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < KEPT_EPOCHS; i++) {
        struct pages *p = &r->pages[i];
        while (p->known && p->epoch == epoch && p->n_steps && p->steps[p->n_steps - 1].step >= step)
            p->n_steps--;
    }
    pthread_mutex_unlock(&r->lock);
}

int leat_record_seek(struct leat_record *r, uint64_t epoch, uint64_t step, uint64_t n, uint64_t *numbers,
                     struct leat_error *error)
{
    struct pages p;
    int rc = load(r, epoch, &p, error);
    if (!rc && !rows_of(&p, step, n, numbers))
        rc = leat_fail(error, LEAT_E_RANGE,
                       "step %" PRIu64 " of epoch %" PRIu64
                       " is not in the record of log_dir: it was not handed out by a run with that folder",
                       step, epoch);
    empty(&p);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_text(int fd, json_t *json, const char *before)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL, *line = NULL;
    bool ok = false;
    if (text && (line = leat_alloc(strlen(text) + strlen(before) + 2))) {
        int n = sprintf(line, "%s%s\n", before, text);
        ok = write(fd, line, (size_t)n) == n;
    }
    leat_free(line);
    free(text);
    json_decref(json);
    return ok;
}

/* A file that ends inside a line gets an end for it first. */
static bool open_for(struct leat_record *r, uint64_t epoch)
{
    char path[4096], last = '\n';
    if (r->fd >= 0 && r->epoch == epoch)
        return true;
    if (r->fd >= 0)
        close(r->fd);
    path_of(r, epoch, path, sizeof path);
    r->epoch = epoch;
    r->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return false;
    off_t size = lseek(r->fd, 0, SEEK_END);
    if (size > 0 && pread(r->fd, &last, 1, size - 1) != 1)
        return false;
    return write_text(r->fd,
                      json_pack("{s:i, s:s, s:s, s:I, s:I}", "record", RECORD_VERSION, "fingerprint", r->fingerprint,
                                "seed", r->seed, "rank", (json_int_t)r->rank, "world_size", (json_int_t)r->world_size),
                      last == '\n' ? "" : "\n");
}

void leat_record_append(struct leat_record *r, const struct leat_batch *b)
{
    json_t *rows = json_array();
    for (uint64_t i = 0, run; i < b->plan.rows; i += run) {
        for (run = 1; i + run < b->plan.rows && b->apart.numbers[i + run] == b->apart.numbers[i] + run; run++)
            ;
        json_array_append_new(rows, json_pack("[I, I]", (json_int_t)b->apart.numbers[i], (json_int_t)run));
    }
    json_t *line = json_pack("{s:I, s:I, s:o}", "epoch", (json_int_t)b->plan.epoch, "step", (json_int_t)b->plan.step,
                             "rows", rows);
    if (open_for(r, b->plan.epoch) && write_text(r->fd, line, ""))
        return;
    if (!r->warned)
        leat_log(LEAT_LOG_WARNING,
                 "step %" PRIu64 " of epoch %" PRIu64
                 " could not be added to the record in %.300s (%s): it cannot be given again%s",
                 b->plan.step, b->plan.epoch, r->folder, strerror(errno), leat_if_full(errno));
    r->warned = true;
}

/* ---- open and close -------------------------------------------------------------------------- */

int leat_record_open(const char *folder, const struct leat_loader *l, uint64_t seed, uint32_t rank, uint32_t world_size,
                     struct leat_record **out, struct leat_error *error)
{
    *out = NULL;
    if (mkdir(folder, 0777) && errno != EEXIST) {
        leat_fail_errno(error, LEAT_E_IO, "cannot make the folder of the record");
        leat_error_at_file(error, folder, LEAT_NO_OFFSET);
        return LEAT_E_IO;
    }
    struct leat_record *r = leat_new(struct leat_record);
    if (!r || !(r->folder = leat_strdup(folder)) || pthread_mutex_init(&r->lock, NULL)) {
        if (r)
            leat_free(r->folder);
        leat_free(r);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the record of batches");
    }
    leat_json_fingerprint(l->fingerprint, r->fingerprint);
    snprintf(r->seed, sizeof r->seed, "%" PRIu64, seed);
    r->rank = rank;
    r->world_size = world_size;
    r->fd = -1;
    *out = r;
    return LEAT_OK;
}

void leat_record_close(struct leat_record *r)
{
    if (!r)
        return;
    for (unsigned i = 0; i < KEPT_EPOCHS; i++)
        empty(&r->pages[i]);
    if (r->fd >= 0)
        close(r->fd);
    pthread_mutex_destroy(&r->lock);
    leat_free(r->folder);
    leat_free(r);
}
