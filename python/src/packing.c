/*
 * Rows that are made of documents, without a loader.
 */
#include "leat_py.h"

/* best_fit(lengths, length, seed, begin, documents) -> rows: buffers of n uint32, n + 2 and n. */
PyObject *py_best_fit(PyObject *module, PyObject *args)
{
    Py_buffer lengths, begin, documents;
    unsigned long long length, seed;
    struct leat_error error;
    uint64_t rows = 0;
    if (!PyArg_ParseTuple(args, "y*KKw*w*:best_fit", &lengths, &length, &seed, &begin, &documents))
        return NULL;
    const uint64_t n = (uint64_t)lengths.len / sizeof(uint32_t);
    PyObject *result = NULL;
    int rc = LEAT_OK;
    if ((uint64_t)begin.len / sizeof(uint32_t) < n + 2 || documents.len < lengths.len)
        PyErr_SetString(PyExc_ValueError,
                        "best_fit: begin has room for len(lengths) + 2 numbers, documents for as many");
    else {
        PY_WITHOUT_GIL(rc = leat_pack_best_fit(lengths.buf, n, length, seed, &rows, begin.buf, documents.buf, &error));
        result = rc ? py_raise(&error) : PyLong_FromUnsignedLongLong(rows);
    }
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&begin);
    PyBuffer_Release(&documents);
    return result;
}
