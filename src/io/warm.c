/*
 *     asked --> short, many, and they wait --> in the queue --> the thread: a piece of each file in turn --> done
 *                                                 |                  |
 *                                                 |                  `--> nobody else has the file: let go of
 *                                                 `--> too far ahead of what is asked: it waits, then it is let go of,
 *                                                      and goes on where it was if reads wait again
 */
#include "io/warm.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "io/helpers.h"
#include "io/local.h"

/* Longer reads gain little: a disk of 3,000 reads a second has 375 MB/s by reads of 128 KiB. As much is warmed for each
 * read that is asked for. */
#define SHORT (UINT64_C(128) << 10)
#define PIECE (UINT64_C(1) << 20)
enum {
    MANY = 32,    /* reads of a file that may have waited */
    REST_MS = 10, /* of a file that is so far ahead, ... */
    PATIENCE_MS = 2000,
};

struct errand {
    struct leat_io_file *file;
    struct leat_warm *warm;
    int fd;
    int64_t waits_since_ns; /* 0: it does not wait */
    struct errand *next;
};

static struct {
    pthread_mutex_t lock;
    struct errand *queue;
    unsigned n;     /* in it */
    bool runs;      /* there is a thread */
    uint64_t bytes; /* of all open files that were begun with */
} warming = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- fork: a child has no thread ------------------------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&warming.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&warming.lock);
}

static void in_child(void)
{
    pthread_mutex_init(&warming.lock, NULL);
    warming.queue = NULL;
    warming.n = 0;
    warming.runs = false;
}

static bool enabled;

static void start_once(void)
{
    const char *wish = getenv("LEAT_READ_AHEAD");
    enabled = !wish || strcmp(wish, "0") != 0;
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the thread ----------------------------------------------------------------------------------- */

/* The same file once more: reads of the other descriptor are in random order, which the system remembers of it. */
static int open_again(const struct leat_io_file *file)
{
    struct stat st;
    int fd = leat_io_open_path(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) || (uint64_t)st.st_dev != file->device || (uint64_t)st.st_ino != file->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

enum progress { GOES_ON, WAITS, IS_DONE };

/* The next piece. Processes that share a file begin at places of their own, and find what others have read. */
static enum progress warm_piece(struct errand *e, void *buffer)
{
    struct leat_warm *w = e->warm;
    const uint64_t size = e->file->size, pieces = (size + PIECE - 1) / PIECE, done = atomic_load(&w->done),
                   first = leat_hash64(&(uint64_t){(uint64_t)getpid()}, sizeof(uint64_t)) % pieces;
    if (done >= pieces * PIECE || atomic_load(&e->file->references) == 1)
        return IS_DONE;
    if (done > atomic_load(&w->reads) * SHORT)
        return WAITS;
    const uint64_t at = (first + done / PIECE) % pieces * PIECE;
    if (leat_io_pread(e->fd, buffer, PIECE, (off_t)at) <= 0)
        return IS_DONE; /* whoever asks for it learns why */
    atomic_store(&w->done, done + PIECE);
    return GOES_ON;
}

static void let_go(struct errand *e)
{
    atomic_store(&e->warm->active, false);
    close(e->fd);
    leat_io_release(e->file);
    leat_free(e);
}

static struct errand *take(void)
{
    pthread_mutex_lock(&warming.lock);
    struct errand *e = warming.queue;
    if (e)
        warming.queue = e->next;
    else
        warming.runs = false;
    warming.n -= e != NULL;
    pthread_mutex_unlock(&warming.lock);
    return e;
}

/* At the end of the queue; returns how many there are now. With the lock. */
static unsigned put(struct errand *e)
{
    struct errand **end = &warming.queue;
    while (*end)
        end = &(*end)->next;
    *end = e;
    e->next = NULL;
    return ++warming.n;
}

static void *warm_files(void *buffer)
{
    for (struct errand *e; (e = take());) {
        const enum progress p = warm_piece(e, buffer);
        const int64_t now = p == WAITS ? leat_clock_ns() : 0, since = e->waits_since_ns ? e->waits_since_ns : now;
        if (p == IS_DONE || (p == WAITS && now - since > PATIENCE_MS * INT64_C(1000000))) {
            let_go(e);
            continue;
        }
        e->waits_since_ns = p == WAITS ? since : 0;
        pthread_mutex_lock(&warming.lock);
        const unsigned n = put(e);
        pthread_mutex_unlock(&warming.lock);
        if (p == WAITS)
            usleep(REST_MS * 1000 / n);
    }
    leat_free(buffer);
    return NULL;
}

/* ---- beginning ------------------------------------------------------------------------------------ */

/* Under the lock. Whether memory holds it, beside the others. */
static bool fits(const struct leat_io_file *file, struct leat_warm *w)
{
    if (atomic_load(&w->counted))
        return true;
    if (file->size > leat_memory_allowed() / 2 || warming.bytes > leat_memory_allowed() / 2 - file->size)
        return false;
    warming.bytes += file->size;
    atomic_store(&w->counted, true);
    return true;
}

static void begin(struct leat_io_file *file, struct leat_warm *w)
{
    pthread_t thread;
    struct errand *e = leat_new(struct errand);
    if (!e)
        return;
    *e = (struct errand){.file = file, .warm = w, .fd = open_again(file)};
    pthread_mutex_lock(&warming.lock);
    bool good = e->fd >= 0 && fits(file, w);
    if (good && !warming.runs) {
        void *buffer = leat_alloc(PIECE);
        good = warming.runs = buffer && !leat_thread_start(&thread, warm_files, buffer);
        if (good)
            pthread_detach(thread);
        else
            leat_free(buffer);
    }
    if (good) {
        leat_io_retain(file);
        put(e);
    }
    pthread_mutex_unlock(&warming.lock);
    if (good) {
        leat_log(LEAT_LOG_INFO, "reads of %s wait: all of it, %" PRIu64 " bytes, is brought into memory", file->path,
                 file->size);
        return;
    }
    if (e->fd >= 0)
        close(e->fd);
    leat_free(e); /* `active` stays: it is not tried again */
}

void leat_warm_asked(struct leat_io_file *file, struct leat_warm *w, const struct leat_io_pace *pace, uint64_t length)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (length > SHORT || file->size <= PIECE || leat_pace_is_quick(pace))
        return;
    if (atomic_fetch_add_explicit(&w->reads, 1, memory_order_relaxed) < MANY ||
        atomic_load_explicit(&w->done, memory_order_relaxed) >= file->size || atomic_exchange(&w->active, true))
        return;
    pthread_once(&once, start_once);
    if (enabled)
        begin(file, w);
}

void leat_warm_end(const struct leat_io_file *file, struct leat_warm *w)
{
    if (!atomic_load(&w->counted))
        return;
    pthread_mutex_lock(&warming.lock);
    warming.bytes -= file->size;
    pthread_mutex_unlock(&warming.lock);
}
