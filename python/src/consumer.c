/*
 * Readers of batches: loaders, further consumers of one, and readers attached to a port. The one hot call is next(): a
 * batch that is ready is taken at once, with the GIL held, because giving the GIL away and asking for it back can cost
 * more than the batch did; it waits only if there is none, in slices, without the GIL, and looks for signals in
 * between, so that Ctrl-C works however long a batch takes. A reader of a port always lets the GIL go: it may have to
 * ask the port, which may be of this process and read data that Python makes.
 */
#include "leat_py.h"

#include <limits.h>
#include <time.h>

#include "engine/interrupt.h"

enum { SLICE_MS = 100 };

static PyObject *raise_closed(const struct py_reader *r)
{
    return py_raise_text(LEAT_E_CLOSED, r->kind->closed);
}

static PyObject *raise_forked(const struct py_reader *r)
{
    return py_raise_text(LEAT_E_FORKED, r->kind->forked);
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
        raise_forked(r);
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

/* With the guard: the batch if it is there, else LEAT_E_TIMEOUT. */
static int take(struct py_reader *r, uint64_t iteration, struct leat_batch **batch, struct leat_error *error)
{
    if (!r->consumer)
        return LEAT_E_TIMEOUT;
    return iteration == PEEK ? leat_consumer_peek(r->consumer, 0, batch, error)
                             : leat_consumer_next(r->consumer, iteration, 0, batch, error);
}

/* As take, with the GIL. */
static int take_ready(struct py_reader *r, uint64_t iteration, struct leat_batch **batch, struct leat_error *error)
{
    if (atomic_load_explicit(&r->guard.waiting, memory_order_relaxed) || !py_guard_try(&r->guard))
        return LEAT_E_TIMEOUT;
    int rc = take(r, iteration, batch, error);
    py_guard_unlock(&r->guard);
    return rc;
}

/* Without the GIL, with the guard: does what `how` says. */
enum how {
    TAKE,  /* takes the batch, if it is there */
    AWAIT, /* waits until it is there */
    GET    /* waits for it, and takes it */
};
static int ask(struct py_reader *r, uint64_t iteration, enum how how, bool *at_hand, struct leat_batch **batch,
               struct leat_error *error)
{
    int rc = LEAT_E_TIMEOUT;
    const struct py_waiting outer = py_waiting;
    py_waiting = (struct py_waiting){r->consumer, &r->closing};
    *at_hand = true;
    if (how == TAKE)
        rc = take(r, iteration, batch, error);
    else if (r->consumer && iteration == PEEK)
        rc = leat_consumer_peek(r->consumer, SLICE_MS, batch, error);
    else if (r->consumer && how == AWAIT)
        rc = leat_consumer_await(r->consumer, iteration, SLICE_MS, at_hand, error);
    else if (r->consumer)
        rc = leat_consumer_next(r->consumer, iteration, SLICE_MS, batch, error);
    py_waiting = outer;
    return rc;
}

static void lock_for_slice(struct py_reader *r)
{
    if (atomic_load(&r->guard.waiting)) {
        struct timespec ms = {.tv_nsec = 1000000};
        nanosleep(&ms, NULL);
    }
    py_guard_lock_without_gil(&r->guard);
}

/* Waits for one slice: the batch, or LEAT_E_TIMEOUT. RAISED: a signal handler has raised, and the batch is left.
 * Handlers run without the guard: they may wait for threads that ask for it. *late: a batch was due, and could not be
 * put together. */
#define RAISED 2
static int wait_slice(struct py_reader *r, uint64_t iteration, bool *late, struct leat_batch **batch,
                      struct leat_error *error)
{
    int rc;
    bool at_hand, sure;
    Py_BEGIN_ALLOW_THREADS;
    lock_for_slice(r);
    rc = ask(r, iteration, *late ? GET : AWAIT, &at_hand, batch, error);
    py_guard_unlock(&r->guard);
    Py_END_ALLOW_THREADS;
    *late = false;
    if (PyErr_Occurred() || PyErr_CheckSignals())
        return RAISED;
    if ((rc && rc != LEAT_E_END) || *batch)
        return rc;
    if (at_hand && !r->kind->asks) {
        py_guard_lock(&r->guard);
        rc = take(r, iteration, batch, error);
        py_guard_unlock(&r->guard);
        return rc;
    }
    Py_BEGIN_ALLOW_THREADS;
    py_guard_lock_without_gil(&r->guard);
    rc = ask(r, iteration, TAKE, &sure, batch, error);
    py_guard_unlock(&r->guard);
    Py_END_ALLOW_THREADS;
    *late = rc == LEAT_E_TIMEOUT && !at_hand;
    return PyErr_Occurred() ? RAISED : rc;
}

/* The batch. A signal handler that raises while it is waited for leaves it to the next call, for which it may have to
 * be made anew: whoever worked at it was interrupted. */
static PyObject *get_batch(struct py_reader *r, uint64_t iteration)
{
    struct leat_batch *batch = NULL;
    struct leat_error error;
    bool late = false;
    if (!py_guard_here(&r->guard))
        return raise_forked(r);
    if (py_guard_mine(&r->guard))
        return py_raise_within();
    if (PyErr_CheckSignals())
        return NULL;
    int rc = r->kind->asks ? LEAT_E_TIMEOUT : take_ready(r, iteration, &batch, &error);
    while (rc == LEAT_E_TIMEOUT || rc == LEAT_E_CANCELLED) {
        if (atomic_load(&r->closing))
            return raise_closed(r);
        rc = wait_slice(r, iteration, &late, &batch, &error);
    }
    if (batch && iteration != PEEK)
        r->taker = PyThread_get_thread_ident();
    if (rc == RAISED)
        leat_batch_free(batch);
    else if (rc == LEAT_OK)
        return py_batch_new(batch, r->readonly);
    else if (rc == LEAT_E_END)
        Py_RETURN_NONE;
    return rc == RAISED ? NULL : py_raise(&error);
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

PyObject *py_reader_begin_step(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    if (r->taker == PyThread_get_thread_ident())
        r->taker = 0;
    Py_RETURN_NONE;
}

PyObject *py_reader_put_back(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    bool done = false;
    if (!py_guard_here(&r->guard) || py_guard_mine(&r->guard))
        Py_RETURN_FALSE;
    py_guard_lock(&r->guard);
    if (r->consumer && r->taker == PyThread_get_thread_ident()) { /* and no thread took one since */
        r->taker = 0;
        PY_WITHOUT_GIL(done = leat_consumer_put_back(r->consumer));
    }
    py_guard_unlock(&r->guard);
    return PyBool_FromLong(done);
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

PyObject *py_reader_epoch(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    struct leat_consumer *consumer = py_reader_look(r);
    if (!consumer)
        return NULL;
    const uint64_t epoch = leat_consumer_epoch(consumer);
    py_guard_unlock(&r->guard);
    return PyLong_FromUnsignedLongLong(epoch);
}

PyObject *py_reader_steps(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    uint64_t steps = 0;
    bool ok;
    PY_READER_ASK(ok, r, leat_consumer_steps(r->consumer, &steps, &error));
    return ok ? PyLong_FromUnsignedLongLong(steps) : NULL;
}

PyObject *py_reader_state(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    PY_READER_TEXT(r, leat_consumer_state(r->consumer, &json, &error));
}

PyObject *py_reader_load_state(PyObject *self, PyObject *text)
{
    struct py_reader *r = (struct py_reader *)self;
    const char *json = PyUnicode_AsUTF8AndSize(text, NULL);
    if (!json)
        return NULL;
    bool ok;
    PY_READER_CALL(ok, r, leat_consumer_load_state(r->consumer, json, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

PyObject *py_ids_take(bool ok, int64_t *ids, uint64_t n)
{
    PyObject *memory = ok ? py_memory_copy(ids, LEAT_I64, n) : NULL;
    leat_free(ids);
    return memory;
}

PyObject *py_reader_batch(bool ok, const struct py_reader *r, struct leat_batch *batch)
{
    if (ok)
        return py_batch_new(batch, r->readonly);
    leat_batch_free(batch);
    return NULL;
}

/* ---- open and close -------------------------------------------------------------------------- */

void *py_reader_new(PyTypeObject *type, const struct py_reader_kind *kind)
{
    struct py_reader *r = py_object_new(type);
    if (r) {
        py_guard_init(&r->guard);
        r->kind = kind;
    }
    return r;
}

PyObject *py_opened(PyObject *made, int rc, const struct leat_error *error)
{
    PyObject *kind, *value, *trace;
    if (rc)
        py_raise(error);
    if (!PyErr_Occurred())
        return made;
    PyErr_Fetch(&kind, &value, &trace);
    Py_DECREF(made);
    PyErr_Restore(kind, value, trace);
    return NULL;
}

void py_reader_end(struct py_reader *r)
{
    if (!r->consumer)
        return;
    r->kind->end(r);
}

PyObject *py_reader_close(PyObject *self, PyObject *none)
{
    struct py_reader *r = (struct py_reader *)self;
    if (!py_guard_here(&r->guard))
        Py_RETURN_NONE;
    if (py_guard_mine(&r->guard))
        return py_raise_within();
    atomic_store(&r->closing, true);
    while (!py_guard_try(&r->guard)) { /* its holder may have begun to wait just now */
        struct timespec ms = {.tv_nsec = 1000000};
        if (r->consumer)
            leat_consumer_interrupt(r->consumer);
        PY_WITHOUT_GIL(nanosleep(&ms, NULL));
    }
    py_reader_end(r);
    py_guard_unlock(&r->guard);
    Py_RETURN_NONE;
}

/* ---- further consumers ----------------------------------------------------------------------- */

static void end_consumer(struct py_reader *r)
{
    struct leat_consumer *consumer = r->consumer;
    r->consumer = NULL;
    PY_WITHOUT_GIL(leat_consumer_close(consumer));
}

static const struct py_reader_kind kind_of_consumer = {
    .closed = "the consumer is closed: loader.consumer(...) opens another one",
    .forked = PY_LOADER_FORKED,
    .end = end_consumer};

PyObject *py_consumer_open(struct leat_loader *loader, uint64_t batch_size, bool beginning)
{
    struct leat_error error;
    int rc;
    struct py_reader *r = py_reader_new(py_consumer_type, &kind_of_consumer);
    if (!r)
        return NULL;
    PY_WITHOUT_GIL(rc = leat_consumer_open(loader, batch_size, beginning, &r->consumer, &error));
    return py_opened((PyObject *)r, rc, &error);
}

static void consumer_dealloc(PyObject *self)
{
    py_reader_end((struct py_reader *)self);
    py_object_free(self);
}

static PyMethodDef consumer_methods[] = {
    PY_READER_METHODS,
    {NULL, NULL, 0, NULL},
};

static PyType_Slot consumer_slots[] = {
    {Py_tp_doc, (void *)"A handle of a consumer of a loader."},
    {Py_tp_dealloc, (void *)consumer_dealloc},
    {Py_tp_methods, consumer_methods},
    {0, NULL},
};

PyType_Spec py_consumer_spec = PY_TYPE(Consumer, struct py_reader, consumer_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
