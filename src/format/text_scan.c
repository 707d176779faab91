/* Reading a file of lines to its end: text_scan.h. Chunks are joined in text_join.c. */
#include "format/text_scan.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "format/text_chunk.h"
#include "format/text_join.h"
#include "io/interrupt.h"

enum { MAX_THREADS = 64, PIECE = 256 << 10, LEAST_CHUNK = 256 << 10, MOST_CHUNK = 8 << 20 };

/* A chunk of a stream, before a worker has taken it. */
struct part {
    struct part *next;
    size_t number, n;
    uint64_t offset;
    bool is_long; /* behind its bytes begins a line that is too long */
    uint8_t bytes[];
};

struct leat_text_stream {
    struct leat_text_scan options;
    const char *path;
    struct leat_io_file *file;            /* NULL: chunks come by push */
    uint64_t chunk_bytes, n_chunks, next; /* of a file */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct leat_text_chunk **chunks; /* by number; those that were read */
    size_t n, room;
    struct part *first, *last;
    size_t waiting;
    uint64_t done; /* bytes of the file */
    bool ended, stopped;
    int code;
    struct leat_error error;
    pthread_t threads[MAX_THREADS];
    unsigned n_threads, running;
    /* of a stream: bytes behind the last line that was handed on, and where they stand */
    uint8_t *open;
    size_t open_n, open_room, open_number, searched;
    uint64_t open_offset;
    bool skipping;
};

/* ---- workers --------------------------------------------------------------------------------- */

static void fail_scan(struct leat_text_stream *s, int code, const struct leat_error *error)
{
    pthread_mutex_lock(&s->lock);
    if (!s->code) {
        s->code = code;
        if (error)
            s->error = *error;
        else
            leat_fail(&s->error, code, "no memory to read %s", s->path);
    }
    s->stopped = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* A piece of a chunk in a buffer that stays in the processor's cache while it is looked at. */
struct pieces {
    uint8_t *buffer;
    size_t room, n;
    uint64_t at; /* of the buffer's first byte in the file */
};

static int no_memory(const struct leat_text_stream *s, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", s->path);
}

static int read_more(struct leat_text_stream *s, struct pieces *p, uint64_t end, struct leat_error *error)
{
    const uint64_t from = p->at + p->n, left = end - from;
    const size_t more = left < PIECE ? (size_t)left : PIECE;
    if (!leat_grow(&p->buffer, &p->room, p->n + more, 1))
        return no_memory(s, error);
    int rc = leat_io_read(s->file, from, more, p->buffer + p->n, error);
    p->n += more;
    return rc;
}

/* Takes the first n bytes, whole lines, out of the buffer. */
static int take_lines(struct leat_text_stream *s, struct pieces *p, size_t n, struct leat_text_chunk *chunk,
                      struct leat_error *error)
{
    const bool good = leat_text_chunk_take(chunk, p->buffer, n, p->at);
    memmove(p->buffer, p->buffer + n, p->n - n);
    p->n -= n;
    p->at += n;
    return good ? LEAT_OK : no_memory(s, error);
}

/* Finds where the first line begins behind `at`. *none: not before `end`. */
static int find_begin(struct leat_text_stream *s, struct pieces *p, uint64_t end, bool *none, struct leat_error *error)
{
    for (;;) {
        const uint8_t *newline = memchr(p->buffer, '\n', p->n);
        const size_t n = newline ? (size_t)(newline - p->buffer) + 1 : p->n;
        memmove(p->buffer, p->buffer + n, p->n - n);
        p->n -= n;
        p->at += n;
        *none = p->at >= end;
        if (newline || *none)
            return LEAT_OK;
        int rc = read_more(s, p, end, error);
        if (rc)
            return rc;
    }
}

/* The last line, which begins before the end of the chunk, to its own end. */
static int take_last(struct leat_text_stream *s, struct pieces *p, struct leat_text_chunk *chunk,
                     struct leat_error *error)
{
    for (size_t searched = 0;;) {
        const uint8_t *newline = memchr(p->buffer + searched, '\n', p->n - searched);
        if (newline || p->at + p->n == s->file->size)
            return take_lines(s, p, newline ? (size_t)(newline - p->buffer) + 1 : p->n, chunk, error);
        if (p->n > s->options.longest) {
            chunk->n_lines++;
            return leat_text_chunk_take_long(chunk, p->at) ? LEAT_OK : no_memory(s, error);
        }
        searched = p->n;
        int rc = read_more(s, p, s->file->size, error);
        if (rc)
            return rc;
    }
}

/* The lines that begin in a chunk. */
static int take_of_file(struct leat_text_stream *s, uint64_t number, struct leat_text_chunk *chunk, struct pieces *p,
                        struct leat_error *error)
{
    const uint64_t first = number * s->chunk_bytes, left = s->file->size - first,
                   end = first + (left < s->chunk_bytes ? left : s->chunk_bytes);
    bool none = false;
    p->at = first ? first - 1 : 0; /* a line may end right before the chunk */
    p->n = 0;
    int rc = read_more(s, p, end, error);
    if (!rc && first)
        rc = find_begin(s, p, end, &none, error);
    while (!rc && !none && p->at + p->n < end) {
        const uint8_t *newline = memrchr(p->buffer, '\n', p->n);
        if (newline)
            rc = take_lines(s, p, (size_t)(newline - p->buffer) + 1, chunk, error);
        else if (p->n > s->options.longest)
            break;
        rc = rc ? rc : read_more(s, p, end, error);
    }
    if (rc || none)
        return rc;
    const uint8_t *newline = p->n ? memrchr(p->buffer, '\n', p->n) : NULL;
    if (newline)
        rc = take_lines(s, p, (size_t)(newline - p->buffer) + 1, chunk, error);
    return rc || p->at >= end ? rc : take_last(s, p, chunk, error);
}

static int take_of_stream(const struct leat_text_stream *s, const struct part *part, struct leat_text_chunk *chunk,
                          struct leat_error *error)
{
    if ((part->n && !leat_text_chunk_take(chunk, part->bytes, part->n, part->offset)) ||
        (part->is_long && (chunk->n_lines++, !leat_text_chunk_take_long(chunk, part->offset + part->n))))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", s->path);
    return LEAT_OK;
}

/* The next chunk's number, and of a stream its part. False: there is no more. Under the lock. */
static bool next_chunk(struct leat_text_stream *s, uint64_t *number, struct part **part)
{
    *part = NULL;
    while (!s->stopped) {
        if (s->file) {
            *number = s->next;
            return s->next < s->n_chunks && ++s->next;
        }
        if ((*part = s->first)) {
            s->first = (*part)->next;
            s->waiting--;
            *number = (*part)->number;
            pthread_cond_broadcast(&s->changed);
            return true;
        }
        if (s->ended)
            return false;
        pthread_cond_wait(&s->changed, &s->lock);
    }
    return false;
}

static bool keep_chunk(struct leat_text_stream *s, uint64_t number, struct leat_text_chunk *chunk)
{
    const size_t before = s->room;
    if (!leat_grow(&s->chunks, &s->room, (size_t)number + 1, sizeof *s->chunks))
        return false;
    memset(s->chunks + before, 0, (s->room - before) * sizeof *s->chunks);
    s->chunks[number] = chunk;
    s->n = s->n > number ? s->n : (size_t)number + 1;
    return true;
}

static void *work(void *user)
{
    struct leat_text_stream *s = user;
    struct pieces pieces = {0};
    uint64_t number;
    struct part *part;
    pthread_mutex_lock(&s->lock);
    while (next_chunk(s, &number, &part)) {
        pthread_mutex_unlock(&s->lock);
        struct leat_error error;
        struct leat_text_chunk *chunk = leat_new(struct leat_text_chunk);
        int rc = LEAT_E_NOMEM;
        if (!chunk || !leat_text_chunk_init(chunk, &s->options))
            leat_fail(&error, rc, "no memory to read %s", s->path);
        else
            rc = part ? take_of_stream(s, part, chunk, &error) : take_of_file(s, number, chunk, &pieces, &error);
        leat_free(part);
        if (chunk)
            leat_text_chunk_seal(chunk);
        if (rc)
            fail_scan(s, rc, &error);
        pthread_mutex_lock(&s->lock);
        if (!rc && keep_chunk(s, number, chunk)) {
            chunk = NULL;
        } else if (!rc) {
            pthread_mutex_unlock(&s->lock);
            fail_scan(s, LEAT_E_NOMEM, NULL);
            pthread_mutex_lock(&s->lock);
        }
        s->done += s->chunk_bytes;
        if (chunk) {
            leat_text_chunk_destroy(chunk);
            leat_free(chunk);
        }
    }
    s->running--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    leat_free(pieces.buffer);
    return NULL;
}

/* ---- one who waits --------------------------------------------------------------------------- */

static int ask(struct leat_text_stream *s, uint64_t done, uint64_t total)
{
    if (leat_io_interrupted() || (s->options.progress && s->options.progress(s->options.user, done, total))) {
        struct leat_error error;
        leat_fail(&error, LEAT_E_CANCELLED, "reading %s was stopped", s->path);
        fail_scan(s, LEAT_E_CANCELLED, &error);
        return LEAT_E_CANCELLED;
    }
    return LEAT_OK;
}

/* Waits until all workers have ended, or until few parts wait. */
static void wait_for(struct leat_text_stream *s, bool end)
{
    pthread_mutex_lock(&s->lock);
    while (end ? s->running : s->waiting > s->n_threads && !s->stopped) {
        const uint64_t done = s->done, total = s->file ? s->file->size : 0;
        if (leat_io_wait_slice(&s->changed, &s->lock))
            continue;
        const bool stopped = s->stopped;
        pthread_mutex_unlock(&s->lock);
        if (!stopped)
            ask(s, done < total ? done : total, total);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static int begin(const char *path, struct leat_io_file *file, const struct leat_text_scan *options,
                 struct leat_text_stream **out, struct leat_error *error)
{
    struct leat_text_stream *s = leat_new(struct leat_text_stream);
    *out = s;
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", path);
    s->options = *options;
    s->options.longest = options->longest ? options->longest : LEAT_TEXT_LONGEST;
    s->path = path;
    s->file = file;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    unsigned threads = options->threads ? options->threads : leat_cpu_count();
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    uint64_t chunk = options->chunk_bytes;
    if (!chunk && file)
        chunk = file->size / (8 * (uint64_t)threads) + 1;
    if (!options->chunk_bytes)
        chunk = !file || chunk > MOST_CHUNK ? MOST_CHUNK : chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk;
    s->chunk_bytes = chunk;
    s->n_chunks = file ? file->size / chunk + (file->size % chunk != 0) : 0;
    if (file && s->n_chunks < threads)
        threads = (unsigned)s->n_chunks;
    pthread_mutex_lock(&s->lock);
    while (s->n_threads < threads && !leat_thread_start(&s->threads[s->n_threads], work, s)) {
        s->n_threads++;
        s->running++;
    }
    pthread_mutex_unlock(&s->lock);
    if (!s->n_threads && threads) {
        int rc = leat_fail(error, LEAT_E_NOMEM, "no thread to read %s", path);
        leat_text_stream_end(s, false, NULL, NULL);
        *out = NULL;
        return rc;
    }
    return LEAT_OK;
}

int leat_text_stream_begin(const char *path, const struct leat_text_scan *options, struct leat_text_stream **out,
                           struct leat_error *error)
{
    return begin(path, NULL, options, out, error);
}

int leat_text_stream_end(struct leat_text_stream *s, bool whole, struct leat_text_index *out, struct leat_error *error)
{
    int rc = LEAT_OK;
    if (whole && !s->file && (s->open_n || s->skipping))
        rc = leat_text_stream_push(s, NULL, 0, NULL);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    s->stopped = s->stopped || !whole;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    wait_for(s, true);
    for (unsigned i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    rc = s->code ? s->code : rc;
    if (s->code && error)
        *error = s->error;
    if (!rc && whole)
        rc = leat_text_join(s->path, s->chunks, s->n, out, error);
    for (struct part *p = s->first, *next; p; p = next) {
        next = p->next;
        leat_free(p);
    }
    for (size_t i = 0; i < s->n; i++) {
        if (s->chunks[i])
            leat_text_chunk_destroy(s->chunks[i]);
        leat_free(s->chunks[i]);
    }
    leat_free(s->chunks);
    leat_free(s->open);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    leat_free(s);
    return rc;
}

int leat_text_scan_file(struct leat_io_file *file, const struct leat_text_scan *options, struct leat_text_index *out,
                        struct leat_error *error)
{
    struct leat_text_stream *s;
    int rc = begin(file->path, file, options, &s, error);
    if (rc)
        return rc;
    rc = leat_text_stream_end(s, true, out, error);
    if (!rc)
        out->bytes = file->size;
    return rc;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The first failure, while workers may be at it. */
static int failure_of(struct leat_text_stream *s, struct leat_error *error)
{
    pthread_mutex_lock(&s->lock);
    const int code = s->code;
    if (code && error)
        *error = s->error;
    pthread_mutex_unlock(&s->lock);
    return code;
}

/* Hands on the first n of the open bytes. */
static int hand_on(struct leat_text_stream *s, size_t n, bool is_long)
{
    struct part *part = leat_alloc(sizeof *part + n);
    if (!part) {
        fail_scan(s, LEAT_E_NOMEM, NULL);
        return LEAT_E_NOMEM;
    }
    *part = (struct part){.number = s->open_number++, .n = n, .offset = s->open_offset, .is_long = is_long};
    memcpy(part->bytes, s->open, n);
    memmove(s->open, s->open + n, s->open_n - n);
    s->open_n -= n;
    s->open_offset += n;
    s->searched = 0;
    pthread_mutex_lock(&s->lock);
    if (s->first)
        s->last->next = part;
    else
        s->first = part;
    s->last = part;
    s->waiting++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    wait_for(s, false);
    return failure_of(s, NULL);
}

/* The end of the last whole record among the open bytes; 0: there is none. */
static size_t cut_of(const struct leat_text_stream *s)
{
    const uint8_t *end = s->open + s->open_n, *p;
    size_t n = s->open_n;
    if (s->options.mode == LEAT_TEXT_FILE)
        return 0;
    while (n && (p = memrchr(s->open, '\n', n))) {
        if (s->options.mode != LEAT_TEXT_BLANK)
            return (size_t)(p - s->open) + 1;
        const uint8_t *q = p + 1; /* a line with nothing but white space in it, to its end */
        while (q < end && *q != '\n' && (*q == ' ' || *q == '\t' || *q == '\r'))
            q++;
        if (q < end && *q == '\n')
            return (size_t)(q - s->open) + 1;
        n = (size_t)(p - s->open);
    }
    return 0;
}

int leat_text_stream_push(struct leat_text_stream *s, const uint8_t *bytes, size_t n, struct leat_error *error)
{
    int rc = failure_of(s, NULL);
    if (leat_io_interrupted()) {
        struct leat_error stopped;
        rc = leat_fail(&stopped, LEAT_E_CANCELLED, "reading %s was stopped", s->path);
        fail_scan(s, rc, &stopped);
    }
    if (!bytes) { /* the end */
        rc = s->open_n ? hand_on(s, s->open_n, false) : rc;
        n = 0;
    }
    while (n && !rc) {
        if (s->skipping) {
            const uint8_t *newline = memchr(bytes, '\n', n);
            const size_t past = newline ? (size_t)(newline - bytes) + 1 : n;
            s->skipping = !newline || s->options.mode == LEAT_TEXT_FILE;
            s->open_offset += past;
            bytes += past;
            n -= past;
            continue;
        }
        if (!leat_grow(&s->open, &s->open_room, s->open_n + n, 1)) {
            fail_scan(s, LEAT_E_NOMEM, NULL);
            break;
        }
        memcpy(s->open + s->open_n, bytes, n);
        s->open_n += n;
        n = 0;
        /* Room for a long record grows by doubling, so the search for its end costs twice the record at most. */
        if (s->open_n < s->chunk_bytes || s->open_n < 2 * s->searched)
            break;
        const size_t cut = cut_of(s), left = s->open_n - cut;
        s->searched = cut ? 0 : s->open_n;
        if (cut)
            rc = hand_on(s, cut, false);
        if (!rc && left > s->options.longest && s->options.mode != LEAT_TEXT_BLANK) {
            rc = hand_on(s, 0, true);
            s->open_offset += s->open_n;
            s->open_n = 0;
            s->skipping = true;
        }
    }
    return failure_of(s, error);
}
