/* Values that are made from bytes: made_values.h. */
#include "format/made_values.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "format/npy.h"

static uint64_t step_bytes(const struct leat_field *f)
{
    uint64_t bytes = leat_dtype_size(f->dtype);
    for (unsigned d = f->ndim && f->shape[0] < 0 ? 1 : 0; d < f->ndim; d++)
        bytes *= (uint64_t)f->shape[d];
    return bytes;
}

static bool npy_fits(const struct leat_npy *npy, const struct leat_field *f)
{
    bool fits = npy->dtype == f->dtype && npy->ndim == f->ndim;
    for (unsigned d = 0; fits && d < f->ndim; d++)
        fits = f->shape[d] < 0 || npy->shape[d] == (uint64_t)f->shape[d];
    return fits;
}

/* "nan", "inf" and "-inf", as Python writes them. */
static bool is_no_number(const char *p, size_t n, double *value)
{
    static const struct {
        const char *text;
        double value;
    } all[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -(double)INFINITY}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i].text) == n && !strncasecmp(all[i].text, p, n)) {
            *value = all[i].value;
            return true;
        }
    return false;
}

/* A number in text as a scalar of any type. False: it is none, or does not fit. */
static bool read_scalar(const uint8_t *p, size_t n, enum leat_dtype dtype, uint8_t *to)
{
    struct leat_number number;
    while (n && (*p == ' ' || (*p >= '\t' && *p <= '\r')))
        p++, n--;
    while (n && (p[n - 1] == ' ' || (p[n - 1] >= '\t' && p[n - 1] <= '\r')))
        n--;
    if (is_no_number((const char *)p, n, &number.value)) {
        number.is_whole = false;
        number.whole = 0;
    } else if (!n || leat_number_read((const char *)p, n, LEAT_NUMBER_TEXT, &number) != n) {
        return false;
    }
    const float single = (float)number.value;
    const size_t each = leat_dtype_size(dtype);
    const bool is_signed = dtype == LEAT_I8 || dtype == LEAT_I16 || dtype == LEAT_I32 || dtype == LEAT_I64;
    if (dtype == LEAT_F64)
        memcpy(to, &number.value, 8);
    else if (dtype == LEAT_F32)
        memcpy(to, &single, 4);
    else if (dtype == LEAT_F16 || dtype == LEAT_BF16 || !number.is_whole || (!is_signed && number.whole < 0))
        return false;
    else
        memcpy(to, &number.whole, each);
    if (dtype == LEAT_F64 || dtype == LEAT_F32 || each == 8)
        return true;
    const int64_t most = dtype == LEAT_BOOL ? 1 : (INT64_C(1) << (8 * each - is_signed)) - 1;
    return number.whole <= most && (!is_signed || number.whole >= -most - 1);
}

const char leat_made_longer[] = "it has more bytes than a value of the field";

bool leat_made_is_longer(const struct leat_field *f, uint64_t n)
{
    const bool varies = f->ndim && f->shape[0] < 0;
    return !varies && n > LEAT_NPY_HEADER && n - LEAT_NPY_HEADER > step_bytes(f);
}

int leat_made_lacking(const struct leat_field *f, struct leat_values *out, size_t k, size_t i)
{
    static const uint16_t half_nan = 0x7e00, bfloat_nan = 0x7fc0;
    static const float single_nan = NAN;
    static const double double_nan = NAN;
    const size_t each = leat_dtype_size(f->dtype);
    const void *nan = f->dtype == LEAT_F16    ? (const void *)&half_nan
                      : f->dtype == LEAT_BF16 ? (const void *)&bfloat_nan
                      : f->dtype == LEAT_F32  ? (const void *)&single_nan
                      : f->dtype == LEAT_F64  ? (const void *)&double_nan
                                              : NULL;
    const uint64_t bytes = f->ndim && f->shape[0] < 0 ? 0 : step_bytes(f);
    uint8_t *to = leat_values_room(out, k, i, bytes);
    if (!to)
        return LEAT_E_NOMEM;
    if (!nan && bytes)
        memset(to, 0, (size_t)bytes);
    for (uint64_t at = 0; nan && at < bytes; at += each)
        memcpy(to + at, nan, each);
    return LEAT_OK;
}

int leat_made_value(const struct leat_field *f, const uint8_t *bytes, size_t n, struct leat_values *out, size_t k,
                    size_t i, const char **fault)
{
    struct leat_npy npy;
    const uint64_t step = step_bytes(f);
    uint8_t *to, scalar[8] = {0};
    *fault = NULL;
    if (leat_npy_recognise(bytes, n)) {
        *fault = leat_npy_read(bytes, n, &npy);
        if (!*fault && npy.bytes != n - npy.header)
            *fault = "its size is not that of its shape";
        if (!*fault && !npy_fits(&npy, f))
            *fault = "it has another dtype or shape than the field";
        if (*fault)
            return LEAT_E_DECODE;
        if (!(to = leat_values_room(out, k, i, npy.bytes)))
            return LEAT_E_NOMEM;
        leat_npy_values(&npy, bytes + npy.header, to);
        return LEAT_OK;
    }
    if (!f->ndim) {
        *fault = read_scalar(bytes, n, f->dtype, scalar) ? NULL : "it is no number in text that the field can hold";
        return *fault ? LEAT_E_DECODE : leat_values_put(out, k, i, scalar, step);
    }
    if (f->shape[0] < 0 ? n % step : n != step) {
        *fault = "it is neither a .npy, nor has it as many bytes as the values of the field";
        return LEAT_E_DECODE;
    }
    return leat_values_put(out, k, i, bytes, n);
}
