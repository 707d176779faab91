/*
 * Rows for a card (leat/device.h). leat/device/table.py makes arrays and tensors of its inputs and outputs; here they
 * are handed to the library, without the GIL. The library's functions may be called from several threads at a time, so
 * there is no guard: the handle is closed when nobody refers to the object any more.
 */
#include "leat/device.h"
#include "leat_py.h"

struct rows {
    PyObject_HEAD struct leat_device_rows *handle;
    Py_buffer data; /* of the table; it stays where it is meanwhile */
    uint64_t width;
    bool here; /* no card */
};

/* open(data, dtype, count, width, path or None, whether that is in memory, device, budget_bytes, num_threads, path of
 * NVRTC or None) */
static PyObject *rows_open(PyTypeObject *type, PyObject *args)
{
    struct leat_device_rows_options o = LEAT_DEVICE_ROWS_OPTIONS_INIT;
    struct leat_error error;
    PyObject *data, *path = NULL, *nvrtc = NULL;
    unsigned long long count, width, budget;
    const char *dtype;
    struct rows *r = NULL;
    int rc, in_memory;
    if (!PyArg_ParseTuple(args, "OsKKO&piKIO&:open", &data, &dtype, &count, &width, py_path_or_none, &path, &in_memory,
                          &o.device, &budget, &o.num_threads, py_path_or_none, &nvrtc))
        return NULL;
    o.dtype = leat_dtype_from_name(dtype);
    o.count = count;
    o.width = width;
    o.budget_bytes = budget;
    o.in_memory = in_memory;
    o.path = path ? PyBytes_AsString(path) : NULL;
    o.nvrtc = nvrtc ? PyBytes_AsString(nvrtc) : NULL;
    r = py_object_new(type);
    if (!r || PyObject_GetBuffer(data, &r->data, PyBUF_SIMPLE)) {
        Py_CLEAR(r);
        goto out;
    }
    o.data = r->data.buf;
    r->width = o.width;
    r->here = o.device < 0;
    uint64_t bytes;
    if (__builtin_mul_overflow(o.width, leat_dtype_size(o.dtype), &bytes) ||
        __builtin_mul_overflow(bytes, o.count, &bytes) || bytes != (uint64_t)r->data.len) {
        PyErr_SetString(PyExc_ValueError, "open: data has `count` rows of `width` values");
        Py_CLEAR(r);
        goto out;
    }
    PY_WITHOUT_GIL(rc = leat_device_rows_open(&o, &r->handle, &error));
    if (rc) {
        Py_CLEAR(r);
        py_raise(&error);
    }
out:
    Py_XDECREF(path);
    Py_XDECREF(nvrtc);
    return (PyObject *)r;
}

static void rows_dealloc(PyObject *self)
{
    struct rows *r = (struct rows *)self;
    PY_WITHOUT_GIL(leat_device_rows_close(r->handle));
    if (r->data.obj)
        PyBuffer_Release(&r->data);
    py_object_free(self);
}

/* gather(ids, wide, dtype, out): by the processor, into the buffer `out` */
static PyObject *rows_gather(PyObject *self, PyObject *args)
{
    struct rows *r = (struct rows *)self;
    struct leat_error error;
    Py_buffer ids, out;
    const char *dtype;
    int wide, rc = 0;
    if (!PyArg_ParseTuple(args, "y*psw*:gather", &ids, &wide, &dtype, &out))
        return NULL;
    const enum leat_dtype as = leat_dtype_from_name(dtype);
    const uint64_t n = (uint64_t)ids.len / (wide ? 8 : 4);
    uint64_t bytes;
    const bool good =
        r->here && !__builtin_mul_overflow(r->width * leat_dtype_size(as), n, &bytes) && bytes == (uint64_t)out.len;
    if (good)
        PY_WITHOUT_GIL(rc = leat_device_rows_gather(r->handle, ids.buf, wide, n, as, out.buf, NULL, &error));
    else
        PyErr_SetString(PyExc_ValueError, "gather: out has room for the rows, and no card is in use");
    PyBuffer_Release(&ids);
    PyBuffer_Release(&out);
    return good ? py_none_or_raise(rc, &error) : NULL;
}

/* look(ids, wide, begin, end): of the host */
static PyObject *rows_look(PyObject *self, PyObject *args)
{
    struct rows *r = (struct rows *)self;
    struct leat_error error;
    Py_buffer ids;
    unsigned long long begin, end;
    int wide, rc = 0;
    if (!PyArg_ParseTuple(args, "y*pKK:look", &ids, &wide, &begin, &end))
        return NULL;
    const bool good = begin <= end && end <= (uint64_t)ids.len / (wide ? 8 : 4);
    if (good)
        PY_WITHOUT_GIL(rc = leat_device_rows_look(r->handle, ids.buf, wide, begin, end, &error));
    else
        PyErr_SetString(PyExc_ValueError, "look: there are not so many ids");
    PyBuffer_Release(&ids);
    return good ? py_none_or_raise(rc, &error) : NULL;
}

/* gather_there(ids, wide, n, dtype, out, stream): by the card; addresses of its memory */
static PyObject *rows_gather_there(PyObject *self, PyObject *args)
{
    struct rows *r = (struct rows *)self;
    struct leat_error error;
    unsigned long long ids, out, stream, n;
    const char *dtype;
    int wide, rc;
    if (!PyArg_ParseTuple(args, "KpKsKK:gather_there", &ids, &wide, &n, &dtype, &out, &stream))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_device_rows_gather(r->handle, (void *)(uintptr_t)ids, wide, n, leat_dtype_from_name(dtype),
                                                (void *)(uintptr_t)out, (void *)(uintptr_t)stream, &error));
    return py_none_or_raise(rc, &error);
}

/* check(stream, wait) */
static PyObject *rows_check(PyObject *self, PyObject *args)
{
    struct rows *r = (struct rows *)self;
    struct leat_error error;
    unsigned long long stream;
    int wait, rc;
    if (!PyArg_ParseTuple(args, "Kp:check", &stream, &wait))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_device_rows_check(r->handle, (void *)(uintptr_t)stream, wait, &error));
    return py_none_or_raise(rc, &error);
}

PY_METHOD(rows_in_place, PyBool_FromLong(leat_device_rows_in_place(((struct rows *)self)->handle)))
PY_METHOD(rows_staged, PyBool_FromLong(leat_device_rows_staged(((struct rows *)self)->handle)))

static PyMethodDef rows_methods[] = {
    {"open", (PyCFunction)(void (*)(void))rows_open, METH_VARARGS | METH_CLASS,
     "open(data, dtype, count, width, path, in_memory, device, budget_bytes, num_threads, nvrtc)"},
    {"gather", rows_gather, METH_VARARGS, "gather(ids, wide, dtype, out): by the processor"},
    {"look", rows_look, METH_VARARGS, "look(ids, wide, begin, end): whether they name rows"},
    {"gather_there", rows_gather_there, METH_VARARGS,
     "gather_there(ids, wide, n, dtype, out, stream): by the card; addresses of its memory"},
    {"check", rows_check, METH_VARARGS, "check(stream, wait): whether the card has met an id that names no row"},
    {"in_place", rows_in_place, METH_NOARGS, "in_place(): whether the card reads the data itself"},
    {"staged", rows_staged, METH_NOARGS, "staged(): whether gather_there takes ids of the host"},
    {0},
};
static PyType_Slot rows_slots[] = {
    {Py_tp_dealloc, (void *)rows_dealloc},
    {Py_tp_methods, rows_methods},
    {0, NULL},
};
PyType_Spec py_device_rows_spec = PY_TYPE(DeviceRows, struct rows, rows_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
