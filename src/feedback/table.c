/*
 * The table of values reported by sample, and the thread that fills it.
 *
 *     leat_feedback_report --- copies ---> | chunk | chunk | chunk | --- thread ---> marks[position]
 *          checks ids and values             at most MOST values          prefetched, 16 bytes each
 *
 * The thread that trains pays for a copy; cache misses are the other thread's. A mark is one cache line at most, so
 * that a value, its count and its step cost one miss together.
 *
 * Whether a report is entered depends on its step, not on its time: ranks that exchange reports arrive at the same
 * table. A deferred table has no thread: its chunks stay until they are taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "leat/feedback.h"

#define MOST (UINT64_C(4) << 20) /* values that wait: 64 MiB; a report beyond waits until the thread has caught up */
#define SPARSE 4                 /* times as many ids as samples, from which on they are sorted instead of listed */
#define AHEAD 24                 /* marks that are prefetched: more than a core has misses in flight */

struct chunk {
    struct chunk *next;
    uint64_t n;
    uint32_t epoch, step;
    float *values; /* behind the positions */
    uint64_t positions[];
};

struct named {
    int64_t id, position;
};

struct leat_feedback {
    uint64_t n;
    /* The positions of the samples of ids, if these are not positions: by id, -1 being none; or sorted by id. */
    int64_t *by_id;
    uint64_t n_ids;
    struct named *sorted;
    bool deferred;
    struct leat_mark *marks;
    size_t bytes;
    pid_t pid; /* a forked child has no thread to wait for */
    pthread_mutex_t lock;
    pthread_cond_t more, fewer;
    struct chunk *first, **last;
    uint64_t waiting; /* values in chunks, the one that is being entered included */
    bool runs, closes;
    pthread_t thread;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* A file without a name of so many bytes, or -1 with errno. */
static int make_file(const char *folder, uint64_t bytes)
{
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) && /* as on NFS */
        snprintf(path, sizeof path, "%s/.feedback-XXXXXX", folder) < (int)sizeof path) {
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
    }
    const int failed = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    if (failed && fd >= 0)
        close(fd);
    errno = failed;
    return failed ? -1 : fd;
}

static int map_table(struct leat_feedback *f, const char *folder, struct leat_error *error)
{
    uint64_t bytes;
    if (!leat_mul_u64(f->n, sizeof *f->marks, &bytes) || bytes > SIZE_MAX / 2)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a table of %" PRIu64 " samples", f->n);
    f->bytes = (size_t)bytes;
    const int fd = folder ? make_file(folder, bytes) : -1;
    if (folder && fd < 0)
        return leat_fail_errno(error, LEAT_E_IO, "%s: a table of %" PRIu64 " bytes cannot be made here", folder, bytes);
    void *at = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, folder ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a table of %" PRIu64 " samples", f->n);
    if (!folder)
        madvise(at, f->bytes, MADV_HUGEPAGE);
    f->marks = at;
    return LEAT_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int has_two(int64_t id, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_INVALID, "two samples have the id %" PRId64 ": each sample has one of its own", id);
}

/* Ids that lie near each other: positions by id. */
static int list_ids(struct leat_feedback *f, const int64_t *ids, struct leat_error *error)
{
    memset(f->by_id, -1, f->n_ids * sizeof *f->by_id);
    for (uint64_t i = 0; i < f->n; i++) {
        if (f->by_id[ids[i]] >= 0)
            return has_two(ids[i], error);
        f->by_id[ids[i]] = (int64_t)i;
    }
    return LEAT_OK;
}

static int sort_ids(struct leat_feedback *f, const int64_t *ids, struct leat_error *error)
{
    for (uint64_t i = 0; i < f->n; i++)
        f->sorted[i] = (struct named){ids[i], (int64_t)i};
    qsort(f->sorted, f->n, sizeof *f->sorted, compare_ids);
    for (uint64_t i = 1; i < f->n; i++)
        if (f->sorted[i].id == f->sorted[i - 1].id)
            return has_two(f->sorted[i].id, error);
    return LEAT_OK;
}

/* Makes the table that finds the sample of an id. */
static int learn_ids(struct leat_feedback *f, const int64_t *ids, struct leat_error *error)
{
    int64_t most = 0;
    for (uint64_t i = 0; i < f->n; i++) {
        if (ids[i] < 0)
            return leat_fail(error, LEAT_E_INVALID, "sample %" PRIu64 " has the id %" PRId64 ": ids are 0 or more", i,
                             ids[i]);
        most = ids[i] > most ? ids[i] : most;
    }
    if ((uint64_t)most / SPARSE < f->n) {
        f->n_ids = (uint64_t)most + 1;
        f->by_id = leat_alloc(f->n_ids * sizeof *f->by_id);
    } else {
        f->sorted = leat_new_array(f->n, sizeof *f->sorted);
    }
    if (!f->by_id && !f->sorted)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for the ids of %" PRIu64 " samples", f->n);
    return f->by_id ? list_ids(f, ids, error) : sort_ids(f, ids, error);
}

/* -1: there is no such sample. */
static int64_t position_of(const struct leat_feedback *f, int64_t id)
{
    if (f->by_id)
        return (uint64_t)id < f->n_ids ? f->by_id[id] : -1;
    if (!f->sorted)
        return (uint64_t)id < f->n ? id : -1;
    const struct named wanted = {id, 0}, *found = bsearch(&wanted, f->sorted, f->n, sizeof *f->sorted, compare_ids);
    return found ? found->position : -1;
}

int leat_feedback_new(const struct leat_feedback_options *options, struct leat_feedback **out, struct leat_error *error)
{
    *out = NULL;
    if (!options->samples || options->samples >> 48)
        return leat_fail(error, LEAT_E_INVALID, "a table of feedback is of 1 to 2^48 samples, not %" PRIu64,
                         options->samples);
    struct leat_feedback *f = leat_new(struct leat_feedback);
    if (!f)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a table of feedback");
    f->n = options->samples;
    f->deferred = options->deferred;
    f->last = &f->first;
    f->pid = getpid();
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->more, NULL);
    pthread_cond_init(&f->fewer, NULL);
    int rc = options->ids ? learn_ids(f, options->ids, error) : LEAT_OK;
    rc = rc ? rc : map_table(f, options->folder, error);
    if (rc)
        leat_feedback_free(f);
    else
        *out = f;
    return rc;
}

static void free_chunks(struct leat_feedback *f)
{
    for (struct chunk *c = f->first, *next; c; c = next) {
        next = c->next;
        leat_free(c);
    }
    f->first = NULL;
    f->last = &f->first;
    f->waiting = 0;
}

void leat_feedback_free(struct leat_feedback *f)
{
    if (!f)
        return;
    if (f->pid == getpid()) {
        pthread_mutex_lock(&f->lock);
        f->closes = true;
        pthread_cond_signal(&f->more);
        pthread_mutex_unlock(&f->lock);
        if (f->runs)
            pthread_join(f->thread, NULL);
        free_chunks(f);
        pthread_mutex_destroy(&f->lock);
        pthread_cond_destroy(&f->more);
        pthread_cond_destroy(&f->fewer);
    }
    if (f->marks)
        munmap(f->marks, f->bytes);
    leat_free(f->by_id);
    leat_free(f->sorted);
    leat_free(f);
}

/* ---- entering ---------------------------------------------------------------------------------------------------- */

static inline uint64_t stamp(uint32_t epoch, uint32_t step)
{
    return (uint64_t)epoch << 32 | step;
}

static inline void enter(struct leat_mark *mark, float value, uint32_t epoch, uint32_t step)
{
    const uint64_t had = stamp(mark->epoch, mark->step), now = stamp(epoch, step);
    if (mark->count && (now < had || (now == had && !(value > mark->value))))
        return;
    if ((!mark->count || now > had) && mark->count < UINT32_MAX)
        mark->count++;
    mark->value = value;
    mark->epoch = epoch;
    mark->step = step;
}

static void enter_chunk(struct leat_mark *marks, const struct chunk *c)
{
    for (uint64_t i = 0; i < c->n; i++) {
        if (i + AHEAD < c->n)
            __builtin_prefetch(&marks[c->positions[i + AHEAD]], 1);
        enter(&marks[c->positions[i]], c->values[i], c->epoch, c->step);
    }
}

static void *run(void *argument)
{
    struct leat_feedback *f = argument;
    pthread_mutex_lock(&f->lock);
    while (!f->closes) {
        struct chunk *c = f->first;
        if (!c) {
            pthread_cond_wait(&f->more, &f->lock);
            continue;
        }
        if (!(f->first = c->next))
            f->last = &f->first;
        pthread_mutex_unlock(&f->lock);
        enter_chunk(f->marks, c);
        const uint64_t n = c->n;
        leat_free(c);
        pthread_mutex_lock(&f->lock);
        f->waiting -= n;
        pthread_cond_broadcast(&f->fewer);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- reporting --------------------------------------------------------------------------------------------------- */

static int no_such_id(const struct leat_feedback *f, int64_t id, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_RANGE,
                     "feedback for sample id %" PRId64 ", which is none of the %" PRIu64
                     " of this data set: report the "
                     "ids of the batch (batch.ids)",
                     id, f->n);
}

static int fill_chunk(const struct leat_feedback *f, struct chunk *c, const int64_t *ids, const float *values,
                      struct leat_error *error)
{
    bool finite = true, known = true;
    for (uint64_t i = 0; i < c->n; i++) {
        const int64_t position = position_of(f, ids[i]);
        known &= position >= 0;
        finite &= isfinite(values[i]) != 0;
        c->positions[i] = (uint64_t)position;
        c->values[i] = values[i];
    }
    for (uint64_t i = 0; !known && i < c->n; i++)
        if (c->positions[i] >> 63)
            return no_such_id(f, ids[i], error);
    for (uint64_t i = 0; !finite && i < c->n; i++)
        if (!isfinite(values[i]))
            return leat_fail(error, LEAT_E_INVALID,
                             "the value reported for sample id %" PRId64 " is %g: values are finite; nothing of this "
                             "report was entered",
                             ids[i], (double)values[i]);
    return LEAT_OK;
}

int leat_feedback_report(struct leat_feedback *f, const int64_t *ids, const float *values, uint64_t n, uint32_t epoch,
                         uint32_t step, struct leat_error *error)
{
    if (!n)
        return LEAT_OK;
    if (f->pid != getpid())
        return leat_fail(error, LEAT_E_FORKED, "this table belongs to the process that made it");
    struct chunk *c = n >> 40 ? NULL : leat_alloc(sizeof *c + n * (sizeof *c->positions + sizeof *c->values));
    if (!c)
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a report of %" PRIu64 " values", n);
    *c = (struct chunk){.n = n, .epoch = epoch, .step = step, .values = (float *)(void *)(c->positions + n)};
    int rc = fill_chunk(f, c, ids, values, error);
    if (rc) {
        leat_free(c);
        return rc;
    }
    pthread_mutex_lock(&f->lock);
    if (!f->runs && !f->deferred) {
        const int failed = leat_thread_start(&f->thread, run, f);
        f->runs = !failed;
        if (failed) {
            pthread_mutex_unlock(&f->lock);
            leat_free(c);
            errno = failed;
            return leat_fail_errno(error, LEAT_E_NOMEM, "no thread can be started for reports");
        }
    }
    while (!f->deferred && f->waiting && f->waiting + n > MOST)
        pthread_cond_wait(&f->fewer, &f->lock);
    *f->last = c;
    f->last = &c->next;
    f->waiting += n;
    pthread_cond_signal(&f->more);
    pthread_mutex_unlock(&f->lock);
    return LEAT_OK;
}

void leat_feedback_wait(struct leat_feedback *f)
{
    if (f->pid != getpid())
        return;
    pthread_mutex_lock(&f->lock);
    while (!f->deferred && f->waiting)
        pthread_cond_wait(&f->fewer, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

struct leat_mark *leat_feedback_marks(struct leat_feedback *f)
{
    return f->marks;
}

/* ---- deferred reports -------------------------------------------------------------------------------------------- */

uint64_t leat_feedback_kept(struct leat_feedback *f)
{
    pthread_mutex_lock(&f->lock);
    const uint64_t n = f->deferred ? f->waiting : 0;
    pthread_mutex_unlock(&f->lock);
    return n;
}

uint64_t leat_feedback_take(struct leat_feedback *f, struct leat_noted *out, uint64_t n, bool clear)
{
    uint64_t done = 0;
    pthread_mutex_lock(&f->lock);
    for (const struct chunk *c = f->deferred ? f->first : NULL; c; c = c->next)
        for (uint64_t i = 0; i < c->n && done < n; i++)
            out[done++] = (struct leat_noted){c->positions[i], c->values[i], c->epoch, c->step, 0};
    if (clear && f->deferred)
        free_chunks(f);
    pthread_mutex_unlock(&f->lock);
    return done;
}

int leat_feedback_enter(struct leat_feedback *f, const struct leat_noted *reports, uint64_t n, struct leat_error *error)
{
    for (uint64_t i = 0; i < n; i++) {
        if (reports[i].position >= f->n)
            return leat_fail(error, LEAT_E_RANGE, "report %" PRIu64 " is of sample %" PRIu64 " of %" PRIu64, i,
                             reports[i].position, f->n);
        if (!isfinite(reports[i].value))
            return leat_fail(error, LEAT_E_INVALID, "report %" PRIu64 " is %g: values are finite", i,
                             (double)reports[i].value);
    }
    leat_feedback_wait(f);
    for (uint64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&f->marks[reports[i + AHEAD].position], 1);
        enter(&f->marks[reports[i].position], reports[i].value, reports[i].epoch, reports[i].step);
    }
    return LEAT_OK;
}
