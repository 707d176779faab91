/*
 * The module itself: its types, its functions, and how an error of the library becomes a Python exception: the classes
 * are written in Python (leat/errors.py), which hands over a function that makes the exception.
 */
#include "leat_py.h"

#include <string.h>
#include <unistd.h>

#include "engine/interrupt.h"

#define MOST_TRIES 100 /* of a finalizer: one that raises KeyboardInterrupt itself would be called without end */
#define PY_DEFINE_TYPE(NAME) PyTypeObject *py_##NAME##_type;
PY_TYPES(PY_DEFINE_TYPE)
static PyObject *error_factory; /* leat.errors.from_status */

PyObject *py_raise(const struct leat_error *e)
{
    PyObject *file = NULL, *message = NULL, *field = NULL, *exception = NULL;
    if (PyErr_Occurred()) /* py_interrupted */
        return NULL;
    if (!error_factory) {
        PyErr_Format(PyExc_RuntimeError, "%s: %s", leat_status_name(e->code), e->message);
        return NULL;
    }
    file = PyUnicode_DecodeFSDefault(e->file);
    message = PyUnicode_DecodeUTF8(e->message, (Py_ssize_t)strlen(e->message), "replace");
    field = PyUnicode_DecodeUTF8(e->field, (Py_ssize_t)strlen(e->field), "replace");
    if (!file || !message || !field)
        goto out;
    exception = PyObject_CallFunction(error_factory, "iiLLOOO", e->code, e->sys_errno, (long long)e->sample,
                                      (long long)e->offset, file, field, message);
    if (exception) {
        py_source_chain(exception, e->message);
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    }
out:
    Py_XDECREF(field);
    Py_XDECREF(file);
    Py_XDECREF(message);
    Py_XDECREF(exception);
    return NULL;
}

_Thread_local struct py_waiting py_waiting;

bool py_interrupted(void)
{
    if (!PyGILState_GetThisThreadState())
        return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool yes = PyErr_Occurred() || PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    yes = yes || (py_waiting.closing && atomic_load(py_waiting.closing));
    if (yes && py_waiting.consumer)
        leat_consumer_interrupt(py_waiting.consumer);
    return yes;
}

PyObject *py_raise_text(int code, const char *message)
{
    struct leat_error e = {.code = code, .sample = LEAT_NO_SAMPLE, .offset = LEAT_NO_OFFSET};
    PyOS_snprintf(e.message, sizeof e.message, "%s", message);
    return py_raise(&e);
}

PyObject *py_none_or_raise(int rc, const struct leat_error *error)
{
    return rc ? py_raise(error) : Py_NewRef(Py_None);
}

void py_list_add(PyObject **list, PyObject *item)
{
    if (!item || PyList_Append(*list, item))
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

PyObject *py_integers(const int64_t *values, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (!number || PyTuple_SetItem(tuple, (Py_ssize_t)i, number))
            Py_CLEAR(tuple);
    }
    return tuple;
}

void *py_object_new(PyTypeObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

void py_object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

int py_path_or_none(PyObject *object, void *out)
{
    if (object == Py_None) {
        *(PyObject **)out = NULL;
        return 1;
    }
    return PyUnicode_FSConverter(object, out);
}

PyObject *py_text_take(char *text)
{
    PyObject *s = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    leat_free(text);
    return s;
}

/* ---- the guard ------------------------------------------------------------------------------- */

void py_guard_init(struct py_guard *guard)
{
    pthread_mutex_init(&guard->mutex, NULL);
    atomic_init(&guard->owner, NULL);
    guard->depth = 0;
    atomic_init(&guard->waiting, 0);
    guard->pid = getpid();
}

void py_guard_destroy(struct py_guard *guard)
{
    pthread_mutex_destroy(&guard->mutex);
}

bool py_guard_here(const struct py_guard *guard)
{
    return guard->pid == getpid();
}

static _Thread_local char this_thread;

bool py_guard_mine(const struct py_guard *guard)
{
    return atomic_load_explicit(&guard->owner, memory_order_relaxed) == &this_thread;
}

static void own(struct py_guard *guard)
{
    atomic_store_explicit(&guard->owner, &this_thread, memory_order_relaxed);
}

bool py_guard_try(struct py_guard *guard)
{
    if (py_guard_mine(guard))
        guard->depth++;
    else if (pthread_mutex_trylock(&guard->mutex))
        return false;
    else
        own(guard);
    return true;
}

void py_guard_lock(struct py_guard *guard)
{
    if (py_guard_try(guard))
        return;
    atomic_fetch_add(&guard->waiting, 1);
    PY_WITHOUT_GIL(py_guard_lock_without_gil(guard));
    atomic_fetch_sub(&guard->waiting, 1);
}

void py_guard_lock_without_gil(struct py_guard *guard)
{
    pthread_mutex_lock(&guard->mutex);
    own(guard);
}

void py_guard_unlock(struct py_guard *guard)
{
    if (guard->depth) {
        guard->depth--;
        return;
    }
    atomic_store_explicit(&guard->owner, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&guard->mutex);
}

/* ---- functions ------------------------------------------------------------------------------- */

static PyObject *set_error_factory(PyObject *module, PyObject *factory)
{
    PyObject *old = error_factory;
    error_factory = Py_NewRef(factory);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* escape(text, /): the printable form of it */
static PyObject *escape(PyObject *module, PyObject *text)
{
    char out[4096];
    PyObject *bytes = PyUnicode_EncodeFSDefault(text);
    if (!bytes)
        return NULL;
    PyObject *shown = PyUnicode_FromString(leat_escape(PyBytes_AsString(bytes), out, sizeof out));
    Py_DECREF(bytes);
    return shown;
}

static PyObject *kinds(PyObject *module, PyObject *none)
{
    PyObject *list = PyList_New(0);
    const char *name;
    for (int kind = 1; list && *(name = leat_kind_name((enum leat_kind)kind)); kind++)
        py_list_add(&list, PyUnicode_FromString(name));
    return list;
}

PY_METHOD(version, PyUnicode_FromString(leat_version()))
PY_METHOD(memory_allowed, PyLong_FromUnsignedLongLong(leat_memory_allowed()))
PY_METHOD(memory_left, PyLong_FromUnsignedLongLong(leat_memory_left()))
PY_METHOD(cpu_count, PyLong_FromUnsignedLong(leat_cpu_count()))

static PyObject *status_name(PyObject *module, PyObject *code)
{
    long n = PyLong_AsLong(code);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    return PyUnicode_FromString(leat_status_name((int)n));
}

/* With pixels: of as many bytes as the masks have. */
static PyObject *masks_draw(PyObject *self, PyObject *args)
{
    Py_buffer value, pixels;
    unsigned int height, width;
    struct leat_error error;
    uint64_t n = 0;
    int rc;
    if (!PyArg_ParseTuple(args, "y*IIw*:masks_draw", &value, &height, &width, &pixels))
        return NULL;
    rc = leat_masks_draw(value.buf, (size_t)value.len, width, height, NULL, &n, &error);
    if (!rc && pixels.len && (uint64_t)pixels.len / height / width == n)
        PY_WITHOUT_GIL(rc = leat_masks_draw(value.buf, (size_t)value.len, width, height, pixels.buf, &n, &error));
    PyBuffer_Release(&value);
    PyBuffer_Release(&pixels);
    return rc ? py_raise(&error) : PyLong_FromUnsignedLongLong(n);
}

/* ---- finalizers ------------------------------------------------------------------------------ */

static int raise_again(void *error)
{
    PyErr_SetObject((PyObject *)Py_TYPE((PyObject *)error), error);
    Py_DECREF((PyObject *)error);
    return -1;
}

/* The error that a signal handler has raised, which is cleared; NULL: it is another one. */
static PyObject *take_signalled(void)
{
    PyObject *type, *value, *trace;
    if (PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* In a finalizer it would be printed and lost: Python's main thread raises it, once it runs other code. False: it is
 * raised here, as that cannot be. */
static bool put_off(PyObject *error)
{
    if (!Py_AddPendingCall(raise_again, error))
        return true;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return false;
}

/* Calls it, and again if a signal handler raised within it: it can be called twice. */
static PyObject *call_to_end(PyObject *function, PyObject *arguments)
{
    PyObject *result, *first = NULL, *error;
    int tries = 0;
    while (!(result = PyObject_Call(function, arguments, NULL)) && ++tries < MOST_TRIES && (error = take_signalled())) {
        if (first)
            Py_DECREF(error); /* one is enough */
        else
            first = error;
    }
    if (first && result && !put_off(first))
        Py_CLEAR(result);
    else if (first && !result)
        Py_DECREF(first);
    return result;
}

static PyObject *complete(PyObject *module, PyObject *args)
{
    PyObject *function, *arguments;
    if (!PyArg_ParseTuple(args, "OO!:complete", &function, &PyTuple_Type, &arguments))
        return NULL;
    return call_to_end(function, arguments);
}

static PyObject *call_collected(PyObject *function, PyObject *reference)
{
    PyObject *result = PyObject_CallObject(function, NULL), *error = result ? NULL : take_signalled();
    if (!error)
        return result;
    return put_off(error) ? Py_NewRef(Py_None) : NULL;
}

/* collected(function): what a weak reference calls; no line of Python stands around it, in which it would be lost. */
static PyObject *collected(PyObject *module, PyObject *function)
{
    static PyMethodDef call = {"collected", call_collected, METH_O, NULL};
    return PyCFunction_New(&call, function);
}

static PyObject *call_left(PyObject *object, PyObject *none)
{
    PyObject *method = PyObject_GetAttrString(object, "_left"), *no_arguments = method ? PyTuple_New(0) : NULL;
    PyObject *result = no_arguments ? call_to_end(method, no_arguments) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(no_arguments);
    return result;
}

/* left(): a __del__ that calls the method _left to its end, with no line of Python around it. */
static PyObject *left(PyObject *module, PyObject *none)
{
    static PyMethodDef call = {"left", call_left, METH_NOARGS, NULL};
    return PyDescr_NewMethod(&PyBaseObject_Type, &call);
}

static PyMethodDef functions[] = {
    {"set_error_factory", set_error_factory, METH_O, "set_error_factory(function, /): what makes the exceptions"},
    {"version", version, METH_NOARGS, "version(): of the library"},
    {"complete", complete, METH_VARARGS, "complete(function, arguments): also if a signal handler raises meanwhile"},
    {"collected", collected, METH_O, "collected(function): for a weak reference; what a signal raises comes later"},
    {"left", left, METH_NOARGS, "left(): a __del__ that calls _left; what a signal raises comes later"},
    {"kinds", kinds, METH_NOARGS, "kinds(): names of the kinds of fields, whose numbers begin at 1"},
    {"memory_allowed", memory_allowed, METH_NOARGS, "memory_allowed(): bytes that this process may use"},
    {"memory_left", memory_left, METH_NOARGS, "memory_left(): bytes that batches may still take"},
    {"cpu_count", cpu_count, METH_NOARGS, "cpu_count(): cores that this process may use"},
    {"status_name", status_name, METH_O, "status_name(code, /): 'LEAT_E_IO' and so on"},
    {"escape", escape, METH_O, "escape(text, /): what can be shown of it"},
    {"nearest", py_nearest, METH_VARARGS, "nearest(word, names, /): the name that is probably meant, or None"},
    {"paths", py_paths, METH_O, "paths(given, /): the files that paths and patterns, as bytes, stand for"},
    {"path_is_ours", py_path_is_ours, METH_O, "path_is_ours(path, /): whether leat has put that file there"},
    {"look", py_look, METH_O, "look(path, /): raises if there is nothing, or a pointer of Git LFS"},
    {"names", py_names, METH_O, "names(names, /): a set of names of files, given as a list of bytes"},
    {"find_name", py_find_name, METH_VARARGS,
     "find_name(names, name): (the one that is meant or None, what is to be said of one in another form)"},
    {"masks_draw", masks_draw, METH_VARARGS,
     "masks_draw(value, height, width, pixels): how many masks a value has; fills pixels, if there are as many"},
    {"lent", py_lent_make, METH_O, "lent(schema): a data set that samples are lent to"},
    {"zip", py_dataset_zip, METH_VARARGS, "zip(datasets, names, bare): side by side"},
    {"windows", py_dataset_windows, METH_VARARGS, "windows(dataset, field, length, stride, tail): parts of records"},
    {"temporal", py_temporal_make, METH_VARARGS, "temporal(dataset, neighbors, ...): a graph of events"},
    {"temporal_recent", py_temporal_recent, METH_VARARGS, "temporal_recent(dataset, n, k, ...): neighbours of nodes"},
    {"temporal_look", py_temporal_look, METH_O, "temporal_look(dataset, /): (times are floats, events, nodes)"},
    {"prompts", py_dataset_prompts, METH_VARARGS,
     "prompts(dataset, field, decode, block, seed, progress): (data set, order, groups, tokens, kept)"},
    {"prompts_records", py_prompts_records, METH_VARARGS,
     "prompts_records(bytes, csv, quoted, ends): fills ends, gives (number, quoted)"},
    {"prompts_simulate", py_prompts_simulate, METH_VARARGS,
     "prompts_simulate(kept, tokens, block): tokens that a cache has, as they lie, sorted, grouped"},
    {"arrays", py_arrays_make, METH_VARARGS, "arrays(schema, count, [(address, stride)], keep): a data set"},
    {"source", py_source_make, METH_VARARGS,
     "source(schema, count, version, reader, timeout_s, warn_s, ...): a data set"},
    {"matrix_entries", py_matrix_entries, METH_VARARGS, "matrix_entries(path, text, line, ...): of Matrix Market"},
    {"stored_read", py_stored_read, METH_VARARGS, "stored_read(array, first, n, out): elements of an array in files"},
    {"stored", py_stored_make, METH_VARARGS, "stored(schema, count, version, values, columns, ...): rows in files"},
    {"source_serve", py_source_serve, METH_O, "source_serve(capsule, /): the thread of a source"},
    {"concat", py_dataset_concat, METH_O, "concat(datasets, /): several data sets as one"},
    {"writer_join", py_writer_join, METH_VARARGS,
     "writer_join(path, files): finished files of its folder, by their names, become one data set"},
    {"ports", py_ports, METH_O, "ports(folder, /): JSON text"},
    {"port_ask_stat", py_port_ask_stat, METH_VARARGS, "port_ask_stat(folder, name): JSON text"},
    {"port_stop", py_port_stop, METH_VARARGS, "port_stop(folder, name)"},
    {"region_join", py_region_join, METH_O, "region_join(memory): a row in the table of who holds what of a region"},
    {"region_hold", py_region_hold, METH_VARARGS, "region_hold(row, offsets): references of this process"},
    {"region_drop", py_region_drop, METH_VARARGS, "region_drop(row, offsets): gives them back"},
    {"share_descriptor", py_share_descriptor, METH_NOARGS, "share_descriptor(): of the memory shared with workers"},
    {"share_attach", py_share_attach, METH_O, "share_attach(descriptor, /): in a worker that was not forked"},
    {"share_used", py_share_used, METH_NOARGS, "share_used(): bytes of shared memory in use"},
    {"share_trim", py_share_trim, METH_O,
     "share_trim(keep, /): gives free pages back where more than `keep` bytes are resident"},
    {"worker_watch", py_worker_watch, METH_O, "worker_watch(pidfd, /): ends this process with that one"},
    {"process_descriptor", py_process_descriptor, METH_O, "process_descriptor(pid, /): a pidfd"},
    {"memory_file", py_memory_file, METH_O, "memory_file(bytes, /): the descriptor of a memfd of this size"},
    {"best_fit", py_best_fit, METH_VARARGS,
     "best_fit(lengths, length, seed, begin, documents): fills begin and documents, gives the number of rows"},
    {"dependent_order", py_dependent_order, METH_VARARGS,
     "dependent_order(ids, runs, key, out): fills out, gives the number of ticks that are shared"},
    {"random_fill", py_random_fill, METH_VARARGS,
     "random_fill(kind, keys, call, n, float64, low, high, out): numbers of rows; kind 0 words, 1 uniform, 2 normal, "
     "3 integers, 4 permutation"},
    {"order_shuffled", py_order_shuffled, METH_VARARGS,
     "order_shuffled(count, seed, epoch, first, n): Memory of int64 positions"},
    {"positions_hash", py_positions_hash, METH_O, "positions_hash(int64 positions): as states have it"},
    {"select_extreme", py_select_extreme, METH_VARARGS,
     "select_extreme(values, marks, least, out): fills out with positions"},
    {"select_weighted", py_select_weighted, METH_VARARGS,
     "select_weighted(values, marks, alpha, key, out): fills out with positions"},
    {"power_law_fit", py_power_law_fit, METH_VARARGS,
     "power_law_fit(n, loss, bounds, start or None): (alpha, log_beta, log_eps, objective)"},
    {"power_law_at", py_power_law_at, METH_VARARGS, "power_law_at(alpha, log_beta, log_eps, n): (loss, slope)"},
    {"curve_smooth", py_curve_smooth, METH_VARARGS,
     "curve_smooth(values, window, degree, first, stride, out): fills out"},
    {"exp", py_exp, METH_O, "exp(x, /): the same bits on every machine"},
    {"ln", py_ln, METH_O, "ln(x, /): the same bits on every machine"},
    {"power", py_power, METH_VARARGS, "power(x, y): the same bits on every machine"},
    {"device_channels", py_device_channels, METH_VARARGS,
     "device_channels(loader, output): that a table goes with, or 0"},
    {"device_decodes", py_device_decodes, METH_VARARGS,
     "device_decodes(dataset, field): whether a card decodes photos like the first one"},
    {"row_key", py_row_key, METH_VARARGS, "row_key(seed, epoch, row): its random key"},
    {"substitutes", py_substitutes, METH_VARARGS,
     "substitutes(row_key, count, broken): the positions of `count` that are tried in the place of a broken one"},
    {"current_row", py_current_row, METH_NOARGS, "current_row(): (seed, epoch, row) that this thread makes, or None"},
    {"current_turn", py_current_turn, METH_NOARGS, "current_turn(): how many rows this thread has begun"},
    {"samples", py_samples, METH_VARARGS,
     "samples(board or None, dataset, indices, before, seed, epoch, first_row): a list"},
    {"set_current_row", py_set_current_row, METH_VARARGS,
     "set_current_row(seed, epoch, row[, turn]), or no arguments: none; turn: of a row that was begun before"},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out ? PyModule_AddType(module, *out) : -1;
}

static int module_exec(PyObject *module)
{
    static PyInterpreterState *imported;
    if (imported) {
        PyErr_SetString(PyExc_ImportError, imported == PyInterpreterState_Get()
                                               ? "leat is loaded once in a process, and was taken out of sys.modules: "
                                                 "start a new process (in a notebook, restart the kernel)"
                                               : "leat works in one interpreter of a process only");
        return -1;
    }
    imported = PyInterpreterState_Get();
#define ADD_TYPE(NAME)                                                                                                 \
    if (add_type(module, &py_##NAME##_spec, &py_##NAME##_type))                                                        \
        return -1;
    PY_TYPES(ADD_TYPE)
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "leat._leat",
    .m_doc = "Handles of the leat library.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__leat(void);
PyMODINIT_FUNC PyInit__leat(void)
{
    leat_set_interrupt(py_interrupted);
    return PyModuleDef_Init(&definition);
}
