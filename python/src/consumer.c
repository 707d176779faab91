/* Consumers of a loader: as loaders, each with a guard of its own. */
#include "leat_py.h"

#include <limits.h>
#include <time.h>

enum { SLICE_MS = 100 };

struct consumer {
    PyObject_HEAD struct py_guard guard;
    struct leat_consumer *handle; /* NULL: closed */
    atomic_bool closing;
};

PyObject *py_consumer_open(struct leat_loader *loader, uint64_t batch_size, bool beginning)
{
    struct leat_consumer *handle;
    struct leat_error error;
    int rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_consumer_open(loader, batch_size, beginning, &handle, &error);
    Py_END_ALLOW_THREADS;
    if (rc)
        return py_raise(&error);
    allocfunc allocate = (allocfunc)PyType_GetSlot(py_consumer_type, Py_tp_alloc);
    struct consumer *c = (struct consumer *)allocate(py_consumer_type, 0);
    if (!c) {
        leat_consumer_close(handle);
        return NULL;
    }
    py_guard_init(&c->guard);
    c->handle = handle;
    return (PyObject *)c;
}

static PyObject *close_consumer(PyObject *self, PyObject *none)
{
    struct consumer *c = (struct consumer *)self;
    (void)none;
    if (!py_guard_here(&c->guard))
        Py_RETURN_NONE;
    atomic_store(&c->closing, true);
    py_guard_lock(&c->guard);
    struct leat_consumer *handle = c->handle;
    c->handle = NULL;
    Py_BEGIN_ALLOW_THREADS;
    leat_consumer_close(handle);
    Py_END_ALLOW_THREADS;
    py_guard_unlock(&c->guard);
    Py_RETURN_NONE;
}

static void consumer_dealloc(PyObject *self)
{
    struct consumer *c = (struct consumer *)self;
    struct leat_consumer *handle = c->handle;
    c->handle = NULL;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS;
        leat_consumer_close(handle); /* does nothing in a forked child */
        Py_END_ALLOW_THREADS;
    }
    py_object_free(self);
}

/* The handle with the guard taken, or NULL with an exception. */
static struct leat_consumer *consumer_enter(struct consumer *c)
{
    if (!py_guard_here(&c->guard)) {
        py_raise_text(LEAT_E_FORKED, "a consumer works only in the process that opened its Loader");
        return NULL;
    }
    py_guard_lock(&c->guard);
    if (c->handle)
        return c->handle;
    py_guard_unlock(&c->guard);
    py_raise_text(LEAT_E_CLOSED, "the consumer is closed: loader.consumer(...) opens another one");
    return NULL;
}

/* next(iteration) -> Batch, or None at the end of the epoch. Waits in slices without the GIL. */
static PyObject *consumer_next(PyObject *self, PyObject *number)
{
    struct consumer *c = (struct consumer *)self;
    uint64_t iteration = PyLong_AsUnsignedLongLong(number);
    if (iteration == UINT64_MAX && PyErr_Occurred())
        return NULL;
    struct leat_batch *batch = NULL;
    struct leat_error error;
    int rc = LEAT_E_TIMEOUT;
    while (rc == LEAT_E_TIMEOUT) {
        struct leat_consumer *handle = consumer_enter(c);
        if (!handle)
            return NULL;
        Py_BEGIN_ALLOW_THREADS;
        rc = leat_consumer_next(handle, iteration, atomic_load(&c->closing) ? 0 : SLICE_MS, &batch, &error);
        Py_END_ALLOW_THREADS;
        py_guard_unlock(&c->guard);
        if (rc == LEAT_E_TIMEOUT && PyErr_CheckSignals())
            return NULL;
    }
    if (rc == LEAT_OK)
        return py_batch_new(batch);
    if (rc == LEAT_E_END)
        Py_RETURN_NONE;
    return py_raise(&error);
}

static PyObject *consumer_start(PyObject *self, PyObject *none)
{
    struct consumer *c = (struct consumer *)self;
    struct leat_consumer *handle = consumer_enter(c);
    struct leat_error error;
    uint64_t iteration = 0;
    (void)none;
    if (!handle)
        return NULL;
    int rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = leat_consumer_start(handle, &iteration, &error);
    Py_END_ALLOW_THREADS;
    py_guard_unlock(&c->guard);
    return rc ? py_raise(&error) : PyLong_FromUnsignedLongLong(iteration);
}

static PyObject *consumer_set_epoch(PyObject *self, PyObject *number)
{
    struct consumer *c = (struct consumer *)self;
    struct leat_error error;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(number);
    if (epoch == ULLONG_MAX && PyErr_Occurred())
        return NULL;
    struct leat_consumer *handle = consumer_enter(c);
    if (!handle)
        return NULL;
    int rc = leat_consumer_set_epoch(handle, epoch, &error);
    py_guard_unlock(&c->guard);
    if (rc)
        return py_raise(&error);
    Py_RETURN_NONE;
}

static PyObject *number_of(PyObject *self, uint64_t (*get)(const struct leat_consumer *))
{
    struct consumer *c = (struct consumer *)self;
    struct leat_consumer *handle = consumer_enter(c);
    if (!handle)
        return NULL;
    uint64_t n = get(handle);
    py_guard_unlock(&c->guard);
    return PyLong_FromUnsignedLongLong(n);
}

static PyObject *consumer_epoch(PyObject *self, PyObject *none)
{
    (void)none;
    return number_of(self, leat_consumer_epoch);
}

static PyObject *consumer_steps(PyObject *self, PyObject *none)
{
    (void)none;
    return number_of(self, leat_consumer_steps);
}

static PyObject *consumer_state(PyObject *self, PyObject *none)
{
    struct consumer *c = (struct consumer *)self;
    struct leat_consumer *handle = consumer_enter(c);
    struct leat_error error;
    char *json = NULL;
    (void)none;
    if (!handle)
        return NULL;
    int rc = leat_consumer_state(handle, &json, &error);
    py_guard_unlock(&c->guard);
    return rc ? py_raise(&error) : py_text_take(json);
}

static PyObject *consumer_load_state(PyObject *self, PyObject *text)
{
    struct consumer *c = (struct consumer *)self;
    struct leat_error error;
    const char *json = PyUnicode_AsUTF8AndSize(text, NULL);
    struct leat_consumer *handle = json ? consumer_enter(c) : NULL;
    if (!handle)
        return NULL;
    int rc = leat_consumer_load_state(handle, json, &error);
    py_guard_unlock(&c->guard);
    if (rc)
        return py_raise(&error);
    Py_RETURN_NONE;
}

static PyMethodDef consumer_methods[] = {
    {"start", consumer_start, METH_NOARGS, "start(): begins an epoch; the iteration's number"},
    {"next", consumer_next, METH_O, "next(iteration): a Batch, or None at the end of the epoch"},
    {"close", close_consumer, METH_NOARGS, "close()"},
    {"set_epoch", consumer_set_epoch, METH_O, "set_epoch(epoch)"},
    {"epoch", consumer_epoch, METH_NOARGS, "epoch()"},
    {"steps", consumer_steps, METH_NOARGS, "steps(): batches of an epoch"},
    {"state", consumer_state, METH_NOARGS, "state(): JSON text"},
    {"load_state", consumer_load_state, METH_O, "load_state(JSON text)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot consumer_slots[] = {
    {Py_tp_doc, (void *)"A handle of a consumer of a loader."},
    {Py_tp_dealloc, (void *)consumer_dealloc},
    {Py_tp_methods, consumer_methods},
    {0, NULL},
};

PyType_Spec py_consumer_spec = {
    .name = "leat._leat.Consumer",
    .basicsize = sizeof(struct consumer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = consumer_slots,
};
