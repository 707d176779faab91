/* Recording events, and writing them as the JSON that Perfetto and Chrome's chrome://tracing open. */
#include "engine/trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "engine/control.h"
#include "engine/loader.h"

void leat_trace_add(struct leat_trace *trace, const struct leat_trace_event *event, int64_t end_ns)
{
    static _Thread_local int32_t own;
    if (!event->begin_ns || !atomic_load_explicit(&trace->on, memory_order_relaxed))
        return;
    if (!own)
        own = (int32_t)gettid();
    const uint64_t i = atomic_fetch_add_explicit(&trace->n, 1, memory_order_relaxed);
    if (i >= trace->room)
        return;
    struct leat_trace_event *to = &trace->events[i];
    to->begin_ns = event->begin_ns;
    to->epoch = event->epoch;
    to->step = event->step;
    to->first = event->first;
    to->rows = event->rows;
    to->bytes = event->bytes; /* or `by` */
    to->name = event->name;
    to->thread = event->thread ? event->thread : own;
    to->kind = event->kind;
    atomic_store_explicit(&to->end_ns, end_ns, memory_order_release);
}

void leat_trace_clear(struct leat_trace *trace)
{
    leat_free(trace->events);
    trace->events = NULL;
    trace->room = 0;
}

int leat_loader_trace(struct leat_loader *l, uint64_t max_events, struct leat_error *error)
{
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    struct leat_trace *trace = &l->trace;
    if (max_events) {
        struct leat_trace_event *events =
            max_events < UINT64_MAX / sizeof *events ? leat_new_array((size_t)max_events, sizeof *events) : NULL;
        atomic_store_explicit(&trace->on, false, memory_order_relaxed);
        leat_loader_pause(l); /* nobody writes an event meanwhile */
        if (events) {
            leat_trace_clear(trace);
            trace->events = events;
            trace->room = max_events;
            trace->handed_out_ns = 0;
            trace->begun_ns = leat_clock_ns();
            atomic_store_explicit(&trace->n, 0, memory_order_relaxed);
        } else {
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a trace of %" PRIu64 " events", max_events);
        }
        leat_loader_unpause(l);
    }
    atomic_store_explicit(&trace->on, max_events && !rc, memory_order_relaxed);
    leat_engine_unlock();
    return rc;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

struct text {
    char *at;
    size_t n, room;
    bool failed;
};

static void print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(struct text *text, const char *format, ...)
{
    enum { MOST = 512 }; /* of one call */
    if (text->failed || !leat_grow(&text->at, &text->room, text->n + MOST, 1)) {
        text->failed = true;
        return;
    }
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text->at + text->n, MOST, format, list);
    va_end(list);
    text->n += n > 0 ? (size_t)(n < MOST ? n : MOST - 1) : 0;
}

#define MAX_THREADS 1024

/* A lane. */
struct thread {
    int32_t process, id;
    bool consumer;
    int64_t worker; /* its number; -1: it is none */
};

static bool is_of_worker(const struct leat_trace_event *e)
{
    return e->kind == LEAT_TRACE_WORK || e->kind == LEAT_TRACE_LOST || e->kind == LEAT_TRACE_IDLE;
}

static struct thread *thread_of(struct thread *threads, size_t *n, const struct leat_trace_event *e, int pid)
{
    const struct thread found = {.process = is_of_worker(e) ? e->by.process : pid,
                                 .id = e->thread,
                                 .worker = is_of_worker(e) ? (int64_t)e->by.worker : -1};
    for (size_t i = 0; i < *n; i++)
        if (threads[i].id == found.id && threads[i].process == found.process)
            return &threads[i];
    if (*n == MAX_THREADS)
        return NULL;
    threads[*n] = found;
    return &threads[(*n)++];
}

/* A text that JSON takes as it is. */
static void clean(char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text == '"' || *text == '\\' || *text & 0x80)
            *text = '_';
}

/* Threads by their names: those of the engine are called leat-0, leat-1 ... */
static void print_thread(struct text *text, const struct thread *thread, int pid, int order)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread->id);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = 0;
    name[strcspn(name, "\n")] = 0;
    clean(name);
    print(text,
          "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s%s%s\"}},\n"
          "{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}},\n",
          pid, (int)thread->id, thread->consumer ? "consumer" : name, thread->consumer && name[0] ? " " : "",
          thread->consumer ? name : "", pid, (int)thread->id, thread->consumer ? 0 : order);
}

/* Workers are processes of their own, unless they are threads of this one. */
static void print_worker(struct text *text, const struct thread *thread, int pid, int order)
{
    char name[64];
    snprintf(name, sizeof name, "worker %d (pid %d)", (int)thread->worker, (int)thread->process);
    print(text, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}},\n",
          (int)thread->process, (int)thread->id, name);
    print(text, "{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}},\n",
          (int)thread->process, (int)thread->id, MAX_THREADS + order);
    if (thread->process == pid)
        return;
    print(text, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"%s\"}},\n",
          (int)thread->process, name);
    print(text, "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}},\n",
          (int)thread->process, (int)thread->worker + 1);
}

static const char *name_of(enum leat_trace_kind kind)
{
    static const char *const names[] = {[LEAT_TRACE_ROWS] = "make rows",
                                        [LEAT_TRACE_SIZES] = "sum up lengths",
                                        [LEAT_TRACE_CALL] = "call functions",
                                        [LEAT_TRACE_PLACE] = "place results",
                                        [LEAT_TRACE_READ] = "read",
                                        [LEAT_TRACE_FLIGHT] = "read",
                                        [LEAT_TRACE_STAGE] = "operators",
                                        [LEAT_TRACE_DECODE] = "Decode",
                                        [LEAT_TRACE_WAIT] = "wait for a batch",
                                        [LEAT_TRACE_STEP] = "step",
                                        [LEAT_TRACE_WORK] = "functions",
                                        [LEAT_TRACE_LOST] = "functions",
                                        [LEAT_TRACE_IDLE] = "wait for work",
                                        [LEAT_TRACE_BATCH] = "batch"};
    return names[kind];
}

static void print_event(struct text *text, const struct leat_trace_event *e, int64_t end_ns, int64_t zero, int pid,
                        uint64_t number)
{
    const double begin = (double)(e->begin_ns - zero) * 1e-3, length = (double)(end_ns - e->begin_ns) * 1e-3;
    const char *name = name_of(e->kind);
    char stage[128];
    switch (e->kind) {
    case LEAT_TRACE_STAGE:
    case LEAT_TRACE_DECODE:
        snprintf(stage, sizeof stage, "%s", e->name ? e->name : name);
        clean(stage);
        print(text,
              "{\"name\":\"%s\",\"cat\":\"operators\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d},\n",
              stage, begin, length, pid, (int)e->thread);
        break;
    case LEAT_TRACE_IDLE:
        print(text,
              "{\"name\":\"%s\",\"cat\":\"worker\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d},\n",
              name, begin, length, (int)e->by.process, (int)e->thread);
        break;
    case LEAT_TRACE_WORK:
    case LEAT_TRACE_LOST:
        snprintf(stage, sizeof stage, "%s", e->name ? e->name : name);
        clean(stage);
        print(
            text,
            "{\"name\":\"%s\",\"cat\":\"worker\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":"
            "{\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"first row\":%" PRIu64 ",\"rows\":%" PRIu64 "%s}},\n",
            stage, begin, length, (int)e->by.process, (int)e->thread, e->epoch, e->step, e->first, e->rows,
            e->kind == LEAT_TRACE_LOST ? ",\"worker died\":true" : "");
        break;
    case LEAT_TRACE_FLIGHT: /* they overlap, so that they are of no thread */
        print(text,
              "{\"name\":\"%s\",\"cat\":\"reads in flight\",\"ph\":\"b\",\"id\":%" PRIu64
              ",\"ts\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{\"bytes\":%" PRIu64 ",\"epoch\":%" PRIu64
              ",\"step\":%" PRIu64 "}},\n",
              name, number, begin, pid, (int)e->thread, e->bytes, e->epoch, e->step);
        print(text,
              "{\"name\":\"%s\",\"cat\":\"reads in flight\",\"ph\":\"e\",\"id\":%" PRIu64
              ",\"ts\":%.3f,\"pid\":%d,\"tid\":%d},\n",
              name, number, begin + length, pid, (int)e->thread);
        break;
    case LEAT_TRACE_READ:
        print(text,
              "{\"name\":\"%s\",\"cat\":\"read\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{"
              "\"bytes\":%" PRIu64 "}},\n",
              name, begin, length, pid, (int)e->thread, e->bytes);
        break;
    case LEAT_TRACE_BATCH:
        print(text,
              "{\"name\":\"window\",\"ph\":\"C\",\"ts\":%.3f,\"pid\":%d,\"args\":{\"ready\":%" PRIu64
              ",\"being made\":%" PRIu64 "}},\n",
              begin, pid, e->first, e->rows - e->first);
        break;
    case LEAT_TRACE_WAIT:
    case LEAT_TRACE_STEP:
        print(text,
              "{\"name\":\"%s\",\"cat\":\"consumer\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,"
              "\"args\":{\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 "}},\n",
              name, begin, length, pid, (int)e->thread, e->epoch, e->step);
        break;
    default:
        print(text,
              "{\"name\":\"%s\",\"cat\":\"task\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{"
              "\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"first row\":%" PRIu64 ",\"rows\":%" PRIu64 "}},\n",
              name, begin, length, pid, (int)e->thread, e->epoch, e->step, e->first, e->rows);
    }
}

int leat_loader_trace_json(struct leat_loader *l, char **out, struct leat_error *error)
{
    *out = NULL;
    int rc = leat_loader_enter(l, error);
    if (rc)
        return rc;
    const struct leat_trace *trace = &l->trace;
    const uint64_t all = atomic_load_explicit(&trace->n, memory_order_relaxed),
                   n = all < trace->room ? all : trace->room;
    struct thread *threads = leat_new_array(MAX_THREADS, sizeof *threads);
    size_t n_threads = 0;
    struct text text = {.failed = !threads};
    const int pid = (int)getpid();
    int64_t zero = INT64_MAX;
    for (uint64_t i = 0; threads && i < n; i++) {
        const struct leat_trace_event *e = &trace->events[i];
        if (!atomic_load_explicit(&e->end_ns, memory_order_acquire))
            continue;
        struct thread *thread = thread_of(threads, &n_threads, e, pid);
        if (thread)
            thread->consumer |= e->kind == LEAT_TRACE_WAIT || e->kind == LEAT_TRACE_STEP || e->kind == LEAT_TRACE_BATCH;
        zero = e->begin_ns < zero ? e->begin_ns : zero;
    }
    print(&text,
          "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"leat\":\"%s\",\"dropped_events\":%" PRIu64
          "},\"traceEvents\":[\n",
          leat_version(), all - n);
    for (size_t i = 0; i < n_threads; i++)
        (threads[i].worker < 0 ? print_thread : print_worker)(&text, &threads[i], pid, (int)i + 1);
    for (uint64_t i = 0; i < n; i++) {
        const int64_t end_ns = atomic_load_explicit(&trace->events[i].end_ns, memory_order_acquire);
        if (end_ns)
            print_event(&text, &trace->events[i], end_ns, zero, pid, i);
    }
    print(&text, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"leat\"}}]}\n", pid);
    leat_engine_unlock();
    leat_free(threads);
    if (text.failed) {
        leat_free(text.at);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a trace of %" PRIu64 " events as text", n);
    }
    *out = text.at;
    return LEAT_OK;
}
