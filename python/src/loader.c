/* Loaders: opening (loader_options.c reads with what), closing, and what they can do beyond reading (consumer.c). */
#include "leat/apply.h"
#include "leat/elsewhere.h"
#include "leat/feedback.h"
#include "leat/watch.h"
#include "leat_py.h"
#include "loader_options.h"

struct loader {
    struct py_reader reader;
    struct leat_loader *handle; /* NULL: closed */
    PyObject *functions;        /* keeps what the loader's threads call until they no longer do */
    PyObject *executor;         /* of functions in Python; NULL: there are none */
};

static void end_loader(struct py_reader *r)
{
    struct loader *l = (struct loader *)r;
    struct leat_loader *handle = l->handle;
    l->handle = NULL;
    r->consumer = NULL;
    PY_WITHOUT_GIL(leat_loader_close(handle));
}

static const struct py_reader_kind kind = {
    .closed = "the Loader is closed: open another one", .forked = PY_LOADER_FORKED, .end = end_loader};

static PyObject *loader_open(PyTypeObject *type, PyObject *args, PyObject *named)
{
    struct py_loader_options given;
    struct loader *l = NULL;
    PyObject *opened = NULL;
    struct leat_error error;
    int rc;
    if (!PyArg_ParseTuple(args, ":open"))
        return NULL;
    if (!py_loader_options_read(&given, named) || !(l = py_reader_new(type, &kind)))
        goto out;
    l->functions = Py_XNewRef(given.functions);
    l->executor = Py_XNewRef(given.executor);
    PY_WITHOUT_GIL(rc = given.dataset ? leat_loader_open(given.dataset, &given.options, &l->handle, &error)
                                      : leat_loader_open_mix(&given.mix.options, &given.options, &l->handle, &error));
    l->reader.consumer = rc ? NULL : leat_loader_consumer(l->handle);
    opened = py_opened((PyObject *)l, rc, &error);
out:
    py_loader_options_release(&given);
    return opened;
}

static void loader_dealloc(PyObject *self)
{
    struct loader *l = (struct loader *)self;
    py_reader_end(&l->reader);
    Py_CLEAR(l->functions);
    Py_CLEAR(l->executor);
    py_object_free(self);
}

struct leat_loader *py_loader_handle(PyObject *object)
{
    struct leat_loader *handle = ((struct loader *)object)->handle;
    return handle ? handle : (struct leat_loader *)py_raise_text(LEAT_E_CLOSED, kind.closed);
}

/* region() -> (descriptor, bytes) */
static PyObject *loader_region(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    uint64_t bytes;
    int fd;
    bool ok;
    PY_READER_ASK(ok, &l->reader, leat_loader_region(l->handle, &fd, &bytes, &error));
    return ok ? Py_BuildValue("iK", fd, (unsigned long long)bytes) : NULL;
}

/* A call that takes a list of positions. */
static PyObject *give_list(PyObject *self, PyObject *positions,
                           int (*give)(struct leat_loader *, const int64_t *, uint64_t, struct leat_error *))
{
    struct loader *l = (struct loader *)self;
    Py_buffer view;
    bool ok;
    if (PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE))
        return NULL;
    PY_READER_CALL(ok, &l->reader, give(l->handle, view.buf, (uint64_t)view.len / sizeof(int64_t), &error));
    PyBuffer_Release(&view);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_set_positions(PyObject *self, PyObject *positions)
{
    return give_list(self, positions, leat_loader_set_positions);
}

static PyObject *loader_know_list(PyObject *self, PyObject *positions)
{
    return give_list(self, positions, leat_loader_know_list);
}

/* decide_rows(epoch or -1: from the next one, step, 0 as opened, 1 listed or 2 selected, int64 positions or None) */
static PyObject *loader_decide_rows(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    Py_buffer view = {0};
    long long epoch, step;
    int rows;
    bool ok;
    if (!PyArg_ParseTuple(args, "LLiz*:decide_rows", &epoch, &step, &rows, &view))
        return NULL;
    const struct leat_step from = {(uint64_t)epoch, (uint64_t)step};
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_decide_rows(l->handle, epoch < 0 ? NULL : &from, (enum leat_rows)rows, view.buf,
                                           (uint64_t)view.len / sizeof(int64_t), &error));
    if (view.obj)
        PyBuffer_Release(&view);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_next_start(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    uint64_t epoch = 0;
    bool within = false, ok;
    PY_READER_ASK(ok, &l->reader, leat_loader_next_start(l->handle, &epoch, &within, &error));
    return ok ? Py_BuildValue("KO", (unsigned long long)epoch, within ? Py_True : Py_False) : NULL;
}

static PyObject *loader_state_at(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, step;
    if (!PyArg_ParseTuple(args, "KK:state_at", &epoch, &step))
        return NULL;
    const struct leat_step at = {epoch, step};
    PY_READER_TEXT(&l->reader, leat_loader_state_at(l->handle, &at, &json, &error));
}

/* set_global_batch_size(rows of all ranks, epoch and step, or -1 and -1: from the first batch not handed out) */
static PyObject *loader_set_global_batch_size(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long rows;
    long long epoch, step;
    if (!PyArg_ParseTuple(args, "KLL:set_global_batch_size", &rows, &epoch, &step))
        return NULL;
    const struct leat_step at = {(uint64_t)epoch, (uint64_t)step};
    bool ok;
    PY_READER_CALL(ok, &l->reader, leat_loader_set_global_batch_size(l->handle, rows, epoch < 0 ? NULL : &at, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* set_shares(epoch and step, or -1 and -1: from the first batch not handed out, shares) */
static PyObject *loader_set_shares(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    PyObject *list;
    long long epoch, step;
    bool ok;
    if (!PyArg_ParseTuple(args, "LLO!:set_shares", &epoch, &step, &PyList_Type, &list))
        return NULL;
    const Py_ssize_t n = PyList_Size(list);
    double *shares = PyMem_Calloc((size_t)n + 1, sizeof *shares);
    if (!shares)
        return PyErr_NoMemory();
    if (!py_shares_of(list, n, shares)) {
        PyMem_Free(shares);
        return NULL;
    }
    const struct leat_step at = {(uint64_t)epoch, (uint64_t)step};
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_set_shares(l->handle, epoch < 0 ? NULL : &at, shares, (uint32_t)n, &error));
    PyMem_Free(shares);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* mix_counts(epoch, rows, out: writable buffer of as many uint64 as there are sources) */
static PyObject *loader_mix_counts(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, rows;
    Py_buffer out;
    bool ok;
    if (!PyArg_ParseTuple(args, "KKw*:mix_counts", &epoch, &rows, &out))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   leat_loader_mix_counts(l->handle, epoch, rows, out.buf, (uint32_t)(out.len / 8), &error));
    PyBuffer_Release(&out);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_stats(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    PY_READER_TEXT(&l->reader, leat_loader_stats(l->handle, &json, &error));
}

static PyObject *loader_log(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long first;
    if (!PyArg_ParseTuple(args, "K:log", &first))
        return NULL;
    PY_READER_TEXT(&l->reader, leat_loader_log(l->handle, first, &json, &error));
}

static PyObject *loader_trace(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long max_events;
    bool ok;
    if (!PyArg_ParseTuple(args, "K:trace", &max_events))
        return NULL;
    PY_READER_ASK(ok, &l->reader, leat_loader_trace(l->handle, max_events, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_tell(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    const char *json;
    bool ok;
    if (!PyArg_ParseTuple(args, "s:tell", &json))
        return NULL;
    PY_READER_ASK(ok, &l->reader, leat_loader_tell(l->handle, json, &error));
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* left(step) -> (step, [(first, n), ...]), or None: the epoch has no such step */
static PyObject *loader_left(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long from;
    uint64_t step, n = 0;
    struct leat_row_run *runs = NULL;
    int rc = LEAT_OK;
    bool ok;
    if (!PyArg_ParseTuple(args, "K:left", &from))
        return NULL;
    step = from;
    PY_READER_ASK(ok, &l->reader,
                  (rc = leat_loader_left(l->handle, &step, &runs, &n, &error)) == LEAT_E_END ? LEAT_OK : rc);
    if (!ok || rc == LEAT_E_END)
        return ok ? Py_NewRef(Py_None) : NULL;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint64_t i = 0; list && i < n; i++) {
        PyObject *run = Py_BuildValue("KK", (unsigned long long)runs[i].first, (unsigned long long)runs[i].n);
        if (!run)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, run);
    }
    leat_free(runs);
    return list ? Py_BuildValue("KN", (unsigned long long)step, list) : NULL;
}

static PyObject *loader_choose(PyObject *self, PyObject *list)
{
    struct loader *l = (struct loader *)self;
    bool ok = false;
    uint64_t at = 0;
    const Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;
    if (n < 0)
        return PyErr_Format(PyExc_TypeError, "choose() takes a list of (step, first, n)");
    struct leat_row_run *runs = PyMem_Calloc((size_t)n + 1, sizeof *runs);
    if (!runs)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long step, first, rows;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "KKK:choose", &step, &first, &rows))
            goto out;
        runs[i] = (struct leat_row_run){step, first, rows};
    }
    PY_READER_ASK(ok, &l->reader, leat_loader_choose(l->handle, runs, (uint64_t)n, &at, &error));
out:
    PyMem_Free(runs);
    return ok ? PyLong_FromUnsignedLongLong(at) : NULL;
}

static PyObject *loader_trace_json(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    PY_READER_TEXT(&l->reader, leat_loader_trace_json(l->handle, &json, &error));
}

static PyObject *loader_plan(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, step;
    int64_t *ids = NULL;
    uint64_t n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:plan", &epoch, &step))
        return NULL;
    PY_READER_CALL(ok, &l->reader, leat_loader_plan(l->handle, epoch, step, &ids, &n, &error));
    return py_ids_take(ok, ids, n);
}

/* plan_domains(epoch, step) -> (sources, positions in them) */
static PyObject *loader_plan_domains(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, step;
    int32_t *domains = NULL;
    int64_t *positions = NULL;
    uint64_t n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK:plan_domains", &epoch, &step))
        return NULL;
    PY_READER_CALL(ok, &l->reader, leat_loader_plan_domains(l->handle, epoch, step, &domains, &positions, &n, &error));
    PyObject *first = ok ? py_memory_copy(domains, LEAT_I32, n) : NULL,
             *second = first ? py_memory_copy(positions, LEAT_I64, n) : NULL,
             *both = second ? PyTuple_Pack(2, first, second) : NULL;
    leat_free(domains);
    leat_free(positions);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return both;
}

static PyObject *loader_batch_at(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    struct leat_batch *batch = NULL;
    unsigned long long epoch, step, first = 0, n = 0;
    bool ok;
    if (!PyArg_ParseTuple(args, "KK|KK:batch_at", &epoch, &step, &first, &n))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   PyTuple_Size(args) > 2 ? leat_rows_make(l->handle, epoch, step, first, n, NULL, 0, &batch, &error)
                                          : leat_loader_batch_at(l->handle, epoch, step, &batch, &error));
    return py_reader_batch(ok, &l->reader, batch);
}

/* apply(uint64 keys) -> Batch of as many samples that are lent */
static PyObject *loader_apply(PyObject *self, PyObject *keys)
{
    struct loader *l = (struct loader *)self;
    struct leat_batch *batch = NULL;
    Py_buffer view;
    bool ok;
    if (PyObject_GetBuffer(keys, &view, PyBUF_SIMPLE))
        return NULL;
    PY_READER_CALL(ok, &l->reader,
                   leat_rows_apply(l->handle, (uint64_t)view.len / sizeof(uint64_t), view.buf, &batch, &error));
    PyBuffer_Release(&view);
    return py_reader_batch(ok, &l->reader, batch);
}

/* consumer(batch_size, beginning) -> Consumer */
static PyObject *loader_consumer(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long batch_size;
    int beginning;
    if (!PyArg_ParseTuple(args, "Kp:consumer", &batch_size, &beginning))
        return NULL;
    if (!py_reader_enter(&l->reader))
        return NULL;
    PyObject *made = py_consumer_open(l->handle, batch_size, beginning);
    py_guard_unlock(&l->reader.guard);
    return made;
}

static PyMethodDef loader_methods[] = {
    {"open", (PyCFunction)(void (*)(void))loader_open, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "open(**options): see loader_options.def"},
    PY_READER_METHODS,
    {"region", loader_region, METH_NOARGS, "region(): descriptor and bytes of memory that is shared"},
    {"set_positions", loader_set_positions, METH_O, "set_positions(int64 positions)"},
    {"decide_rows", loader_decide_rows, METH_VARARGS,
     "decide_rows(epoch, step, rows, positions): -1: from the next epoch; rows: 0 as opened, 1 listed, 2 selected"},
    {"know_list", loader_know_list, METH_O, "know_list(int64 positions): for the next load_state"},
    {"state_at", loader_state_at, METH_VARARGS, "state_at(epoch, step): the state of a run that comes to it"},
    {"next_start", loader_next_start, METH_NOARGS, "next_start(): the epoch that begins next, and whether within it"},
    {"set_global_batch_size", loader_set_global_batch_size, METH_VARARGS,
     "set_global_batch_size(rows, epoch, step): -1, -1: from the next batch"},
    {"mix_counts", loader_mix_counts, METH_VARARGS, "mix_counts(epoch, rows, out): rows of each source among them"},
    {"set_shares", loader_set_shares, METH_VARARGS, "set_shares(epoch, step, shares): -1, -1: from the next batch"},
    {"plan", loader_plan, METH_VARARGS, "plan(epoch, step): Memory of int64 ids"},
    {"plan_domains", loader_plan_domains, METH_VARARGS, "plan_domains(epoch, step): sources and positions of rows"},
    {"batch_at", loader_batch_at, METH_VARARGS,
     "batch_at(epoch, step[, first, n]): that Batch, or n rows of it, computed again"},
    {"apply", loader_apply, METH_O, "apply(uint64 keys): a Batch of as many samples that are lent"},
    {"consumer", loader_consumer, METH_VARARGS, "consumer(batch_size, beginning): a Consumer of the same rows"},
    {"stats", loader_stats, METH_NOARGS, "stats(): JSON text"},
    {"log", loader_log, METH_VARARGS, "log(first): JSON text of entries"},
    {"trace", loader_trace, METH_VARARGS, "trace(max_events): records what threads do; 0 ends it"},
    {"tell", loader_tell, METH_VARARGS, "tell(json): what leat top says besides"},
    {"left", loader_left, METH_VARARGS, "left(step): rows that were not received (leat/elsewhere.h)"},
    {"choose", loader_choose, METH_O, "choose(runs): the rows of the next batch; its step"},
    {"trace_json", loader_trace_json, METH_NOARGS, "trace_json(): JSON text"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_doc, (void *)"A handle of a loader."},
    {Py_tp_dealloc, (void *)loader_dealloc},
    {Py_tp_methods, loader_methods},
    {0, NULL},
};

PyType_Spec py_loader_spec = PY_TYPE(Loader, struct loader, loader_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
