/*
 * Readers of batches: loaders, and further consumers of one. The one hot call is next(): a batch that is ready is taken
 * at once, with the GIL held, because giving the GIL away and asking for it back can cost more than the batch did; it
 * waits only if there is none, in slices, without the GIL, and looks for signals in between, so that Ctrl-C works
 * however long a batch takes.
 */
#include "leat_py.h"

#include <limits.h>
#include <time.h>

enum { SLICE_MS = 100 };

static PyObject *raise_closed(struct py_reader *r)
{
    return py_raise_text(LEAT_E_CLOSED, Py_TYPE((PyObject *)r) == py_consumer_type
                                            ? "the consumer is closed: loader.consumer(...) opens another one"
                                            : "the Loader is closed: open another one");
}

static PyObject *raise_forked(void)
{
    return py_raise_text(LEAT_E_FORKED, "a Loader and its consumers work only in the process that opened it: open one "
                                        "after the fork; the data set may be shared");
}

PyObject *py_raise_within(void)
{
    PyErr_SetString(PyExc_RuntimeError,
                    "this thread is within a call of this Loader, and a signal handler may only ask "
                    "it then (state_dict(), epoch, stats()): set a flag in the handler, and do the "
                    "rest after the batch");
    return NULL;
}

struct leat_consumer *py_reader_enter(struct py_reader *r)
{
    if (!py_guard_mine(&r->guard))
        return py_reader_look(r);
    py_raise_within();
    return NULL;
}

struct leat_consumer *py_reader_look(struct py_reader *r)
{
    if (!py_guard_here(&r->guard)) {
        raise_forked();
        return NULL;
    }
    py_guard_lock(&r->guard);
    if (r->consumer)
        return r->consumer;
    py_guard_unlock(&r->guard);
    raise_closed(r);
    return NULL;
}

/* The number of no iteration: the next batch is peeked at. */
#define PEEK UINT64_MAX

static int ask(struct leat_consumer *c, uint64_t iteration, int64_t timeout_ms, struct leat_batch **batch,
               struct leat_error *error)
{
    return iteration == PEEK ? leat_consumer_peek(c, timeout_ms, batch, error)
                             : leat_consumer_next(c, iteration, timeout_ms, batch, error);
}

/* The batch if it is ready, else LEAT_E_TIMEOUT. */
static int next_ready(struct py_reader *r, uint64_t iteration, struct leat_batch **batch, struct leat_error *error)
{
    int rc = LEAT_E_TIMEOUT;
    if (atomic_load_explicit(&r->guard.waiting, memory_order_relaxed) || !py_guard_try(&r->guard))
        return rc;
    if (r->consumer)
        rc = ask(r->consumer, iteration, 0, batch, error);
    py_guard_unlock(&r->guard);
    return rc;
}

/* Without the GIL: waits for one slice. */
static int next_wait(struct py_reader *r, uint64_t iteration, struct leat_batch **batch, struct leat_error *error)
{
    int rc = LEAT_E_TIMEOUT;
    if (atomic_load(&r->guard.waiting)) {
        struct timespec ms = {.tv_nsec = 1000000};
        nanosleep(&ms, NULL);
    }
    py_guard_lock_without_gil(&r->guard);
    const struct py_waiting outer = py_waiting;
    py_waiting = (struct py_waiting){r->consumer, &r->closing};
    if (r->consumer)
        rc = ask(r->consumer, iteration, SLICE_MS, batch, error);
    py_waiting = outer;
    py_guard_unlock(&r->guard);
    return rc;
}

static PyObject *get_batch(struct py_reader *r, uint64_t iteration)
{
    struct leat_batch *batch = NULL;
    struct leat_error error;
    if (!py_guard_here(&r->guard))
        return raise_forked();
    if (py_guard_mine(&r->guard))
        return py_raise_within();
    int rc = next_ready(r, iteration, &batch, &error);
    while (rc == LEAT_E_TIMEOUT) {
        if (atomic_load(&r->closing))
            return raise_closed(r);
        PY_WITHOUT_GIL(rc = next_wait(r, iteration, &batch, &error));
        if (rc == LEAT_E_TIMEOUT && (PyErr_Occurred() || PyErr_CheckSignals()))
            return NULL;
    }
    if (PyErr_Occurred()) { /* a signal handler's, with which no batch comes: py_waiting */
        leat_batch_free(batch);
        return NULL;
    }
    if (rc == LEAT_OK)
        return py_batch_new(batch, false);
    if (rc == LEAT_E_END)
        Py_RETURN_NONE;
    return rc == LEAT_E_CANCELLED && atomic_load(&r->closing) ? raise_closed(r) : py_raise(&error);
}

PyObject *py_reader_next(PyObject *self, PyObject *number)
{
    const uint64_t iteration = PyLong_AsUnsignedLongLong(number);
    if (iteration == UINT64_MAX && PyErr_Occurred())
        return NULL;
    return get_batch((struct py_reader *)self, iteration);
}

PyObject *py_reader_peek(PyObject *self, PyObject *none)
{
    return get_batch((struct py_reader *)self, PEEK);
}

PyObject *py_reader_start(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    uint64_t iteration = 0;
    bool ok;
    PY_READER_CALL(ok, r, leat_consumer_start(r->consumer, &iteration, &error));
    return ok ? PyLong_FromUnsignedLongLong(iteration) : NULL;
}

PyObject *py_reader_set_epoch(PyObject *self, PyObject *number)
{
    struct py_reader *r = (struct py_reader *)self;
    bool dropped = false, ok;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(number);
    if (epoch == ULLONG_MAX && PyErr_Occurred())
        return NULL;
    PY_READER_CALL(ok, r, leat_consumer_set_epoch(r->consumer, epoch, &dropped, &error));
    return ok ? PyBool_FromLong(dropped) : NULL;
}

/* A number that is known at once. */
static PyObject *number_of(PyObject *self, uint64_t (*get)(const struct leat_consumer *))
{
    struct py_reader *r = (struct py_reader *)self;
    struct leat_consumer *consumer = py_reader_look(r);
    if (!consumer)
        return NULL;
    uint64_t n = get(consumer);
    py_guard_unlock(&r->guard);
    return PyLong_FromUnsignedLongLong(n);
}

PyObject *py_reader_epoch(PyObject *self, PyObject *none)
{
    return number_of(self, leat_consumer_epoch);
}

PyObject *py_reader_steps(PyObject *self, PyObject *none)
{
    return number_of(self, leat_consumer_steps);
}

PyObject *py_reader_state(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    char *json = NULL;
    bool ok;
    PY_READER_ASK(ok, r, leat_consumer_state(r->consumer, &json, &error));
    return ok ? py_text_take(json) : NULL;
}

PyObject *py_reader_load_state(PyObject *self, PyObject *text)
{
    struct py_reader *r = (struct py_reader *)self;
    const char *json = PyUnicode_AsUTF8AndSize(text, NULL);
    bool ok;
    if (!json)
        return NULL;
    PY_READER_CALL(ok, r, leat_consumer_load_state(r->consumer, json, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- further consumers ----------------------------------------------------------------------- */

PyObject *py_consumer_open(struct leat_loader *loader, uint64_t batch_size, bool beginning)
{
    struct leat_consumer *consumer;
    struct leat_error error;
    int rc;
    PY_WITHOUT_GIL(rc = leat_consumer_open(loader, batch_size, beginning, &consumer, &error));
    if (rc)
        return py_raise(&error);
    struct py_reader *r = py_object_new(py_consumer_type);
    if (!r) {
        leat_consumer_close(consumer);
        return NULL;
    }
    py_guard_init(&r->guard);
    r->consumer = consumer;
    return (PyObject *)r;
}

static void close_now(struct py_reader *r)
{
    struct leat_consumer *consumer = r->consumer;
    r->consumer = NULL;
    PY_WITHOUT_GIL(leat_consumer_close(consumer)); /* does nothing in a forked child */
}

static PyObject *close_consumer(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    if (!py_guard_here(&r->guard))
        Py_RETURN_NONE;
    if (py_guard_mine(&r->guard))
        return py_raise_within();
    atomic_store(&r->closing, true);
    py_guard_lock(&r->guard);
    close_now(r);
    py_guard_unlock(&r->guard);
    Py_RETURN_NONE;
}

static void consumer_dealloc(PyObject *self)
{
    close_now((struct py_reader *)self);
    py_object_free(self);
}

static PyMethodDef consumer_methods[] = {
    PY_READER_METHODS,
    {"close", close_consumer, METH_NOARGS, "close()"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot consumer_slots[] = {
    {Py_tp_doc, (void *)"A handle of a consumer of a loader."},
    {Py_tp_dealloc, (void *)consumer_dealloc},
    {Py_tp_methods, consumer_methods},
    {0, NULL},
};

PyType_Spec py_consumer_spec = PY_TYPE(Consumer, struct py_reader, consumer_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
