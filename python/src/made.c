/*
 * Data sets that are not files: arrays of NumPy or PyTorch, objects that compute their values, and others side by side.
 *
 *     engine's thread, or who asks ds[i]                 the source's own thread (Python's, a daemon)
 *     compute: queue a job, wait in slices  ---------->  object.read(positions), checked in leat/data/made.py
 *              values                       <----------  copied into the values that asked, unless these gave up
 *     decode:  queue a job, wait in slices  ---------->  object.read_chunk(number, fields): whole columns, likewise
 *
 * A waiting thread holds no GIL and gives up when the loader closes, the call that runs is over its time limit, or
 * Ctrl-C was pressed: the job is then abandoned, so that a `read` that hangs takes nobody with it. One lock for all
 * sources: it is held for moments.
 */
#include "leat_py.h"

#include "leat/chunks.h"
#include "leat/windows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_NS = 100000000 };
#define SHORT_TIMEOUT_S 1.0 /* below, a call is for samples of one batch: one for many would take too long */

struct job {
    struct job *next;
    size_t n_fields, n;
    size_t *fields;
    uint64_t *samples;
    uint8_t *begun;           /* NULL, or bytes that `decode` gave of each sample, one behind the other */
    int64_t *begun_bytes;     /* of each sample; -1: it has no value */
    struct leat_values *out;  /* NULL: abandoned, or */
    struct leat_chunk *chunk; /* ... a chunk is decoded, whose number is samples[0]; NULL: abandoned, or not one */
    size_t failed;
    bool done, may_lack, whole, copying; /* whole: of a chunk. copying: it is not abandoned now */
    struct leat_error error;
};

struct source {
    struct source *next; /* of all sources */
    PyObject *read;      /* leat.data.made.Reader */
    double timeout_s, warn_s;
    int references; /* of the data set, and of the thread */
    bool started, closing;
    struct job *queue, **queue_end, *running;
    double since;           /* when the thread began or ended a job last, as watched_s */
    double looked, watched; /* when somebody looked last; the seconds that were watched until then */
    pthread_cond_t work, done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct source *sources;

/* Exceptions of reads that failed, by the text of their errors; under the GIL. Several are kept, because batches and
 * epochs are read ahead, and loaders beside each other: an error may be raised after others have come. One that fails
 * in each epoch that is read ahead takes one place. */
enum { KEPT = 16 };
static struct kept {
    const struct source *source;
    PyObject *exception;
    uint64_t number; /* of all that were kept, from 1 on */
    char message[sizeof((struct leat_error *)NULL)->message];
} kept[KEPT];
static uint64_t n_kept; /* ever */

static void init_conditions(struct source *s)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &attributes);
    pthread_cond_init(&s->done, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child has neither the sources' threads nor those that wait; its own thread is started at the first job. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    for (struct source *s = sources; s; s = s->next) {
        init_conditions(s);
        s->references -= s->started;
        s->started = false;
        s->running = s->queue = NULL;
        s->queue_end = &s->queue;
    }
}

static void prepare_once(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds, without those in which the process stood still (SIGSTOP): whoever waits looks at least twice in a time
 * limit. Under the lock. */
static double watched_s(struct source *s)
{
    const double time = now_s(), since = time - s->looked, most = s->timeout_s / 2;
    s->watched += most > 0 && since > most ? most : since;
    s->looked = time;
    return s->watched;
}

static int fail(struct leat_error *e, int code, const char *text, const char *more)
{
    *e = (struct leat_error){.code = code, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    snprintf(e->message, sizeof e->message, "%s%s", text, more);
    return code;
}

static void job_free(struct job *job)
{
    free(job->fields);
    free(job->samples);
    free(job->begun);
    free(job->begun_bytes);
    free(job);
}

/* ---- the source's thread --------------------------------------------------------------------- */

/* The place of the same error, or else the oldest. */
static struct kept *place_of(const struct source *s, const char *message)
{
    struct kept *place = kept;
    for (struct kept *k = kept; k < kept + KEPT; k++) {
        if (k->exception && k->source == s && !strcmp(k->message, message))
            return k;
        if (k->number < place->number)
            place = k;
    }
    return place;
}

/* The exception that is set, as the error of a job: raised by `read`, or by the checks of leat.data.made.
 */
static void take_exception(const struct source *s, struct job *job)
{
    PyObject *type, *value, *trace, *text = NULL, *parts;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    /* (code, index of the sample that failed, text, the exception of the user's) of a made.Failed */
    parts = value ? PyObject_GetAttrString(value, "parts") : NULL;
    PyErr_Clear();
    const char *message = "it cannot be said how";
    int code = LEAT_E_OPERATOR;
    Py_ssize_t failed = -1;
    PyObject *cause = NULL;
    if (parts && PyArg_ParseTuple(parts, "insO", &code, &failed, &message, &cause)) {
        fail(&job->error, code, message, "");
    } else {
        PyErr_Clear();
        text = value ? PyObject_Str(value) : NULL;
        PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
        fail(&job->error, LEAT_E_OPERATOR,
             "reading from the source failed: ", bytes ? PyBytes_AsString(bytes) : message);
        Py_XDECREF(bytes);
    }
    job->failed = failed >= 0 ? (size_t)failed : job->n;
    if (cause && cause != Py_None) {
        struct kept *place = place_of(s, job->error.message);
        PyObject *old = place->exception;
        Py_INCREF(cause);
        place->source = s;
        place->number = ++n_kept;
        place->exception = cause;
        snprintf(place->message, sizeof place->message, "%s", job->error.message);
        Py_XDECREF(old);
    }
    PyErr_Clear();
    Py_XDECREF(parts);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* A sample without a value; only a caller that may do without learns this. */
static void put_nothing(struct job *job, size_t field, size_t i)
{
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&lock);
    if (job->out)
        leat_values_lack(job->out, field, i);
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS;
}

/* Copies one buffer per sample (a list), or one of n values of equal size. */
static int put_buffers(struct job *job, size_t field, PyObject *found)
{
    bool list = PyList_Check(found);
    for (size_t i = 0; i < (list ? job->n : 1); i++) {
        Py_buffer view;
        PyObject *item = list ? PyList_GetItem(found, (Py_ssize_t)i) : found;
        int rc = LEAT_OK;
        if (item == Py_None && job->may_lack) {
            put_nothing(job, field, i);
            continue;
        }
        if (!item || PyObject_GetBuffer(item, &view, PyBUF_SIMPLE))
            return -1;
        Py_BEGIN_ALLOW_THREADS;
        pthread_mutex_lock(&lock);
        if (job->out && list)
            rc = leat_values_put(job->out, field, i, view.buf, (uint64_t)view.len);
        size_t each = (size_t)view.len / job->n;
        for (size_t k = 0; job->out && !list && k < job->n && !rc; k++)
            rc = leat_values_put(job->out, field, k, (const char *)view.buf + k * each, each);
        pthread_mutex_unlock(&lock);
        Py_END_ALLOW_THREADS;
        PyBuffer_Release(&view);
        if (rc) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* Whether the memory that a job copies to is there, and stays until end_copy. */
static bool begin_copy(struct job *job)
{
    pthread_mutex_lock(&lock);
    job->copying = job->chunk != NULL;
    pthread_mutex_unlock(&lock);
    return job->copying;
}

static void end_copy(struct source *s, struct job *job)
{
    pthread_mutex_lock(&lock);
    job->copying = false;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&lock);
}

static bool take_view(PyObject *object, Py_buffer *view)
{
    memset(view, 0, sizeof *view);
    return object == Py_None || !PyObject_GetBuffer(object, view, PyBUF_SIMPLE);
}

/* Copies a column: (values, offsets or None, missing or None), or None if it has no bytes. */
static int put_column(struct source *s, struct job *job, size_t field, PyObject *column)
{
    PyObject *parts[3];
    Py_buffer values, offsets, missing;
    int rc = LEAT_OK, offset_bytes;
    if (column == Py_None)
        return 0;
    if (!PyArg_ParseTuple(column, "OOiO", &parts[0], &parts[1], &offset_bytes, &parts[2]) ||
        !take_view(parts[0], &values))
        return -1;
    if (!take_view(parts[1], &offsets)) {
        PyBuffer_Release(&values);
        return -1;
    }
    if (!take_view(parts[2], &missing)) {
        PyBuffer_Release(&values);
        PyBuffer_Release(&offsets);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS;
    if (begin_copy(job)) {
        rc = leat_chunk_put(job->chunk, field, values.buf, (uint64_t)values.len, offsets.buf, (unsigned)offset_bytes,
                            missing.buf);
        end_copy(s, job);
    }
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&values);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&missing);
    if (rc == LEAT_E_NOMEM)
        PyErr_NoMemory();
    else if (rc)
        PyErr_SetString(PyExc_ValueError, "a column does not have the sizes that its field and its chunk say");
    return rc ? -1 : 0;
}

/* A list of what `decode` gave of each sample, bytes or None; None: the samples are not begun. */
static PyObject *begun_of(const struct job *job)
{
    if (!job->begun)
        return Py_NewRef(Py_None);
    PyObject *list = PyList_New(0);
    const uint8_t *at = job->begun;
    for (size_t i = 0; list && i < job->n; i++) {
        const int64_t bytes = job->begun_bytes[i];
        PyObject *one = bytes < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)at, bytes);
        if (!one || PyList_Append(list, one))
            Py_CLEAR(list);
        Py_XDECREF(one);
        at += bytes > 0 ? bytes : 0;
    }
    return list;
}

static void run(struct source *s, struct job *job)
{
    PyObject *fields = PyList_New(0), *begun = begun_of(job), *found = NULL;
    PyObject *positions =
        job->whole ? PyLong_FromUnsignedLongLong(job->samples[0])
                   : PyBytes_FromStringAndSize((const char *)job->samples, (Py_ssize_t)(job->n * sizeof(int64_t)));
    for (size_t f = 0; fields && f < job->n_fields; f++) {
        PyObject *number = PyLong_FromSize_t(job->fields[f]);
        if (!number || PyList_Append(fields, number))
            Py_CLEAR(fields);
        Py_XDECREF(number);
    }
    if (fields && positions && job->whole)
        found = PyObject_CallMethod(s->read, "chunk", "OO", fields, positions);
    else if (fields && positions && begun)
        found =
            PyObject_CallFunctionObjArgs(s->read, fields, positions, job->may_lack ? Py_True : Py_False, begun, NULL);
    bool good = found != NULL;
    for (size_t f = 0; good && f < job->n_fields; f++) {
        PyObject *one = PyList_GetItem(found, (Py_ssize_t)f);
        good = one && !(job->whole ? put_column(s, job, f, one) : put_buffers(job, f, one));
    }
    if (!good)
        take_exception(s, job);
    Py_XDECREF(found);
    Py_XDECREF(positions);
    Py_XDECREF(fields);
    Py_XDECREF(begun);
}

/* With the GIL. */
static void release_source(struct source *s)
{
    bool last;
    Py_BEGIN_ALLOW_THREADS;
    pthread_mutex_lock(&lock);
    last = !--s->references;
    if (last)
        for (struct source **p = &sources; *p; p = &(*p)->next)
            if (*p == s) {
                *p = s->next;
                break;
            }
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS;
    if (last) {
        for (struct kept *k = kept; k < kept + KEPT; k++)
            if (k->source == s) {
                PyObject *old = k->exception;
                k->source = NULL;
                k->number = 0;
                k->exception = NULL;
                Py_XDECREF(old);
            }
        Py_XDECREF(s->read);
        free(s);
    }
}

/* serve(capsule): the thread of a source, until its data set is released. */
PyObject *py_source_serve(PyObject *module, PyObject *capsule)
{
    struct source *s = PyCapsule_GetPointer(capsule, "leat.source");
    if (!s)
        return NULL;
    for (;;) {
        struct job *job;
        Py_BEGIN_ALLOW_THREADS;
        pthread_mutex_lock(&lock);
        while (!s->queue && !s->closing)
            pthread_cond_wait(&s->work, &lock);
        job = s->queue;
        if (job && !(s->queue = job->next))
            s->queue_end = &s->queue;
        s->running = job;
        s->since = watched_s(s);
        pthread_mutex_unlock(&lock);
        Py_END_ALLOW_THREADS;
        if (!job)
            break;
        run(s, job);
        Py_BEGIN_ALLOW_THREADS;
        pthread_mutex_lock(&lock);
        const bool abandoned = !job->out && !job->chunk;
        job->done = true;
        s->running = NULL;
        s->since = watched_s(s);
        pthread_cond_broadcast(&s->done);
        pthread_mutex_unlock(&lock);
        if (abandoned)
            job_free(job);
        Py_END_ALLOW_THREADS;
    }
    release_source(s);
    Py_RETURN_NONE;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Calls a method of the reader, on any thread, without the GIL before and after. */
static bool call_reader(struct source *s, const char *method, PyObject *argument)
{
    PyObject *result = PyObject_CallMethod(s->read, method, "O", argument ? argument : Py_None);
    bool good = result != NULL;
    Py_XDECREF(result);
    return good;
}

static int start_thread(struct source *s, struct leat_error *error)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *capsule = PyCapsule_New(s, "leat.source", NULL);
    bool good = capsule && call_reader(s, "start", capsule), limited = false;
    if (!good) { /* "can't start new thread", or that the interpreter is ending */
        PyObject *type, *value, *trace, *said;
        PyErr_Fetch(&type, &value, &trace);
        said = value ? PyObject_Str(value) : NULL;
        const char *text = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
        limited = text && strstr(text, "start new thread");
        Py_XDECREF(said);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        PyErr_Clear();
    }
    Py_XDECREF(capsule);
    PyGILState_Release(state);
    return good
               ? LEAT_OK
               : fail(error, limited ? LEAT_E_NOMEM : LEAT_E_CLOSED, "no thread can be started to read from the source",
                      limited ? "; raise the limit of threads and processes (ulimit -u, or the container's)"
                              : ": the process is ending");
}

static void warn(struct source *s, double seconds)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace, *number = PyFloat_FromDouble(seconds);
    PyErr_Fetch(&type, &value, &trace);
    if (!number || !call_reader(s, "slow", number))
        PyErr_Clear();
    Py_XDECREF(number);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

/* Waits for the end of a job, at most so long, and no longer than it takes to see an interrupt soon. */
static void wait_slice(struct source *s, double seconds)
{
    struct timespec until;
    const long ns = seconds * 1e9 >= SLICE_NS ? SLICE_NS : seconds > 0 ? (long)(seconds * 1e9) + 1 : 1;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&s->done, &lock, &until);
}

/* The time that the running call has taken so far. All that wait behind one that hangs give up when it does: a batch
 * asks for its values by several calls, and for each sample once more after an error, and none of them gets another
 * time limit.
 */
static double hung(struct source *s, double begin)
{
    return watched_s(s) - (s->running || s->since > begin ? s->since : begin);
}

/* The samples of a call: none of them is known to be the one. */
static void say_hang(const struct job *job, double waited, char *text, size_t room)
{
    uint64_t least = job->samples[0], most = least;
    if (job->whole) {
        snprintf(text, room, "reading chunk %llu has not returned for %.3g s (timeout_s)", (unsigned long long)least,
                 waited);
        return;
    }
    for (size_t i = 1; i < job->n; i++) {
        least = job->samples[i] < least ? job->samples[i] : least;
        most = job->samples[i] > most ? job->samples[i] : most;
    }
    if (job->n == 1)
        snprintf(text, room, "read of sample %llu has not returned for %.3g s (timeout_s)", (unsigned long long)least,
                 waited);
    else
        snprintf(text, room, "read of %zu samples, %llu to %llu, has not returned for %.3g s (timeout_s)", job->n,
                 (unsigned long long)least, (unsigned long long)most, waited);
}

static bool is_cancelled(const struct job *job)
{
    return job->whole ? leat_chunk_cancelled(job->chunk) : leat_values_cancelled(job->out);
}

/* Until the job is done, or given up. Under the lock, which it lets go. */
static int wait_for(struct source *s, struct job *job, struct leat_error *error)
{
    const double begin = watched_s(s);
    double warn_at = s->warn_s;
    char text[128];
    while (!job->done) {
        double waited = hung(s, begin);
        if (s->timeout_s > 0 && waited > s->timeout_s) {
            say_hang(s->running ? s->running : job, waited, text, sizeof text);
            return fail(
                error, LEAT_E_IO,
                s->running && s->running != job ? "waiting for a source that hangs: " : "the source hangs: ", text);
        }
        wait_slice(s, s->timeout_s > 0 ? s->timeout_s - waited : 1);
        if (job->done)
            break;
        if (is_cancelled(job))
            return fail(error, LEAT_E_CANCELLED, "reading from the source was given up: ", "the loader was closed");
        waited = hung(s, begin);
        pthread_mutex_unlock(&lock);
        bool stop = py_interrupted();
        if (!stop && waited > warn_at) {
            warn(s, waited);
            warn_at *= 4;
        }
        pthread_mutex_lock(&lock);
        if (stop && !job->done)
            return fail(error, LEAT_E_CANCELLED, "reading from the source was interrupted", "");
    }
    return LEAT_OK;
}

/* Takes a job that was given up out of the queue; one that runs is left to the thread. */
static void abandon(struct source *s, struct job *job)
{
    while (job->copying)
        pthread_cond_wait(&s->done, &lock);
    job->out = NULL;
    job->chunk = NULL;
    for (struct job **p = &s->queue; *p; p = &(*p)->next)
        if (*p == job) {
            if (!(*p = job->next))
                s->queue_end = p;
            job_free(job);
            return;
        }
}

/* Copies what `decode` gave of the samples of a job, as its asker may give it up. False: no memory. */
static bool copy_begun(struct job *job, const struct leat_values *values)
{
    const void *data;
    uint64_t bytes, all = 0;
    if (!job->n || !leat_values_begun(values, 0, &data, &bytes))
        return true;
    for (size_t i = 0; i < job->n; i++, all += bytes)
        leat_values_begun(values, i, &data, &bytes);
    job->begun = malloc((size_t)all + 1);
    job->begun_bytes = malloc(job->n * sizeof *job->begun_bytes);
    if (!job->begun || !job->begun_bytes)
        return false;
    all = 0;
    for (size_t i = 0; i < job->n; i++, all += bytes) {
        leat_values_begun(values, i, &data, &bytes);
        job->begun_bytes[i] = data ? (int64_t)bytes : -1;
        if (bytes)
            memcpy(job->begun + all, data, (size_t)bytes);
    }
    return true;
}

/* Has the source's thread carry out a job like `what`, and waits for it. */
static int carry_out(struct source *s, const struct job *what, const size_t *fields, const uint64_t *samples,
                     size_t *failed, struct leat_error *error)
{
    struct job *job = calloc(1, sizeof *job);
    const size_t n_fields = what->n_fields, n = what->n;
    int rc = LEAT_OK;
    bool start;
    if (job) {
        *job = *what;
        job->fields = malloc((n_fields + 1) * sizeof *fields);
        job->samples = malloc((n + 1) * sizeof *samples);
    }
    if (!job || !job->fields || !job->samples || (what->out && !copy_begun(job, what->out))) {
        if (job)
            job_free(job);
        return fail(error, LEAT_E_NOMEM, "no memory to read from the source", "");
    }
    memcpy(job->fields, fields, n_fields * sizeof *fields);
    memcpy(job->samples, samples, n * sizeof *samples);
    pthread_mutex_lock(&lock);
    if ((start = !s->started)) {
        s->started = true;
        s->references++;
    }
    *s->queue_end = job;
    s->queue_end = &job->next;
    pthread_cond_signal(&s->work);
    if (start) {
        pthread_mutex_unlock(&lock);
        rc = start_thread(s, error);
        pthread_mutex_lock(&lock);
        if (rc) {
            s->started = false;
            s->references--;
        }
    }
    if (!rc)
        rc = wait_for(s, job, error);
    if (!job->done) {
        abandon(s, job);
        pthread_mutex_unlock(&lock);
        return rc;
    }
    pthread_mutex_unlock(&lock);
    rc = job->error.code;
    if (rc) {
        *error = job->error;
        *failed = job->failed;
    }
    job_free(job);
    return rc;
}

static int compute(void *user, const size_t *fields, size_t n_fields, const uint64_t *samples, size_t n,
                   struct leat_values *out, size_t *failed, struct leat_error *error)
{
    struct leat_error unused;
    const struct job what = {
        .n_fields = n_fields, .n = n, .out = out, .failed = n, .may_lack = leat_values_may_lack(out)};
    return carry_out(user, &what, fields, samples, failed, error ? error : &unused);
}

static int decode(void *user, const size_t *fields, size_t n_fields, uint64_t number, struct leat_chunk *out,
                  struct leat_error *error)
{
    struct leat_error unused;
    size_t failed;
    const struct job what = {.n_fields = n_fields, .n = 1, .chunk = out, .whole = true};
    return carry_out(user, &what, fields, &number, &failed, error ? error : &unused);
}

/* The data set is gone: its thread ends when it has no job. */
static void end_source(void *user)
{
    struct source *s = user;
    pthread_mutex_lock(&lock);
    s->closing = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&lock);
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    release_source(s);
    PyGILState_Release(state);
}

void py_source_chain(PyObject *exception, const char *message)
{
    const struct kept *newest = NULL;
    for (const struct kept *k = kept; k < kept + KEPT; k++)
        if (k->exception && !strcmp(message, k->message) && (!newest || k->number > newest->number))
            newest = k;
    if (!newest)
        return;
    Py_INCREF(newest->exception);
    PyException_SetCause(exception, newest->exception); /* takes it */
}

/* ---- making ---------------------------------------------------------------------------------- */

/* A data set that was made, with the names of its classes, and the numbers of fields in which samples may have no
 * value: size_t. */
static PyObject *finished(struct leat_dataset *handle, PyObject *classes, const char *lacking, Py_ssize_t bytes)
{
    struct leat_error error;
    size_t n;
    const char **names = py_strings_of(classes, &n);
    int rc = names ? leat_dataset_name_classes(handle, names, n, &error) : LEAT_OK;
    const bool good = names && !rc;
    free(names);
    if (good && bytes)
        rc = leat_dataset_may_lack(handle, (const size_t *)(const void *)lacking, (size_t)bytes / sizeof(size_t),
                                   &error);
    if (good && !rc)
        return py_dataset_new(handle);
    leat_dataset_release(handle);
    return rc ? py_raise(&error) : NULL;
}

/* source(schema, count, version, reader, timeout_s, warn_s, classes, lacking, rows) -> Dataset; rows: uint64 of each
 * chunk of a source that decodes chunks, else None */
PyObject *py_source_make(PyObject *module, PyObject *args)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    PyObject *schema, *reader, *classes;
    Py_ssize_t lacking_bytes, rows_bytes;
    unsigned long long count;
    const char *version, *lacking, *rows;
    double timeout_s, warn_s;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "OKsOddO!y#z#:source", &schema, &count, &version, &reader, &timeout_s, &warn_s,
                          &PyList_Type, &classes, &lacking, &lacking_bytes, &rows, &rows_bytes))
        return NULL;
    struct leat_field *fields;
    Py_ssize_t n = py_schema_fields(schema, &fields);
    if (n < 0)
        return NULL;
    struct source *s = calloc(1, sizeof *s);
    if (!s) {
        free(fields);
        return PyErr_NoMemory();
    }
    pthread_once(&once, prepare_once);
    Py_INCREF(reader);
    *s = (struct source){.read = reader,
                         .timeout_s = timeout_s,
                         .warn_s = warn_s,
                         .references = 1,
                         .queue_end = &s->queue,
                         .looked = now_s()};
    init_conditions(s);
    int rc = rows
                 ? leat_dataset_from_chunks(fields, (size_t)n, (const uint64_t *)(const void *)rows,
                                            (uint64_t)rows_bytes / sizeof(uint64_t), version, decode, compute,
                                            end_source, s, &handle, &error)
                 : leat_dataset_from_source(fields, (size_t)n, count, version, compute, end_source, s, &handle, &error);
    free(fields);
    if (rc) {
        Py_DECREF(reader);
        free(s);
        return py_raise(&error);
    }
    if (!rows && !(timeout_s > 0 && timeout_s < SHORT_TIMEOUT_S))
        leat_dataset_ask_many(handle, &error);
    pthread_mutex_lock(&lock);
    s->next = sources;
    sources = s;
    pthread_mutex_unlock(&lock);
    return finished(handle, classes, lacking, lacking_bytes);
}

/* On any thread. After the interpreter is gone, so are the arrays. */
void py_let_go(void *user)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

/* arrays(schema, count, [(address, stride, address of offsets or 0, bytes of an offset), ...], version or None, keep,
 * classes) -> Dataset; keep holds the arrays */
PyObject *py_arrays_make(PyObject *module, PyObject *args)
{
    PyObject *schema, *places, *keep, *classes;
    const char *version;
    unsigned long long count;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    int rc = LEAT_OK;
    if (!PyArg_ParseTuple(args, "OKOzOO!:arrays", &schema, &count, &places, &version, &keep, &PyList_Type, &classes))
        return NULL;
    struct leat_field *fields;
    Py_ssize_t n = py_schema_fields(schema, &fields);
    if (n < 0)
        return NULL;
    struct leat_array *arrays = calloc((size_t)n + 1, sizeof *arrays);
    for (Py_ssize_t i = 0; arrays && i < n; i++) {
        unsigned long long address = 0, offsets = 0;
        unsigned offset_bytes = 0;
        long long stride = 0;
        PyObject *place = PyList_GetItem(places, i);
        if (!place || !PyArg_ParseTuple(place, "KLKI", &address, &stride, &offsets, &offset_bytes)) {
            free(arrays);
            free(fields);
            return NULL;
        }
        arrays[i] = (struct leat_array){.data = (const void *)(uintptr_t)address,
                                        .stride_bytes = stride,
                                        .offsets = (const void *)(uintptr_t)offsets,
                                        .offset_bytes = offset_bytes};
    }
    if (arrays) {
        Py_INCREF(keep);
        PY_WITHOUT_GIL(
            rc = leat_dataset_from_arrays(fields, arrays, (size_t)n, count, version, py_let_go, keep, &handle, &error));
    } else {
        rc = fail(&error, LEAT_E_NOMEM, "no memory for a data set", "");
    }
    if (rc && arrays)
        Py_DECREF(keep);
    free(arrays);
    free(fields);
    if (rc)
        return py_raise(&error);
    return finished(handle, classes, NULL, 0);
}

/* windows(Dataset, field, length, stride, tail) -> Dataset */
PyObject *py_dataset_windows(PyObject *module, PyObject *args)
{
    PyObject *records;
    const char *field;
    unsigned long long length, stride;
    int tail, rc;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "OsKKi:windows", &records, &field, &length, &stride, &tail))
        return NULL;
    if (Py_TYPE(records) != py_dataset_type) {
        PyErr_SetString(PyExc_TypeError, "a data set is needed");
        return NULL;
    }
    struct leat_dataset *of = py_dataset_handle(records);
    PY_WITHOUT_GIL(rc = leat_dataset_windows(of, field, length, stride, (enum leat_windows_tail)tail, &handle, &error));
    return rc ? py_raise(&error) : py_dataset_new(handle);
}

/* zip([Dataset], [name], bare, [field]) -> Dataset; of no field: all are taken */
PyObject *py_dataset_zip(PyObject *module, PyObject *args)
{
    PyObject *list, *names, *fields;
    int bare, rc = LEAT_OK;
    struct leat_dataset *handle = NULL;
    struct leat_error error;
    size_t n = 0, n_names = 0, n_taken = 0;
    if (!PyArg_ParseTuple(args, "OOpO:zip", &list, &names, &bare, &fields))
        return NULL;
    struct leat_dataset **parts = py_datasets_of(list, &n);
    const char **texts = parts ? py_strings_of(names, &n_names) : NULL;
    const char **taken = texts ? py_strings_of(fields, &n_taken) : NULL;
    if (taken && n != n_names)
        PyErr_SetString(PyExc_ValueError, "a name for each data set is needed");
    else if (taken)
        rc = leat_dataset_zip(parts, texts, n, bare, n_taken ? taken : NULL, n_taken, &handle, &error);
    free(parts);
    free(texts);
    free(taken);
    return rc ? py_raise(&error) : handle ? py_dataset_new(handle) : NULL;
}
