/* Fits of loss curves, and powers that are the same on every machine. */
#include "leat/curves.h"
#include "leat_py.h"

/* Whether buffers are of float64; else there is an exception. */
static bool doubles(const Py_buffer *a, const Py_buffer *b)
{
    if (a->len % (Py_ssize_t)sizeof(double) == 0 && b->len % (Py_ssize_t)sizeof(double) == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "an array of float64 is needed");
    return false;
}

/* power_law_fit(n, loss, (huber_delta, alpha_max, log_beta_max, log_eps_min), (alpha, log_beta, log_eps) or None)
 * -> (alpha, log_beta, log_eps, objective) */
PyObject *py_power_law_fit(PyObject *module, PyObject *args)
{
    struct leat_power_fit_options o;
    struct leat_power_law start, law;
    struct leat_error error;
    PyObject *start_object, *result = NULL;
    Py_buffer n, loss;
    int rc;
    if (!PyArg_ParseTuple(args, "y*y*(dddd)O:power_law_fit", &n, &loss, &o.huber_delta, &o.alpha_max, &o.log_beta_max,
                          &o.log_eps_min, &start_object))
        return NULL;
    const bool fresh = start_object == Py_None;
    if (doubles(&n, &loss) &&
        (fresh || PyArg_ParseTuple(start_object, "ddd:start", &start.alpha, &start.log_beta, &start.log_eps))) {
        if (n.len == loss.len) {
            PY_WITHOUT_GIL(rc = leat_power_law_fit(n.buf, loss.buf, (uint64_t)n.len / sizeof(double), &o,
                                                   fresh ? NULL : &start, &law, &error));
            result = rc ? py_raise(&error) : Py_BuildValue("dddd", law.alpha, law.log_beta, law.log_eps, law.objective);
        } else {
            PyErr_SetString(PyExc_ValueError, "a loss for each number of samples is needed");
        }
    }
    PyBuffer_Release(&n);
    PyBuffer_Release(&loss);
    return result;
}

/* power_law_at(alpha, log_beta, log_eps, n) -> (loss, slope) */
PyObject *py_power_law_at(PyObject *module, PyObject *args)
{
    struct leat_power_law law = {0};
    double n;
    if (!PyArg_ParseTuple(args, "dddd:power_law_at", &law.alpha, &law.log_beta, &law.log_eps, &n))
        return NULL;
    return Py_BuildValue("dd", leat_power_law_at(&law, n), leat_power_law_slope(&law, n));
}

/* curve_smooth(values, window, degree, first, stride, out): fills out */
PyObject *py_curve_smooth(PyObject *module, PyObject *args)
{
    unsigned int window, degree;
    unsigned long long first, stride;
    struct leat_error error;
    Py_buffer values, out;
    int rc = 0;
    if (!PyArg_ParseTuple(args, "y*IIKKw*:curve_smooth", &values, &window, &degree, &first, &stride, &out))
        return NULL;
    const bool good = doubles(&values, &out);
    if (good)
        PY_WITHOUT_GIL(rc = leat_curve_smooth(values.buf, (uint64_t)values.len / sizeof(double), window, degree, first,
                                              stride, (uint64_t)out.len / sizeof(double), out.buf, &error));
    PyBuffer_Release(&values);
    PyBuffer_Release(&out);
    return good ? py_none_or_raise(rc, &error) : NULL;
}

PyObject *py_exp(PyObject *module, PyObject *x)
{
    double value = PyFloat_AsDouble(x);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(leat_exp(value));
}

PyObject *py_power(PyObject *module, PyObject *args)
{
    double x, y;
    return PyArg_ParseTuple(args, "dd:power", &x, &y) ? PyFloat_FromDouble(leat_power(x, y)) : NULL;
}

PyObject *py_ln(PyObject *module, PyObject *x)
{
    double value = PyFloat_AsDouble(x);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(leat_ln(value));
}
