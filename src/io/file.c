/*
 * The common part of all backends: references, and waiting for a read.
 */
#include "io/file.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/interrupt.h"

LEAT_REPLACEABLE const struct leat_io_backend *leat_io_backend_of_files(void)
{
    return &leat_io_local;
}

/* The only place that lists them. */
static const struct {
    const char *scheme;
    const struct leat_io_backend *backend;
} schemes[] = {{"http://", &leat_io_http}, {"https://", &leat_io_http}};

static const struct leat_io_backend *backend_of(const char *path)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncasecmp(path, schemes[i].scheme, strlen(schemes[i].scheme)))
            return schemes[i].backend;
    return leat_io_backend_of_files();
}

bool leat_io_is_remote(const char *path)
{
    return backend_of(path) != leat_io_backend_of_files();
}

int leat_io_open(const char *path, struct leat_io_file **out, struct leat_error *error)
{
    const struct leat_io_backend *backend = backend_of(path);
    *out = NULL;
    return backend->open(backend, path, out, error);
}

struct leat_io_file *leat_io_retain(struct leat_io_file *file)
{
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
    return file;
}

void leat_io_release(struct leat_io_file *file)
{
    if (file && atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) == 1)
        file->backend->close(file);
}

bool leat_io_fits(struct leat_io_request *r)
{
    if (r->offset <= r->file->size && r->length <= r->file->size - r->offset)
        return true;
    r->status = leat_fail_at(&r->error, LEAT_E_CORRUPT, r->file->path, LEAT_NO_OFFSET,
                             "%s has %" PRIu64 " bytes; %" PRIu64 " from %" PRIu64 " on are not there", r->file->path,
                             r->file->size, r->length, r->offset);
    return false;
}

int leat_io_damaged(const struct leat_io_file *file, uint64_t at, const char *what, struct leat_error *error)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, file->path, (int64_t)at,
                        "%s: %s at byte %" PRIu64 " of the compressed file: %s", file->path, what, at,
                        file->copy ? "remove it, and it is made anew" : "copy it again");
}

static void begin(struct leat_io_request *request)
{
    request->status = LEAT_OK;
    request->retry_after_ms = 0;
    leat_error_clear(&request->error);
}

int leat_io_submit(struct leat_io_request *request)
{
    begin(request);
    return request->file->backend->submit(request->file, request);
}

void leat_io_submit_many(struct leat_io_request *const *requests, size_t n, int *results)
{
    for (size_t i = 0, run; i < n; i += run) {
        const struct leat_io_backend *backend = requests[i]->file->backend;
        for (run = 0; i + run < n && requests[i + run]->file->backend == backend; run++)
            begin(requests[i + run]);
        if (backend->submit_many)
            backend->submit_many(requests + i, run, results + i);
        for (size_t k = i; !backend->submit_many && k < i + run; k++)
            results[k] = backend->submit(requests[k]->file, requests[k]);
    }
}

bool leat_io_expect(const struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    return file->backend->expect && file->backend->expect(file, offset, length);
}

bool leat_io_within(struct leat_io_file *file, uint64_t offset, uint64_t length,
                    void (*look)(void *user, const uint8_t *bytes), void *user)
{
    return file->backend->within && file->backend->within(file, offset, length, look, user);
}

void leat_io_cancel(struct leat_io_request *request)
{
    const struct leat_io_backend *backend = request->file->backend;
    if (backend->cancel)
        backend->cancel(request);
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    bool done;
};

static void wake(struct leat_io_request *request, void *user)
{
    struct waiter *w = user;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->arrived);
    pthread_mutex_unlock(&w->lock);
}

static bool (*_Atomic interrupt)(void);

void leat_set_interrupt(bool (*stop)(void))
{
    atomic_store(&interrupt, stop);
}

bool leat_io_interrupted(void)
{
    bool (*stop)(void) = atomic_load(&interrupt);
    return stop && stop();
}

static int fail_interrupted(struct leat_io_request *request)
{
    request->retry_after_ms = 0;
    return request->status = leat_fail_at(&request->error, LEAT_E_CANCELLED, request->file->path, LEAT_NO_OFFSET,
                                          "reading %s was interrupted", request->file->path);
}

enum { SLICE_MS = 100 };

bool leat_io_wait_slice(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    const int64_t until = leat_clock_ns() + SLICE_MS * INT64_C(1000000);
    const struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &t) == 0;
}

/* Waits for a slice of time, or until it is done: true. */
static bool wait_slice(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    if (!w->done)
        leat_io_wait_slice(&w->arrived, &w->lock);
    const bool done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

int leat_io_once(struct leat_io_request *request)
{
    struct waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    bool stop = false;
    request->done = wake;
    request->user = &w;
    request->waits = true;
    if (leat_io_submit(request) != LEAT_IO_PENDING) /* nobody has touched the waiter */
        return request->status;
    while (!wait_slice(&w))
        if (!stop && (stop = leat_io_interrupted()))
            leat_io_cancel(request);
    pthread_cond_destroy(&w.arrived);
    pthread_mutex_destroy(&w.lock);
    return stop ? fail_interrupted(request) : request->status;
}

enum { ATTEMPTS = 5, LONGEST_PAUSE_MS = 30000 };

unsigned leat_io_pause_ms(int status, unsigned retry_after_ms, unsigned tries)
{
    if (status != LEAT_E_IO || tries >= ATTEMPTS)
        return 0;
    const uint64_t ms = (uint64_t)retry_after_ms << (tries - 1);
    return ms < LONGEST_PAUSE_MS ? (unsigned)ms : LONGEST_PAUSE_MS;
}

/* False: it was interrupted. */
static bool pause_for(unsigned ms)
{
    for (unsigned part; ms; ms -= part) {
        part = ms < SLICE_MS ? ms : SLICE_MS;
        nanosleep(&(struct timespec){.tv_nsec = part * 1000000L}, NULL);
        if (leat_io_interrupted())
            return false;
    }
    return true;
}

int leat_io_wait(struct leat_io_request *request)
{
    for (unsigned tries = 1;; tries++) {
        const int rc = leat_io_once(request);
        const unsigned ms = leat_io_pause_ms(rc, request->retry_after_ms, tries);
        if (!ms)
            return rc;
        if (!pause_for(ms))
            return fail_interrupted(request);
    }
}

static int read_and_wait(struct leat_io_request *request, struct leat_error *error)
{
    int rc = leat_io_wait(request);
    if (rc && error)
        *error = request->error;
    return rc;
}

int leat_io_read(struct leat_io_file *file, uint64_t offset, uint64_t length, void *buffer, struct leat_error *error)
{
    struct leat_io_request request = {.file = file, .offset = offset, .length = length, .buffer = buffer};
    return read_and_wait(&request, error);
}

int leat_io_read_past_mapping(struct leat_io_file *file, uint64_t offset, uint64_t length, void *buffer,
                              struct leat_error *error)
{
    struct leat_io_request request = {
        .file = file, .offset = offset, .length = length, .buffer = buffer, .past_mapping = true};
    return read_and_wait(&request, error);
}

int leat_io_stamp(struct leat_io_file *file, uint64_t *stamp, uint64_t *size, struct leat_error *error)
{
    struct leat_io_look now = {.size = file->size};
    const int rc = file->backend->look ? file->backend->look(file, &now, error) : LEAT_OK;
    *stamp = file->backend->look ? leat_hash64(&now, sizeof now) : 0;
    *size = now.size;
    return rc;
}

int leat_io_unchanged(struct leat_io_file *file, struct leat_error *error)
{
    struct leat_io_look now;
    const int rc = file->backend->look ? file->backend->look(file, &now, error) : LEAT_OK;
    if (rc || !file->backend->look || (now.size == file->size && now.mtime_ns == file->mtime_ns))
        return rc;
    return leat_fail_at(error, LEAT_E_CHANGED, file->path, LEAT_NO_OFFSET,
                        "%s was changed after it was opened: open it again", file->path);
}

void leat_io_forget(struct leat_io_file *file, uint64_t offset, uint64_t length)
{
    if (file->backend->forget)
        file->backend->forget(file, offset, length);
}

const uint8_t *leat_io_map(struct leat_io_file *file, struct leat_error *error)
{
    if (!file->backend->map) {
        leat_fail_at(error, LEAT_E_UNSUPPORTED, file->path, LEAT_NO_OFFSET,
                     "%s cannot be mapped: the %s backend only reads", file->path, file->backend->name);
        return NULL;
    }
    return file->backend->map(file, error);
}
