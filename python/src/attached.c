/*
 * Ports, and readers attached to one. A port is opened over a loader that it alone reads from then on; a reader that is
 * attached has the methods of a loader, and gives batches that are those of one (batch.c).
 *
 * Waits are in slices, without the GIL, and look for signals in between, as consumer.c does.
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
    PyObject *mirrors;                   /* DeviceMirrors, or None */
    atomic_bool closing;
};

/* open(loader, name, folder, group, about, DeviceMirrors or None) */
static PyObject *port_open(PyTypeObject *type, PyObject *args)
{
    struct leat_port_options o = LEAT_PORT_OPTIONS_INIT;
    struct leat_error error;
    PyObject *loader, *mirrors, *folder = NULL, *opened = NULL;
    int rc;
    if (!PyArg_ParseTuple(args, "O!sO&zzO:open", py_loader_type, &loader, &o.name, py_path_or_none, &folder, &o.group,
                          &o.about, &mirrors))
        return NULL;
    o.mirrors = mirrors == Py_None ? NULL : py_device_mirrors(mirrors);
    struct leat_loader *read = py_loader_handle(loader);
    struct port *p = read ? py_object_new(type) : NULL;
    if (p) {
        py_guard_init(&p->guard);
        p->loader = Py_NewRef(loader);
        p->mirrors = Py_NewRef(mirrors);
        o.folder = folder ? PyBytes_AsString(folder) : NULL;
        PY_WITHOUT_GIL(rc = leat_port_open(read, &o, &p->handle, &error));
        opened = py_opened((PyObject *)p, rc, &error);
    }
    Py_XDECREF(folder);
    return opened;
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
    Py_CLEAR(p->mirrors);
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

/* A question about the ports in a folder: JSON text, or None if it gives none. */
static PyObject *ask(PyObject *folder, const char *name,
                     int (*question)(const char *folder, const char *name, char **json, struct leat_error *error))
{
    PyObject *path = NULL;
    struct leat_error error;
    char *json = NULL;
    int rc;
    if (!py_path_or_none(folder, &path))
        return NULL;
    const char *in = path ? PyBytes_AsString(path) : NULL;
    PY_WITHOUT_GIL(rc = question(in, name, &json, &error));
    Py_XDECREF(path);
    return rc || !json ? py_none_or_raise(rc, &error) : py_text_take(json);
}

static int list(const char *folder, const char *name, char **json, struct leat_error *error)
{
    (void)name;
    return leat_ports(folder, json, error);
}

static int stop(const char *folder, const char *name, char **json, struct leat_error *error)
{
    (void)json;
    return leat_port_stop(folder, name, error);
}

/* ports(folder): JSON text */
PyObject *py_ports(PyObject *module, PyObject *folder)
{
    return ask(folder, NULL, list);
}

/* port_ask_stat(folder, name): JSON text */
PyObject *py_port_ask_stat(PyObject *module, PyObject *args)
{
    PyObject *folder;
    const char *name;
    return PyArg_ParseTuple(args, "Os:port_ask_stat", &folder, &name) ? ask(folder, name, leat_port_ask_stat) : NULL;
}

/* port_stop(folder, name) */
PyObject *py_port_stop(PyObject *module, PyObject *args)
{
    PyObject *folder;
    const char *name;
    return PyArg_ParseTuple(args, "Os:port_stop", &folder, &name) ? ask(folder, name, stop) : NULL;
}

/* ---- attaching ------------------------------------------------------------------------------- */

struct attached {
    struct py_reader reader;
    struct leat_attached *handle; /* NULL: closed */
};

static void end_attached(struct py_reader *r)
{
    struct attached *a = (struct attached *)r;
    struct leat_attached *handle = a->handle;
    a->handle = NULL;
    r->consumer = NULL;
    PY_WITHOUT_GIL(leat_attached_close(handle));
}

static const struct py_reader_kind kind = {
    .closed = "the loader is closed: leat.attach(...) gives another one",
    .forked = "what is attached to a port works only in the process that attached: call leat.attach after the fork",
    .asks = true,
    .end = end_attached};

static const char *const keywords[] = {"name", "folder",    "batch_size", "rank",  "world_size",  "tail",
                                       "lag",  "beginning", "writable",   "label", "patience_ms", "outputs",
                                       "key",  "samples",   "seed",       NULL};

static PyObject *attached_open(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct leat_attach_options o = LEAT_ATTACH_OPTIONS_INIT;
    struct leat_error error;
    PyObject *folder = NULL, *opened = NULL;
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
    struct attached *a = py_reader_new(type, &kind);
    if (a) {
        a->reader.readonly = !writable;
        PY_WITHOUT_GIL(rc = leat_attach(&o, &a->handle, &error));
        a->reader.consumer = rc ? NULL : leat_attached_consumer(a->handle);
        opened = py_opened((PyObject *)a, rc, &error);
    }
    PyBuffer_Release(&samples);
    Py_XDECREF(folder);
    return opened;
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
    PY_READER_CALL(ok, &a->reader, leat_attached_plan(a->handle, epoch, step, &ids, &n, &error));
    return py_ids_take(ok, ids, n);
}

static PyObject *attached_batch_at(PyObject *self, PyObject *args)
{
    struct attached *a = (struct attached *)self;
    struct leat_batch *batch = NULL;
    unsigned long long epoch, step;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:batch_at", &epoch, &step))
        return NULL;
    PY_READER_CALL(ok, &a->reader, leat_attached_batch_at(a->handle, epoch, step, &batch, &error));
    return py_reader_batch(ok, &a->reader, batch);
}

static PyObject *attached_stats(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    PY_READER_TEXT(&a->reader, leat_attached_stats(a->handle, &json, &error));
}

static PyObject *attached_about(PyObject *self, PyObject *none)
{
    struct attached *a = (struct attached *)self;
    if (!py_reader_look(&a->reader))
        return NULL;
    PyObject *text = PyUnicode_FromString(leat_attached_about(a->handle));
    py_guard_unlock(&a->reader.guard);
    return text;
}

static void attached_dealloc(PyObject *self)
{
    py_reader_end((struct py_reader *)self);
    py_object_free(self);
}

static PyMethodDef attached_methods[] = {
    {"open", (PyCFunction)(void (*)(void))attached_open, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "open(name, ...): see leat.attach"},
    PY_READER_METHODS,
    {"plan", attached_plan, METH_VARARGS, "plan(epoch, step): Memory of int64 ids"},
    {"batch_at", attached_batch_at, METH_VARARGS, "batch_at(epoch, step): that Batch"},
    {"stats", attached_stats, METH_NOARGS, "stats(): JSON text"},
    {"about", attached_about, METH_NOARGS, "about(): JSON text, what the port said of itself"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot attached_slots[] = {
    {Py_tp_doc, (void *)"A handle of what is attached to a port."},
    {Py_tp_dealloc, (void *)attached_dealloc},
    {Py_tp_methods, attached_methods},
    {0, NULL},
};

PyType_Spec py_attached_spec = PY_TYPE(Attached, struct attached, attached_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
