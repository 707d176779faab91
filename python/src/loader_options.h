/* The options of a loader: values by name, as Python has them, become options of the library. */
#ifndef LEAT_PY_LOADER_OPTIONS_H
#define LEAT_PY_LOADER_OPTIONS_H

#include "leat_py.h"

/* A mixture as the library takes it, with the memory that it refers to. */
struct py_mix {
    struct leat_mix_options options;
    struct leat_mix_source *sources;
    struct leat_pack_options *packs;
    struct leat_one_of_options *one_of;
    struct leat_mix_point *points;
    double *shares; /* of all points */
};

/* Handles and objects are borrowed: they stay as long as the values do that were read. */
struct py_loader_options {
    struct leat_loader_options options;
    struct leat_dataset *dataset; /* NULL: */
    struct py_mix mix;
    PyObject *functions, *executor; /* which a loader must keep; NULL: there are none */
    /* The things that the options refer to. */
    struct leat_pack_options pack;
    struct leat_one_of_options one_of;
    struct leat_bucket_options buckets;
    struct leat_native *table;
    PyObject *kept; /* a list of what is released with them */
};

/* Reads the options that are given by name; the others are as in LEAT_LOADER_OPTIONS_INIT. False with an exception.
 * They are to be released in any case. */
bool py_loader_options_read(struct py_loader_options *o, PyObject *named);
void py_loader_options_release(struct py_loader_options *o);

/* Reads a list of n numbers. False with an exception. */
bool py_shares_of(PyObject *list, Py_ssize_t n, double *out);

#endif
