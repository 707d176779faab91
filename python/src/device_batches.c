/*
 * Batches on a card (leat/device.h): what copies those of a loader, and one of them, which has the functions of a Batch
 * for what has travelled, as DLPack, and those of the host's for the rest.
 */
#include "leat/device.h"
#include "leat_py.h"

/* ---- the loader's ---- */

struct batches {
    PyObject_HEAD struct leat_device_batches *handle; /* NULL: closed */
    PyObject *reader;                                 /* whose batches they are */
    int dl_type, dl_number;                           /* its device, as DLPack has them */
    unsigned inside; /* threads in `take`: the last one closes it, if that was asked for meanwhile */
    bool closing;
};

/* (output, dtype, channels, planes, last, values) of each, whose values stay those of the list. */
static struct leat_device_table *tables_of(PyObject *list, size_t *n)
{
    const Py_ssize_t count = PyList_Size(list);
    struct leat_device_table *tables = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *tables);
    if (!tables)
        return count < 0 ? NULL : (struct leat_device_table *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *dtype;
        const void *values;
        Py_ssize_t bytes;
        int planes, last;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "ssIppy#", &tables[i].output, &dtype, &tables[i].channels,
                              &planes, &last, &values, &bytes)) {
            PyMem_Free(tables);
            return NULL;
        }
        tables[i].dtype = leat_dtype_from_name(dtype);
        tables[i].planes = planes;
        tables[i].last = last;
        tables[i].values = values;
        if ((size_t)bytes != (size_t)tables[i].channels * 256 * leat_dtype_size(tables[i].dtype)) {
            PyErr_SetString(PyExc_ValueError, "a table has 256 values of each channel");
            PyMem_Free(tables);
            return NULL;
        }
    }
    *n = (size_t)count;
    return tables;
}

/* open(Loader or Attached, device, prefetch, budget_bytes, tables, path of NVRTC or None, (type, number) of DLPack) */
static PyObject *batches_open(PyTypeObject *type, PyObject *args)
{
    struct leat_device_batches_options o = LEAT_DEVICE_BATCHES_OPTIONS_INIT;
    struct leat_error error;
    PyObject *reader, *list, *nvrtc = NULL;
    unsigned long long budget;
    int dl_type, dl_number, rc = 0;
    if (!PyArg_ParseTuple(args, "OiIKO!O&(ii):open", &reader, &o.device, &o.prefetch, &budget, &PyList_Type, &list,
                          py_path_or_none, &nvrtc, &dl_type, &dl_number))
        return NULL;
    const bool is_loader = Py_TYPE(reader) == py_loader_type;
    struct leat_loader *loader = is_loader ? py_loader_handle(reader) : NULL;
    struct leat_consumer *attached =
        Py_TYPE(reader) == py_attached_type ? ((struct py_reader *)reader)->consumer : NULL;
    if (!loader && !attached && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "batches on a card are those of a Loader or of an open Attached");
    struct leat_device_table *tables = PyErr_Occurred() ? NULL : tables_of(list, &o.n_tables);
    struct batches *b = tables ? py_object_new(type) : NULL;
    o.budget_bytes = budget;
    o.tables = tables;
    o.nvrtc = nvrtc ? PyBytes_AsString(nvrtc) : NULL;
    if (b) {
        b->dl_type = dl_type;
        b->dl_number = dl_number;
        b->reader = Py_NewRef(reader);
        PY_WITHOUT_GIL(rc = loader ? leat_device_batches_open(loader, &o, &b->handle, &error)
                                   : leat_device_batches_attach(attached, &o, &b->handle, &error));
        if (rc) {
            Py_CLEAR(b);
            py_raise(&error);
        }
    }
    PyMem_Free(tables);
    Py_XDECREF(nvrtc);
    return (PyObject *)b;
}

/* With the GIL, which is let go meanwhile. */
static void batches_end(struct batches *b)
{
    struct leat_device_batches *handle = b->handle;
    b->closing = true;
    if (b->inside)
        return;
    b->handle = NULL;
    PY_WITHOUT_GIL(leat_device_batches_close(handle));
}

static PyObject *batches_close(PyObject *self, PyObject *none)
{
    batches_end((struct batches *)self);
    Py_RETURN_NONE;
}

static void batches_dealloc(PyObject *self)
{
    struct batches *b = (struct batches *)self;
    PY_WITHOUT_GIL(leat_device_batches_close(b->handle));
    Py_XDECREF(b->reader);
    py_object_free(self);
}

static struct leat_device_batches *batches_handle(PyObject *self)
{
    const struct batches *b = (struct batches *)self;
    struct leat_device_batches *handle = b->closing ? NULL : b->handle;
    return handle ? handle : (struct leat_device_batches *)py_raise_text(LEAT_E_CLOSED, "the loader is closed");
}

struct there {
    PyObject_HEAD struct leat_device_batch *handle;
    PyObject *host; /* a Batch */
    int dl_type, dl_number;
};

/* take(batch, stream) -> DeviceBatch */
static PyObject *batches_take(PyObject *self, PyObject *args)
{
    struct batches *b = (struct batches *)self;
    struct leat_error error;
    PyObject *host;
    unsigned long long stream;
    int rc;
    if (!PyArg_ParseTuple(args, "O!K:take", py_batch_type, &host, &stream) || !batches_handle(self))
        return NULL;
    struct there *t = py_object_new(py_device_batch_type);
    if (!t)
        return NULL;
    t->host = Py_NewRef(host);
    t->dl_type = b->dl_type;
    t->dl_number = b->dl_number;
    b->inside++;
    PY_WITHOUT_GIL(
        rc = leat_device_batches_take(b->handle, py_batch_handle(host), (void *)(uintptr_t)stream, &t->handle, &error));
    if (!--b->inside && b->closing)
        batches_end(b);
    if (rc) {
        Py_DECREF(t);
        return py_raise(&error);
    }
    return (PyObject *)t;
}

static PyObject *batches_stats(PyObject *self, PyObject *none)
{
    struct leat_error error;
    char *json = NULL;
    struct leat_device_batches *handle = batches_handle(self);
    if (!handle)
        return NULL;
    return leat_device_batches_stats(handle, &json, &error) ? py_raise(&error) : py_text_take(json);
}

static PyMethodDef batches_methods[] = {
    {"open", (PyCFunction)(void (*)(void))batches_open, METH_VARARGS | METH_CLASS,
     "open(loader or attached, device, prefetch, budget_bytes, tables, path of NVRTC, (type, number) of DLPack)"},
    {"take", batches_take, METH_VARARGS, "take(batch, stream): a DeviceBatch"},
    {"stats", batches_stats, METH_NOARGS, "stats(): JSON text"},
    {"close", batches_close, METH_NOARGS, "close()"},
    {0},
};
static PyType_Slot batches_slots[] = {
    {Py_tp_dealloc, (void *)batches_dealloc},
    {Py_tp_methods, batches_methods},
    {0, NULL},
};
PyType_Spec py_device_batches_spec =
    PY_TYPE(DeviceBatches, struct batches, batches_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);

/* ---- a port's ---- */

struct mirrors {
    PyObject_HEAD struct leat_device_mirrors *handle;
};

/* open(device, budget_bytes) */
static PyObject *mirrors_open(PyTypeObject *type, PyObject *args)
{
    struct leat_error error;
    unsigned long long budget;
    int device, rc;
    if (!PyArg_ParseTuple(args, "iK:open", &device, &budget))
        return NULL;
    struct mirrors *m = py_object_new(type);
    if (!m)
        return NULL;
    PY_WITHOUT_GIL(rc = leat_device_mirrors_open(device, budget, &m->handle, &error));
    if (rc) {
        Py_DECREF(m);
        return py_raise(&error);
    }
    return (PyObject *)m;
}

static void mirrors_dealloc(PyObject *self)
{
    PY_WITHOUT_GIL(leat_device_mirrors_close(((struct mirrors *)self)->handle));
    py_object_free(self);
}

const struct leat_mirrors *py_device_mirrors(PyObject *object)
{
    return leat_device_mirrors_of(((struct mirrors *)object)->handle);
}

static PyObject *mirrors_stats(PyObject *self, PyObject *none)
{
    struct leat_error error;
    char *json = NULL;
    return leat_device_mirrors_stats(((struct mirrors *)self)->handle, &json, &error) ? py_raise(&error)
                                                                                      : py_text_take(json);
}

static PyMethodDef mirrors_methods[] = {
    {"open", (PyCFunction)(void (*)(void))mirrors_open, METH_VARARGS | METH_CLASS, "open(device, budget_bytes)"},
    {"stats", mirrors_stats, METH_NOARGS, "stats(): JSON text"},
    {0},
};
static PyType_Slot mirrors_slots[] = {
    {Py_tp_dealloc, (void *)mirrors_dealloc},
    {Py_tp_methods, mirrors_methods},
    {0, NULL},
};
PyType_Spec py_device_mirrors_spec =
    PY_TYPE(DeviceMirrors, struct mirrors, mirrors_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);

PyObject *py_device_channels(PyObject *module, PyObject *args)
{
    PyObject *loader;
    const char *output;
    if (!PyArg_ParseTuple(args, "O!s:device_channels", py_loader_type, &loader, &output))
        return NULL;
    const struct leat_loader *handle = py_loader_handle(loader);
    return handle ? PyLong_FromLong((long)leat_device_channels(handle, output)) : NULL;
}

/* device_decodes(dataset, field): whether a card decodes photos like its first one */
PyObject *py_device_decodes(PyObject *module, PyObject *args)
{
    PyObject *dataset;
    const char *field;
    if (!PyArg_ParseTuple(args, "O!s:device_decodes", py_dataset_type, &dataset, &field))
        return NULL;
    const struct leat_dataset *handle = py_dataset_handle(dataset);
    bool decodes;
    PY_WITHOUT_GIL(decodes = leat_device_decodes(handle, field));
    return PyErr_Occurred() ? NULL : PyBool_FromLong(decodes); /* a signal handler's, while it was read */
}

/* ---- one of them ---- */

static struct leat_batch *host_of(PyObject *self)
{
    return py_batch_handle(((struct there *)self)->host);
}

static void there_dealloc(PyObject *self)
{
    struct there *t = (struct there *)self;
    PY_WITHOUT_GIL(leat_device_batch_free(t->handle));
    Py_XDECREF(t->host);
    py_object_free(self);
}

static int tensor_of(PyObject *self, PyObject *number, struct leat_device_tensor *out)
{
    const size_t i = PyLong_AsSize_t(number);
    if (i == (size_t)-1 && PyErr_Occurred())
        return -1;
    if (leat_device_batch_tensor(((struct there *)self)->handle, i, out)) {
        PyErr_SetString(PyExc_IndexError, "no such output on the card");
        return -1;
    }
    return 0;
}

static PyObject *there_outputs(PyObject *self, PyObject *none)
{
    const struct leat_batch *host = host_of(self);
    const size_t n = leat_batch_outputs(host);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        struct leat_device_tensor t;
        struct leat_tensor image;
        const int found = leat_device_batch_tensor(((struct there *)self)->handle, i, &t);
        const int rc = leat_batch_image(host, i, 0, &image);
        const bool hidden =
            found == LEAT_E_TYPE || (found && (leat_batch_tensor(host, i, &t.tensor) || rc == LEAT_E_NOT_FOUND));
        py_list_add(&list, hidden ? Py_NewRef(Py_None)
                                  : Py_BuildValue("(sisNN)", t.tensor.name, (int)t.tensor.kind,
                                                  leat_dtype_name(t.tensor.dtype),
                                                  PyBool_FromLong(t.tensor.offsets != NULL), PyBool_FromLong(!rc)));
    }
    return list;
}

static PyObject *there_dlpack(PyObject *self, PyObject *number)
{
    const struct there *b = (struct there *)self;
    struct leat_device_tensor t;
    return tensor_of(self, number, &t) ? NULL : py_dlpack_there(b->dl_type, b->dl_number, &t, false, 0);
}

static PyObject *there_dlpack_offsets(PyObject *self, PyObject *number)
{
    const struct there *b = (struct there *)self;
    struct leat_device_tensor t;
    return tensor_of(self, number, &t)
               ? NULL
               : py_dlpack_there(b->dl_type, b->dl_number, &t, true, leat_batch_rows(host_of(self)));
}

/* An array of the rows. */
static PyObject *rows_of(PyObject *self, enum leat_dtype dtype)
{
    const struct there *b = (struct there *)self;
    struct leat_device_batch_rows rows;
    leat_device_batch_rows(b->handle, &rows);
    const void *data = dtype == LEAT_I64   ? (const void *)rows.ids
                       : dtype == LEAT_U64 ? (const void *)rows.keys
                       : dtype == LEAT_I32 ? (const void *)rows.domains
                                           : (const void *)rows.valid;
    const struct leat_device_tensor t = {.tensor = {.dtype = dtype,
                                                    .ndim = 1,
                                                    .shape = {(int64_t)leat_batch_rows(host_of(self))},
                                                    .strides = {1},
                                                    .data = (void *)(uintptr_t)data},
                                         .owner = rows.owner};
    return py_dlpack_there(b->dl_type, b->dl_number, &t, false, 0);
}
PY_METHOD(there_ids, rows_of(self, LEAT_I64))
PY_METHOD(there_row_keys, rows_of(self, LEAT_U64))
PY_METHOD(there_domains, rows_of(self, LEAT_I32))
PY_METHOD(there_valid, rows_of(self, LEAT_BOOL))
PY_METHOD(there_host, Py_NewRef(((struct there *)self)->host))

/* The functions of the host's batch, by their names. */
#define OF_HOST(NAME)                                                                                                  \
    static PyObject *there_##NAME(PyObject *self, PyObject *number)                                                    \
    {                                                                                                                  \
        return number ? PyObject_CallMethod(((struct there *)self)->host, #NAME, "O", number)                          \
                      : PyObject_CallMethod(((struct there *)self)->host, #NAME, NULL);                                \
    }
OF_HOST(images)
OF_HOST(text)
OF_HOST(errors)
OF_HOST(rows)
OF_HOST(epoch)
OF_HOST(step)

/* same(batch): whether both are of one batch of the host */
static PyObject *there_same(PyObject *self, PyObject *other)
{
    const bool host = Py_TYPE(other) == py_batch_type;
    return PyBool_FromLong((host || Py_TYPE(other) == py_device_batch_type) &&
                           host_of(self) == (host ? py_batch_handle(other) : host_of(other)));
}

static PyMethodDef there_methods[] = {
    {"outputs", there_outputs, METH_NOARGS, "as of a Batch"},
    {"dlpack", there_dlpack, METH_O, "dlpack(output): of what has travelled"},
    {"dlpack_offsets", there_dlpack_offsets, METH_O, "dlpack_offsets(output)"},
    {"images", there_images, METH_O, "as of a Batch"},
    {"text", there_text, METH_O, "as of a Batch"},
    {"errors", there_errors, METH_NOARGS, "as of a Batch"},
    {"rows", there_rows, METH_NOARGS, "as of a Batch"},
    {"epoch", there_epoch, METH_NOARGS, "as of a Batch"},
    {"step", there_step, METH_NOARGS, "as of a Batch"},
    {"ids", there_ids, METH_NOARGS, "ids(): a DLPack capsule, as are all four"},
    {"row_keys", there_row_keys, METH_NOARGS, ""},
    {"domains", there_domains, METH_NOARGS, ""},
    {"valid", there_valid, METH_NOARGS, ""},
    {"host", there_host, METH_NOARGS, "host(): the Batch"},
    {"same", there_same, METH_O, "same(batch): whether both are of one batch of the host"},
    {0},
};
static PyType_Slot there_slots[] = {
    {Py_tp_dealloc, (void *)there_dealloc},
    {Py_tp_methods, there_methods},
    {0, NULL},
};
PyType_Spec py_device_batch_spec = PY_TYPE(DeviceBatch, struct there, there_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
