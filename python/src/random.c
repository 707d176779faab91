/* Random numbers of rows (leat/random.h), into memory that the caller has. */
#include "leat/random.h"

#include "leat_py.h"

enum drawn { WORDS, UNIFORM, NORMAL, INTEGERS, PERMUTATION, KINDS };

static int draw(enum drawn kind, const Py_buffer *keys, uint32_t call, uint64_t n, int dtype, int64_t low, int64_t high,
                void *out, struct leat_error *error)
{
    const uint64_t rows = (uint64_t)keys->len / sizeof(uint64_t);
    switch (kind) {
    case UNIFORM:
        return leat_random_uniform(keys->buf, rows, call, n, (enum leat_dtype)dtype, out, error);
    case NORMAL:
        return leat_random_normal(keys->buf, rows, call, n, (enum leat_dtype)dtype, out, error);
    case INTEGERS:
        return leat_random_integers(keys->buf, rows, call, n, low, high, out, error);
    case PERMUTATION:
        return leat_random_permutation(keys->buf, rows, call, n, out, error);
    default:
        leat_random_words(keys->buf, rows, call, n, out);
        return LEAT_OK;
    }
}

/* random_fill(kind, keys, call, n, float64, low, high, out): n numbers of each row into the buffer `out`. */
PyObject *py_random_fill(PyObject *module, PyObject *args)
{
    Py_buffer keys, out;
    int kind, wide;
    unsigned int call;
    unsigned long long n;
    long long low, high;
    struct leat_error error;
    uint64_t bytes;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "iy*IKpLLw*:random_fill", &kind, &keys, &call, &n, &wide, &low, &high, &out))
        return NULL;
    const uint64_t size = kind == WORDS || (kind <= NORMAL && !wide) ? 4 : 8;
    if (kind < WORDS || kind >= KINDS || keys.len % 8 || __builtin_mul_overflow((uint64_t)keys.len / 8, n, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || bytes != (uint64_t)out.len) {
        PyErr_SetString(PyExc_ValueError, "random_fill: out has room for n numbers of each key");
    } else {
        int rc;
        PY_WITHOUT_GIL(
            rc = draw((enum drawn)kind, &keys, call, n, wide ? LEAT_F64 : LEAT_F32, low, high, out.buf, &error));
        result = rc ? py_raise(&error) : Py_NewRef(Py_None);
    }
    PyBuffer_Release(&keys);
    PyBuffer_Release(&out);
    return result;
}
