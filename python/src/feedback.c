/* Tables of values reported by sample, and selections from values. */
#include <stdio.h>

#include "leat/feedback.h"
#include "leat_py.h"

struct table {
    PyObject_HEAD struct leat_feedback *handle;
    uint64_t samples;
};

/* table(samples, int64 ids or None, folder or None, deferred) */
static PyObject *table_open(PyTypeObject *type, PyObject *args)
{
    struct leat_feedback_options o = LEAT_FEEDBACK_OPTIONS_INIT;
    struct leat_error error;
    unsigned long long samples;
    PyObject *folder = NULL;
    Py_buffer ids = {0};
    int deferred, rc;
    if (!PyArg_ParseTuple(args, "Kz*O&p:open", &samples, &ids, py_path_or_none, &folder, &deferred))
        return NULL;
    struct table *t = py_object_new(type);
    if (t) {
        o.samples = t->samples = samples;
        o.ids = ids.buf;
        o.folder = folder ? PyBytes_AsString(folder) : NULL;
        o.deferred = deferred;
        PY_WITHOUT_GIL(rc = leat_feedback_new(&o, &t->handle, &error));
        if (rc) {
            t->handle = NULL;
            py_raise(&error);
            Py_CLEAR(t);
        }
    }
    if (ids.obj)
        PyBuffer_Release(&ids);
    Py_XDECREF(folder);
    return (PyObject *)t;
}

static void table_dealloc(PyObject *self)
{
    struct leat_feedback *handle = ((struct table *)self)->handle;
    PY_WITHOUT_GIL(leat_feedback_free(handle));
    py_object_free(self);
}

/* report(int64 ids, float32 values, epoch, step): as many of one as of the other */
static PyObject *table_report(PyObject *self, PyObject *args)
{
    struct leat_error error;
    Py_buffer ids, values;
    unsigned int epoch, step;
    int rc;
    if (!PyArg_ParseTuple(args, "y*y*II:report", &ids, &values, &epoch, &step))
        return NULL;
    const bool same = ids.len / (Py_ssize_t)sizeof(int64_t) == values.len / (Py_ssize_t)sizeof(float);
    if (same)
        PY_WITHOUT_GIL(rc = leat_feedback_report(((struct table *)self)->handle, ids.buf, values.buf,
                                                 (uint64_t)ids.len / sizeof(int64_t), epoch, step, &error));
    PyBuffer_Release(&ids);
    PyBuffer_Release(&values);
    if (!same)
        return PyErr_SetString(PyExc_ValueError, "a report has a value for each id"), NULL;
    return py_none_or_raise(rc, &error);
}

static PyObject *table_wait(PyObject *self, PyObject *none)
{
    PY_WITHOUT_GIL(leat_feedback_wait(((struct table *)self)->handle));
    Py_RETURN_NONE;
}

PY_METHOD(table_kept, PyLong_FromUnsignedLongLong(leat_feedback_kept(((struct table *)self)->handle)))

/* take(out: writable buffer of 24 bytes a report, clear): how many */
static PyObject *table_take(PyObject *self, PyObject *args)
{
    Py_buffer out;
    int clear;
    uint64_t n;
    if (!PyArg_ParseTuple(args, "w*p:take", &out, &clear))
        return NULL;
    PY_WITHOUT_GIL(n = leat_feedback_take(((struct table *)self)->handle, out.buf,
                                          (uint64_t)out.len / sizeof(struct leat_noted), clear));
    PyBuffer_Release(&out);
    return PyLong_FromUnsignedLongLong(n);
}

/* enter(buffer of 24 bytes a report) */
static PyObject *table_enter(PyObject *self, PyObject *reports)
{
    struct leat_error error;
    Py_buffer view;
    int rc;
    if (PyObject_GetBuffer(reports, &view, PyBUF_SIMPLE))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_feedback_enter(((struct table *)self)->handle, view.buf,
                                            (uint64_t)view.len / sizeof(struct leat_noted), &error));
    PyBuffer_Release(&view);
    return py_none_or_raise(rc, &error);
}

/* The marks, as bytes. The view keeps the table. */
static int table_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct table *t = (struct table *)self;
    return PyBuffer_FillInfo(view, self, leat_feedback_marks(t->handle),
                             (Py_ssize_t)(t->samples * sizeof(struct leat_mark)), 0, flags);
}

static PyMethodDef table_methods[] = {
    {"open", (PyCFunction)(void (*)(void))table_open, METH_VARARGS | METH_CLASS,
     "open(samples, ids, folder, deferred)"},
    {"report", table_report, METH_VARARGS, "report(ids, values, epoch, step)"},
    {"wait", table_wait, METH_NOARGS, "wait(): until all reports are entered"},
    {"kept", table_kept, METH_NOARGS, "kept(): how many reports are deferred"},
    {"take", table_take, METH_VARARGS, "take(out, clear): those reports"},
    {"enter", table_enter, METH_O, "enter(reports, /)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_doc, (void *)"A table of what was reported by sample; its buffer is the marks, 16 bytes each."},
    {Py_tp_dealloc, (void *)table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_bf_getbuffer, (void *)table_getbuffer},
    {0, NULL},
};

PyType_Spec py_table_spec = PY_TYPE(Table, struct table, table_slots, Py_TPFLAGS_DISALLOW_INSTANTIATION);

/* ---- selections ----------------------------------------------------------------------------------------------------
 */

/* Values in a buffer of marks (its counts are beside them), or of float32. */
static struct leat_measured values_of(const Py_buffer *view, int marks)
{
    const size_t stride = marks ? sizeof(struct leat_mark) : sizeof(float);
    const struct leat_mark *first = view->buf;
    return (struct leat_measured){.values = marks ? &first->value : view->buf,
                                  .counts = marks ? &first->count : NULL,
                                  .stride = stride,
                                  .n = (uint64_t)view->len / stride};
}

PyObject *py_positions_hash(PyObject *module, PyObject *positions)
{
    Py_buffer view;
    char text[17];
    if (PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE))
        return NULL;
    const uint64_t hash = leat_positions_hash(view.buf, (uint64_t)view.len / sizeof(int64_t));
    PyBuffer_Release(&view);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return PyUnicode_FromString(text);
}

/* select_extreme(values, whether these are marks, whether the least, out: buffer of int64): fills out */
PyObject *py_select_extreme(PyObject *module, PyObject *args)
{
    Py_buffer values, out;
    int marks, least, rc;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "y*ppw*:select_extreme", &values, &marks, &least, &out))
        return NULL;
    const struct leat_measured from = values_of(&values, marks);
    PY_WITHOUT_GIL(rc = leat_select_extreme(&from, least ? LEAT_LEAST : LEAT_GREATEST,
                                            (uint64_t)out.len / sizeof(int64_t), out.buf, &error));
    PyBuffer_Release(&values);
    PyBuffer_Release(&out);
    return py_none_or_raise(rc, &error);
}

/* select_weighted(values, whether these are marks, alpha, key, out: buffer of int64): fills out */
PyObject *py_select_weighted(PyObject *module, PyObject *args)
{
    Py_buffer values, out;
    int marks, rc;
    double alpha;
    unsigned long long key;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "y*pdKw*:select_weighted", &values, &marks, &alpha, &key, &out))
        return NULL;
    const struct leat_measured from = values_of(&values, marks);
    PY_WITHOUT_GIL(rc = leat_select_weighted(&from, alpha, key, (uint64_t)out.len / sizeof(int64_t), out.buf, &error));
    PyBuffer_Release(&values);
    PyBuffer_Release(&out);
    return py_none_or_raise(rc, &error);
}
