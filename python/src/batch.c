/*
 * Batches: the result of one step of a loader. Arrays and tensors are made on demand.
 */
#include "leat_py.h"

#include <stdio.h>

struct batch {
    PyObject_HEAD struct leat_batch *handle;
    bool readonly; /* its memory is mapped so: arrays over it refuse to be written to */
};

static struct leat_batch *handle_of(PyObject *self)
{
    return ((struct batch *)self)->handle;
}

struct leat_batch *py_batch_handle(PyObject *object)
{
    return handle_of(object);
}

static bool is_readonly(PyObject *self)
{
    return ((struct batch *)self)->readonly;
}

PyObject *py_batch_new(struct leat_batch *handle, bool readonly)
{
    struct batch *b = py_object_new(py_batch_type);
    if (!b) {
        leat_batch_free(handle);
        return NULL;
    }
    b->handle = handle;
    b->readonly = readonly;
    return (PyObject *)b;
}

static void batch_dealloc(PyObject *self)
{
    leat_batch_free(handle_of(self));
    py_object_free(self);
}

/* The output of a number given as a Python int. */
static int tensor_of(PyObject *self, PyObject *number, struct leat_tensor *out)
{
    size_t i = PyLong_AsSize_t(number);
    if (i == (size_t)-1 && PyErr_Occurred())
        return -1;
    if (i >= leat_batch_outputs(handle_of(self)) || leat_batch_tensor(handle_of(self), i, out)) {
        PyErr_SetString(PyExc_IndexError, "no such output");
        return -1;
    }
    return 0;
}

/* outputs() -> [(name, kind, dtype, ragged, open)], or None for one that is not delivered */
static PyObject *batch_outputs(PyObject *self, PyObject *none)
{
    size_t n = leat_batch_outputs(handle_of(self));
    struct leat_tensor t, image;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        bool hidden = leat_batch_tensor(handle_of(self), i, &t);
        int rc = leat_batch_image(handle_of(self), i, 0, &image);
        bool open = rc == LEAT_OK;
        hidden |= rc == LEAT_E_NOT_FOUND; /* how large images are, their tensors say */
        PyObject *item = hidden ? Py_NewRef(Py_None)
                                : Py_BuildValue("(sisNN)", t.name, (int)t.kind, leat_dtype_name(t.dtype),
                                                PyBool_FromLong(t.offsets != NULL), PyBool_FromLong(open));
        py_list_add(&list, item);
    }
    return list;
}

static PyObject *batch_dlpack(PyObject *self, PyObject *number)
{
    struct leat_tensor t;
    return tensor_of(self, number, &t) ? NULL : py_dlpack_of_tensor(&t, false, 0);
}

static PyObject *batch_dlpack_offsets(PyObject *self, PyObject *number)
{
    struct leat_tensor t;
    return tensor_of(self, number, &t) ? NULL : py_dlpack_of_tensor(&t, true, leat_batch_rows(handle_of(self)));
}

static PyObject *batch_memory(PyObject *self, PyObject *number)
{
    struct leat_tensor t;
    return tensor_of(self, number, &t) ? NULL : py_memory_of_tensor(&t, false, 0, is_readonly(self));
}

static PyObject *batch_memory_offsets(PyObject *self, PyObject *number)
{
    struct leat_tensor t;
    return tensor_of(self, number, &t)
               ? NULL
               : py_memory_of_tensor(&t, true, leat_batch_rows(handle_of(self)), is_readonly(self));
}

/* images(output) -> [(begin, shape, strides)], in elements of the memory of dlpack() and memory() */
static PyObject *batch_images(PyObject *self, PyObject *number)
{
    struct leat_tensor t, image;
    uint64_t rows = leat_batch_rows(handle_of(self));
    if (tensor_of(self, number, &t))
        return NULL;
    PyObject *list = PyList_New(0);
    for (uint64_t i = 0; list && i < rows; i++) {
        if (leat_batch_image(handle_of(self), PyLong_AsSize_t(number), i, &image)) {
            Py_DECREF(list);
            PyErr_SetString(PyExc_TypeError, "not an output of images of open size");
            return NULL;
        }
        py_list_add(&list, Py_BuildValue("(LNN)", (long long)t.offsets[i], py_integers(image.shape, image.ndim),
                                         py_integers(image.strides, image.ndim)));
    }
    return list;
}

/* text(output) -> [str] */
static PyObject *batch_text(PyObject *self, PyObject *number)
{
    struct leat_tensor t;
    uint64_t rows = leat_batch_rows(handle_of(self));
    if (tensor_of(self, number, &t))
        return NULL;
    if (!t.offsets || t.dtype != LEAT_U8) {
        PyErr_SetString(PyExc_TypeError, "not an output of text");
        return NULL;
    }
    PyObject *list = PyList_New((Py_ssize_t)rows);
    for (uint64_t i = 0; list && i < rows; i++) {
        PyObject *s = PyUnicode_DecodeUTF8((const char *)t.data + t.offsets[i],
                                           (Py_ssize_t)(t.offsets[i + 1] - t.offsets[i]), NULL);
        if (!s || PyList_SetItem(list, (Py_ssize_t)i, s))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *batch_errors(PyObject *self, PyObject *none)
{
    size_t n = leat_batch_errors(handle_of(self));
    struct leat_row_error e;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        leat_batch_error(handle_of(self), i, &e); /* cannot fail: i is below their number */
        PyObject *item =
            Py_BuildValue("(KLLs)", (unsigned long long)e.row, (long long)e.planned, (long long)e.delivered, e.reason);
        py_list_add(&list, item);
    }
    return list;
}

/* Small arrays that live with the batch are copied, so that keeping one keeps no images. */
PY_METHOD(batch_ids, py_memory_copy(leat_batch_ids(handle_of(self)), LEAT_I64, leat_batch_rows(handle_of(self))))
PY_METHOD(batch_row_keys,
          py_memory_copy(leat_batch_row_keys(handle_of(self)), LEAT_U64, leat_batch_rows(handle_of(self))))
PY_METHOD(batch_domains,
          py_memory_copy(leat_batch_domains(handle_of(self)), LEAT_I32, leat_batch_rows(handle_of(self))))
PY_METHOD(batch_valid, py_memory_copy(leat_batch_valid(handle_of(self)), LEAT_BOOL, leat_batch_rows(handle_of(self))))
PY_METHOD(batch_rows, PyLong_FromUnsignedLongLong(leat_batch_rows(handle_of(self))))
PY_METHOD(batch_epoch, PyLong_FromUnsignedLongLong(leat_batch_epoch(handle_of(self))))
PY_METHOD(batch_step, PyLong_FromUnsignedLongLong(leat_batch_step(handle_of(self))))

/* same(other): whether both are handles of one batch */
static PyObject *batch_same(PyObject *self, PyObject *other)
{
    return PyBool_FromLong(Py_TYPE(other) == py_batch_type && handle_of(self) == handle_of(other));
}

static PyMethodDef batch_methods[] = {
    {"outputs", batch_outputs, METH_NOARGS, "outputs(): (name, kind, dtype, ragged, open) of each"},
    {"dlpack", batch_dlpack, METH_O, "dlpack(output): a DLPack capsule"},
    {"dlpack_offsets", batch_dlpack_offsets, METH_O, "dlpack_offsets(output): of a ragged one"},
    {"memory", batch_memory, METH_O, "memory(output): Memory"},
    {"memory_offsets", batch_memory_offsets, METH_O, "memory_offsets(output): of a ragged one"},
    {"images", batch_images, METH_O, "images(output): (begin, shape, strides) of each row's, of open size"},
    {"text", batch_text, METH_O, "text(output): list of str"},
    {"errors", batch_errors, METH_NOARGS, "errors(): (row, planned, delivered, reason) of each"},
    {"ids", batch_ids, METH_NOARGS, "ids(): Memory of int64"},
    {"row_keys", batch_row_keys, METH_NOARGS, "row_keys(): Memory of uint64"},
    {"domains", batch_domains, METH_NOARGS, "domains(): Memory of int32, the source of each row"},
    {"valid", batch_valid, METH_NOARGS, "valid(): Memory of bool"},
    {"rows", batch_rows, METH_NOARGS, "rows(): their number"},
    {"epoch", batch_epoch, METH_NOARGS, "epoch()"},
    {"step", batch_step, METH_NOARGS, "step()"},
    {"same", batch_same, METH_O, "same(batch): whether both are handles of one"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, (void *)"A handle of a batch."},
    {Py_tp_dealloc, (void *)batch_dealloc},
    {Py_tp_methods, batch_methods},
    {0, NULL},
};

PyType_Spec py_batch_spec = PY_TYPE(Batch, struct batch, batch_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);
