/*
 * Ports, and readers attached to one. A port is opened over a loader that it alone reads from then on; a reader that is
 * attached has the methods of a loader, and gives batches that are those of one (batch.c).
 *
 * Waits are in slices, without the GIL, and look for signals in between, as consumer.c does. The GIL is let go for each
 * batch, also for one that is ready: the reader may have to ask the port for it, or wait for it, and the port may be of
 * this process and read data that Python makes.
 */
#include "leat_py.h"

#include <limits.h>
#include <time.h>

enum { SLICE_MS = 100 };

/* ---- ports ----------------------------------------------------------------------------------- */

struct port {
    PyObject_HEAD struct py_guard guard; /* only against closing: the library takes calls of any thread */
    struct leat_port *handle;            /* NULL: closed */
    PyObject *loader;                    /* is closed after it */
    atomic_bool closing;
};

/* open(loader, name, folder, group, about) */
static PyObject *port_open(PyTypeObject *type, PyObject *args)
{
    struct leat_port_options o = LEAT_PORT_OPTIONS_INIT;
    struct leat_error error;
    PyObject *loader, *folder = NULL;
    int rc;
    if (!PyArg_ParseTuple(args, "O!sO&zz:open", py_loader_type, &loader, &o.name, py_path_or_none, &folder, &o.group,
                          &o.about))
        return NULL;
    struct leat_loader *read = py_loader_handle(loader);
    struct port *p = read ? py_object_new(type) : NULL;
    if (p) {
        py_guard_init(&p->guard);
        p->loader = Py_NewRef(loader);
        o.folder = folder ? PyBytes_AsString(folder) : NULL;
        PY_WITHOUT_GIL(rc = leat_port_open(read, &o, &p->handle, &error));
        if (rc) {
            p->handle = NULL;
            py_raise(&error);
        }
        if (PyErr_Occurred()) {
            PyObject *kind, *value, *trace;
            PyErr_Fetch(&kind, &value, &trace);
            Py_CLEAR(p);
            PyErr_Restore(kind, value, trace);
        }
    }
    Py_XDECREF(folder);
    return (PyObject *)p;
}

static void port_close_now(struct port *p)
{
    struct leat_port *handle = p->handle;
    p->handle = NULL;
    if (handle) {
        PY_WITHOUT_GIL(leat_port_close(handle)); /* does nothing in a forked child */
    }
}

static PyObject *port_close(PyObject *self, PyObject *none)
{
    struct port *p = (struct port *)self;
    if (!py_guard_here(&p->guard))
        Py_RETURN_NONE;
    if (py_guard_mine(&p->guard))
        return py_raise_within();
    atomic_store(&p->closing, true);
    py_guard_lock(&p->guard);
    port_close_now(p);
    py_guard_unlock(&p->guard);
    Py_RETURN_NONE;
}

static void port_dealloc(PyObject *self)
{
    struct port *p = (struct port *)self;
    port_close_now(p);
    Py_CLEAR(p->loader);
    py_object_free(self);
}

/* With the guard taken, or NULL with an exception. */
static struct leat_port *port_enter(struct port *p)
{
    if (!py_guard_here(&p->guard)) {
        py_raise_text(LEAT_E_FORKED, "a port works only in the process that opened it");
        return NULL;
    }
    py_guard_lock(&p->guard);
    if (p->handle)
        return p->handle;
    py_guard_unlock(&p->guard);
    py_raise_text(LEAT_E_CLOSED, "the port is closed: open another one");
    return NULL;
}

/* wait(milliseconds, or -1: without end): whether someone asked the port to end, or it was closed meanwhile */
static PyObject *port_wait(PyObject *self, PyObject *timeout)
{
    struct port *p = (struct port *)self;
    struct leat_error error;
    const long long wanted = PyLong_AsLongLong(timeout);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    for (long long left = wanted;;) {
        const int64_t slice = left < 0 || left > SLICE_MS ? SLICE_MS : left;
        int rc;
        if (atomic_load(&p->closing))
            Py_RETURN_TRUE;
        struct leat_port *handle = port_enter(p);
        if (!handle)
            return NULL;
        PY_WITHOUT_GIL(rc = leat_port_wait(handle, slice, &error));
        py_guard_unlock(&p->guard);
        if (rc == LEAT_OK)
            Py_RETURN_TRUE;
        if (rc != LEAT_E_TIMEOUT)
            return py_raise(&error);
        if (PyErr_Occurred() || PyErr_CheckSignals())
            return NULL;
        if (left >= 0 && (left -= slice) <= 0)
            Py_RETURN_FALSE;
        if (atomic_load(&p->guard.waiting)) { /* a caller that closes it, or asks, comes first */
            struct timespec ms = {.tv_nsec = 1000000};
            PY_WITHOUT_GIL(nanosleep(&ms, NULL));
        }
    }
}

static PyObject *port_stat(PyObject *self, PyObject *none)
{
    struct port *p = (struct port *)self;
    struct leat_error error;
    char *json = NULL;
    int rc;
    struct leat_port *handle = port_enter(p);
    if (!handle)
        return NULL;
    PY_WITHOUT_GIL(rc = leat_port_stat(handle, &json, &error));
    py_guard_unlock(&p->guard);
    return rc ? py_raise(&error) : py_text_take(json);
}

static PyMethodDef port_methods[] = {
    {"open", (PyCFunction)port_open, METH_VARARGS | METH_CLASS, "open(loader, name, folder, group, about)"},
    {"wait", port_wait, METH_O, "wait(milliseconds, -1: without end): whether it was asked to end"},
    {"stat", port_stat, METH_NOARGS, "stat(): JSON text"},
    {"close", port_close, METH_NOARGS, "close()"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot port_slots[] = {
    {Py_tp_doc, (void *)"A handle of a port."},
    {Py_tp_dealloc, (void *)port_dealloc},
    {Py_tp_methods, port_methods},
    {0, NULL},
};

PyType_Spec py_port_spec = PY_TYPE(Port, struct port, port_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);

/* ---- ports of other processes ---------------------------------------------------------------- */

/* ports(folder): JSON text */
PyObject *py_ports(PyObject *module, PyObject *folder)
{
    PyObject *path = NULL;
    struct leat_error error;
    char *json = NULL;
    int rc;
    if (!py_path_or_none(folder, &path))
        return NULL;
    const char *in = path ? PyBytes_AsString(path) : NULL;
    PY_WITHOUT_GIL(rc = leat_ports(in, &json, &error));
    Py_XDECREF(path);
    return rc ? py_raise(&error) : py_text_take(json);
}

/* port_ask_stat(folder, name): JSON text */
PyObject *py_port_ask_stat(PyObject *module, PyObject *args)
{
    PyObject *path = NULL;
    struct leat_error error;
    const char *name;
    char *json = NULL;
    int rc;
    if (!PyArg_ParseTuple(args, "O&s:port_ask_stat", py_path_or_none, &path, &name))
        return NULL;
    const char *in = path ? PyBytes_AsString(path) : NULL;
    PY_WITHOUT_GIL(rc = leat_port_ask_stat(in, name, &json, &error));
    Py_XDECREF(path);
    return rc ? py_raise(&error) : py_text_take(json);
}

/* port_stop(folder, name) */
PyObject *py_port_stop(PyObject *module, PyObject *args)
{
    PyObject *path = NULL;
    struct leat_error error;
    const char *name;
    int rc;
    if (!PyArg_ParseTuple(args, "O&s:port_stop", py_path_or_none, &path, &name))
        return NULL;
    const char *in = path ? PyBytes_AsString(path) : NULL;
    PY_WITHOUT_GIL(rc = leat_port_stop(in, name, &error));
    Py_XDECREF(path);
    return py_none_or_raise(rc, &error);
}

/* ---- attaching ------------------------------------------------------------------------------- */

struct attached {
    PyObject_HEAD struct py_guard guard;
    struct leat_attached *handle; /* NULL: closed */
    bool writable;
    atomic_bool closing;
};

static const char *const keywords[] = {"name", "folder",    "batch_size", "rank",  "world_size",  "tail",
                                       "lag",  "beginning", "writable",   "label", "patience_ms", "outputs",
                                       "key",  "samples",   "seed",       NULL};

static PyObject *attached_open(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct leat_attach_options o = LEAT_ATTACH_OPTIONS_INIT;
    struct leat_error error;
    PyObject *folder = NULL;
    unsigned long long batch_size, key = 0, seed = 0;
    Py_buffer samples = {0};
    long long patience;
    int tail, lag, beginning, writable, rc;
    if (!PyArg_ParseTupleAndKeywords(args, named, "sO&KIIiippzL|zKz*K:open", (char **)(uintptr_t)keywords, &o.name,
                                     py_path_or_none, &folder, &batch_size, &o.rank, &o.world_size, &tail, &lag,
                                     &beginning, &writable, &o.label, &patience, &o.outputs, &key, &samples, &seed))
        return NULL;
    o.folder = folder ? PyBytes_AsString(folder) : NULL;
    o.batch_size = batch_size;
    o.tail = (enum leat_tail)tail;
    o.lag = (enum leat_lag)lag;
    o.beginning = beginning;
    o.writable = writable;
    o.patience_ms = patience;
    o.key = key;
    o.samples = samples.buf;
    o.n_samples = (uint64_t)samples.len / sizeof(int64_t);
    o.seed = seed;
    struct attached *a = py_object_new(type);
    if (a) {
        py_guard_init(&a->guard);
        a->writable = writable;
        PY_WITHOUT_GIL(rc = leat_attach(&o, &a->handle, &error));
        if (rc) {
            a->handle = NULL;
            py_raise(&error);
        }
        if (PyErr_Occurred()) {
            PyObject *kind, *value, *trace;
            PyErr_Fetch(&kind, &value, &trace);
            Py_CLEAR(a);
            PyErr_Restore(kind, value, trace);
        }
    }
    PyBuffer_Release(&samples);
    Py_XDECREF(folder);
    return (PyObject *)a;
}

static PyObject *raise_closed(void)
{
    return py_raise_text(LEAT_E_CLOSED, "the loader is closed: leat.attach(...) gives another one");
}

static PyObject *raise_forked(void)
{
    return py_raise_text(LEAT_E_FORKED, "what is attached to a port works only in the process that attached: call "
                                        "leat.attach after the fork");
}

/* Its handle with the guard taken, or NULL with an exception. For asking. */
static struct leat_attached *look(struct attached *a)
{
    if (!py_guard_here(&a->guard)) {
        raise_forked();
        return NULL;
    }
    py_guard_lock(&a->guard);
    if (a->handle)
        return a->handle;
    py_guard_unlock(&a->guard);
    raise_closed();
    return NULL;
}

/* The same, for functions that change something. */
static struct leat_attached *enter(struct attached *a)
{
    if (!py_guard_mine(&a->guard))
        return look(a);
    py_raise_within();
    return NULL;
}

/* A call of the library's with the guard taken and without the GIL; `ok`: whether it succeeded, else there is an
 * exception. */
#define CALL(ok, take, a, call)                                                                                        \
    do {                                                                                                               \
        (ok) = take(a) != NULL;                                                                                        \
        if (ok) {                                                                                                      \
            struct leat_error error;                                                                                   \
            int call_rc;                                                                                               \
            PY_WITHOUT_GIL(call_rc = (call));                                                                          \
            py_guard_unlock(&(a)->guard);                                                                              \
            if (call_rc)                                                                                               \
                py_raise(&error);                                                                                      \
            (ok) = !PyErr_Occurred();                                                                                  \
        }                                                                                                              \
    } while (0)

/* Without the GIL: waits for one slice. */
static int next_wait(struct attached *a, uint64_t iteration, struct leat_batch **batch, struct leat_error *error)
{
    int rc = LEAT_E_TIMEOUT;
    if (atomic_load(&a->guard.waiting)) {
        struct timespec ms = {.tv_nsec = 1000000};
        nanosleep(&ms, NULL);
    }
    py_guard_lock_without_gil(&a->guard);
    if (a->handle)
        rc = leat_attached_next(a->handle, iteration, SLICE_MS, batch, error);
    py_guard_unlock(&a->guard);
    return rc;
}

static PyObject *attached_next(PyObject *self, PyObject *number)
{
    struct attached *a = (struct attached *)self;
    struct leat_batch *batch = NULL;
    struct leat_error error;
    const uint64_t iteration = PyLong_AsUnsignedLongLong(number);
    int rc;
    if (iteration == UINT64_MAX && PyErr_Occurred())
        return NULL;
    if (!py_guard_here(&a->guard))
        return raise_forked();
    if (py_guard_mine(&a->guard))
        return py_raise_within();
    for (rc = LEAT_E_TIMEOUT; rc == LEAT_E_TIMEOUT;) {
        if (atomic_load(&a->closing))
            return raise_closed();
        PY_WITHOUT_GIL(rc = next_wait(a, iteration, &batch, &error));
        if (rc == LEAT_E_TIMEOUT && (PyErr_Occurred() || PyErr_CheckSignals()))
            return NULL;
    }
    if (PyErr_Occurred()) { /* a signal handler's */
        leat_batch_free(batch);
        return NULL;
    }
    if (rc == LEAT_OK)
        return py_batch_new(batch, !a->writable);
    if (rc == LEAT_E_END)
        Py_RETURN_NONE;
    return rc == LEAT_E_CANCELLED && atomic_load(&a->closing) ? raise_closed() : py_raise(&error);
}

static PyObject *attached_start(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    uint64_t iteration = 0;
    bool ok;
    CALL(ok, enter, a, leat_attached_start(a->handle, &iteration, &error));
    return ok ? PyLong_FromUnsignedLongLong(iteration) : NULL;
}

static PyObject *attached_set_epoch(PyObject *self, PyObject *number)
{
    struct attached *a = (struct attached *)self;
    bool dropped = false, ok;
    unsigned long long epoch = PyLong_AsUnsignedLongLong(number);
    if (epoch == ULLONG_MAX && PyErr_Occurred())
        return NULL;
    CALL(ok, enter, a, leat_attached_set_epoch(a->handle, epoch, &dropped, &error));
    return ok ? PyBool_FromLong(dropped) : NULL;
}

static PyObject *attached_epoch(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    struct leat_attached *handle = look(a);
    if (!handle)
        return NULL;
    const uint64_t epoch = leat_attached_epoch(handle);
    py_guard_unlock(&a->guard);
    return PyLong_FromUnsignedLongLong(epoch);
}

static PyObject *attached_steps(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    uint64_t steps = 0;
    bool ok;
    CALL(ok, look, a, leat_attached_steps(a->handle, &steps, &error));
    return ok ? PyLong_FromUnsignedLongLong(steps) : NULL;
}

static PyObject *attached_state(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    char *json = NULL;
    bool ok;
    CALL(ok, look, a, leat_attached_state(a->handle, &json, &error));
    return ok ? py_text_take(json) : NULL;
}

static PyObject *attached_load_state(PyObject *self, PyObject *text)
{
    struct attached *a = (struct attached *)self;
    const char *json = PyUnicode_AsUTF8AndSize(text, NULL);
    bool ok;
    if (!json)
        return NULL;
    CALL(ok, enter, a, leat_attached_load_state(a->handle, json, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *attached_plan(PyObject *self, PyObject *args)
{
    struct attached *a = (struct attached *)self;
    unsigned long long epoch, step;
    int64_t *ids = NULL;
    uint64_t n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:plan", &epoch, &step))
        return NULL;
    CALL(ok, enter, a, leat_attached_plan(a->handle, epoch, step, &ids, &n, &error));
    PyObject *memory = ok ? py_memory_copy(ids, LEAT_I64, n) : NULL;
    leat_free(ids);
    return memory;
}

static PyObject *attached_batch_at(PyObject *self, PyObject *args)
{
    struct attached *a = (struct attached *)self;
    struct leat_batch *batch = NULL;
    unsigned long long epoch, step;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:batch_at", &epoch, &step))
        return NULL;
    CALL(ok, enter, a, leat_attached_batch_at(a->handle, epoch, step, &batch, &error));
    if (!ok)
        leat_batch_free(batch);
    return ok ? py_batch_new(batch, !a->writable) : NULL;
}

static PyObject *attached_stats(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    char *json = NULL;
    bool ok;
    CALL(ok, look, a, leat_attached_stats(a->handle, &json, &error));
    return ok ? py_text_take(json) : NULL;
}

static PyObject *attached_about(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    struct leat_attached *handle = look(a);
    if (!handle)
        return NULL;
    PyObject *text = PyUnicode_FromString(leat_attached_about(handle));
    py_guard_unlock(&a->guard);
    return text;
}

static void attached_close_now(struct attached *a)
{
    struct leat_attached *handle = a->handle;
    a->handle = NULL;
    if (handle) {
        PY_WITHOUT_GIL(leat_attached_close(handle)); /* does nothing in a forked child */
    }
}

static PyObject *attached_close(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    if (!py_guard_here(&a->guard))
        Py_RETURN_NONE;
    if (py_guard_mine(&a->guard))
        return py_raise_within();
    atomic_store(&a->closing, true);
    while (!py_guard_try(&a->guard)) { /* its holder may have begun to wait just now */
        struct timespec ms = {.tv_nsec = 1000000};
        if (a->handle)
            leat_attached_interrupt(a->handle);
        PY_WITHOUT_GIL(nanosleep(&ms, NULL));
    }
    attached_close_now(a);
    py_guard_unlock(&a->guard);
    Py_RETURN_NONE;
}

static void attached_dealloc(PyObject *self)
{
    attached_close_now((struct attached *)self);
    py_object_free(self);
}

static PyMethodDef attached_methods[] = {
    {"open", (PyCFunction)(void (*)(void))attached_open, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "open(name, ...): see leat.attach"},
    {"start", attached_start, METH_NOARGS, "start(): begins an epoch; the iteration's number"},
    {"next", attached_next, METH_O, "next(iteration): a Batch, or None at the end of the epoch"},
    {"set_epoch", attached_set_epoch, METH_O, "set_epoch(epoch): whether a loaded position was dropped"},
    {"epoch", attached_epoch, METH_NOARGS, "epoch()"},
    {"steps", attached_steps, METH_NOARGS, "steps(): batches of an epoch"},
    {"state", attached_state, METH_NOARGS, "state(): JSON text"},
    {"load_state", attached_load_state, METH_O, "load_state(JSON text)"},
    {"plan", attached_plan, METH_VARARGS, "plan(epoch, step): Memory of int64 ids"},
    {"batch_at", attached_batch_at, METH_VARARGS, "batch_at(epoch, step): that Batch"},
    {"stats", attached_stats, METH_NOARGS, "stats(): JSON text"},
    {"about", attached_about, METH_NOARGS, "about(): JSON text, what the port said of itself"},
    {"close", attached_close, METH_NOARGS, "close()"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot attached_slots[] = {
    {Py_tp_doc, (void *)"A handle of what is attached to a port."},
    {Py_tp_dealloc, (void *)attached_dealloc},
    {Py_tp_methods, attached_methods},
    {0, NULL},
};

PyType_Spec py_attached_spec = PY_TYPE(Attached, struct attached, attached_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
