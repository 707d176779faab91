/*
 * Chains of operators for single values, which a worker applies before and after functions in Python.
 */
#include "leat_py.h"

#include <string.h>

struct chain {
    PyObject_HEAD struct leat_chain *handle;
    PyObject *functions; /* keeps the functions of the chain */
};

/* Chain(field, program, functions): `field` as the Writer takes them. */
static PyObject *chain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct leat_field field = {0};
    const char *program;
    PyObject *tuple, *functions;
    struct leat_error error;
    if (!PyArg_ParseTuple(args, "O!sO!:Chain", &PyTuple_Type, &tuple, &program, &PyList_Type, &functions) ||
        py_field(tuple, &field))
        return NULL;
    if (!field.dtype) {
        PyErr_SetString(PyExc_ValueError, "no field for a chain");
        return NULL;
    }
    struct leat_native *table = py_native_table(functions);
    struct chain *c = table ? py_object_new(type) : NULL;
    if (c) {
        c->functions = Py_NewRef(functions);
        if (leat_chain_open(&field, program, table, (size_t)PyList_Size(functions), &c->handle, &error)) {
            Py_CLEAR(c);
            py_raise(&error);
        }
    }
    PyMem_Free(table);
    return (PyObject *)c;
}

static void chain_dealloc(PyObject *self)
{
    leat_chain_free(((struct chain *)self)->handle);
    Py_XDECREF(((struct chain *)self)->functions);
    py_object_free(self);
}

static PyObject *chain_describe(PyObject *self, PyObject *none)
{
    struct leat_chain_result r;
    leat_chain_describe(((struct chain *)self)->handle, &r);
    return Py_BuildValue("isiNNNK", (int)r.kind, leat_dtype_name(r.dtype), (int)r.layout, py_integers(r.shape, r.ndim),
                         py_integers(r.strides, r.ndim), PyBool_FromLong(r.open), (unsigned long long)r.moves);
}

static PyObject *chain_apply(PyObject *self, PyObject *args)
{
    Py_buffer value;
    unsigned long long key;
    long long sample;
    struct leat_value out;
    struct leat_error error;
    const char *moves = NULL;
    Py_ssize_t n_moves = 0;
    unsigned height = 0, width = 0;
    int rc;
    if (!PyArg_ParseTuple(args, "y*KL|IIz#:apply", &value, &key, &sample, &height, &width, &moves, &n_moves))
        return NULL;
    PY_WITHOUT_GIL(rc = leat_chain_apply_image(((struct chain *)self)->handle, value.buf, (uint64_t)value.len, height,
                                               width, moves, (uint64_t)n_moves, key, sample, &out, &error));
    PyBuffer_Release(&value);
    return rc ? py_raise(&error) : py_memory_of_value(&out, NULL);
}

/* Replaces the bytes of lists by those that they become. */
static PyObject *chain_lengths(PyObject *self, PyObject *args)
{
    Py_buffer lengths;
    if (!PyArg_ParseTuple(args, "w*:lengths", &lengths))
        return NULL;
    uint64_t *at = lengths.buf;
    for (Py_ssize_t i = 0; i < lengths.len / (Py_ssize_t)sizeof *at; i++)
        at[i] = leat_chain_bytes(((struct chain *)self)->handle, at[i]);
    PyBuffer_Release(&lengths);
    return Py_NewRef(Py_None);
}

static PyMethodDef chain_methods[] = {
    {"describe", chain_describe, METH_NOARGS,
     "describe(): (kind, dtype, layout, shape, strides, open, bytes of moves) of results"},
    {"lengths", chain_lengths, METH_VARARGS,
     "lengths(bytes): replaces the bytes of lists, uint64, by those that they become"},
    {"apply", chain_apply, METH_VARARGS, "apply(value, key, sample, height=0, width=0, moves=None): Memory"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot chain_slots[] = {
    {Py_tp_doc, (void *)"Chain(field, program, functions): operators for single values."},
    {Py_tp_new, (void *)chain_new},
    {Py_tp_dealloc, (void *)chain_dealloc},
    {Py_tp_methods, chain_methods},
    {0, NULL},
};
PyType_Spec py_chain_spec = PY_TYPE(Chain, struct chain, chain_slots, 0);
