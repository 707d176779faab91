/* Decimal numbers in text: number.h. */
#include "base/number.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_DIGITS = 19, EXACT_POWER = 22, LONGEST = 4096 };

static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                               1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* By the C library, in the C locale. */
static double read_slowly(const char *text, size_t n)
{
    static locale_t c_locale;
    char copy[LONGEST + 1];
    locale_t locale = __atomic_load_n(&c_locale, __ATOMIC_ACQUIRE);
    if (!locale) {
        locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (__atomic_compare_exchange_n(&c_locale, &locale, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            locale = made;
        else if (made)
            freelocale(made);
    }
    n = n < LONGEST ? n : LONGEST;
    memcpy(copy, text, n);
    copy[n] = 0;
    return locale ? strtod_l(copy, NULL, locale) : strtod(copy, NULL);
}

/* Appends digits to a mantissa, which may overflow: then it is not used. Returns where they end. */
static inline size_t take_digits(const char *text, size_t i, size_t n, uint64_t *mantissa, size_t *significant)
{
    while (!*significant && i < n && text[i] == '0')
        i++;
    const size_t begin = i;
    uint64_t value = *mantissa;
    for (; i < n && is_digit(text[i]); i++)
        value = value * 10 + (uint64_t)(text[i] - '0');
    *mantissa = value;
    *significant += i - begin;
    return i;
}

size_t leat_number_read(const char *text, size_t n, enum leat_number_form form, struct leat_number *out)
{
    const bool json = form == LEAT_NUMBER_JSON;
    size_t significant = 0, behind = 0;
    uint64_t mantissa = 0;
    int64_t exponent = 0;
    const bool negative = n && text[0] == '-';
    const size_t begin = negative || (!json && n && text[0] == '+');
    size_t i = take_digits(text, begin, n, &mantissa, &significant);
    const size_t digits = i - begin;
    if (json && (!digits || (digits > 1 && text[begin] == '0')))
        return 0;
    out->is_whole = true;
    if (digits && significant < EXACT_DIGITS && (i == n || (text[i] != '.' && (text[i] | 0x20) != 'e'))) {
        out->whole = negative ? -(int64_t)mantissa : (int64_t)mantissa; /* as most are */
        out->value = negative ? -(double)mantissa : (double)mantissa;
        return i;
    }
    if (i < n && text[i] == '.') {
        out->is_whole = false;
        behind = take_digits(text, i + 1, n, &mantissa, &significant) - (i + 1);
        i += 1 + behind;
        if (json && !behind)
            return 0;
        if (!digits && !behind)
            return 0;
    } else if (!digits) {
        return 0;
    }
    if (i < n && (text[i] == 'e' || text[i] == 'E')) {
        size_t at = i + 1;
        bool down = at < n && text[at] == '-';
        at += at < n && (text[at] == '-' || text[at] == '+');
        size_t first = at;
        for (; at < n && is_digit(text[at]); at++)
            if (exponent < 100000)
                exponent = exponent * 10 + (text[at] - '0');
        if (at == first && json)
            return 0;
        if (at > first) {
            out->is_whole = false;
            exponent = down ? -exponent : exponent;
            i = at;
        } else {
            exponent = 0;
        }
    }
    int64_t power = exponent - (int64_t)behind;
    if (significant <= EXACT_DIGITS && mantissa <= UINT64_C(1) << 53 && power >= -EXACT_POWER && power <= EXACT_POWER) {
        double v = (double)mantissa;
        v = power < 0 ? v / powers[-power] : v * powers[power];
        out->value = negative ? -v : v;
    } else {
        out->value = read_slowly(text, i);
    }
    out->is_whole &=
        significant < EXACT_DIGITS || (significant == EXACT_DIGITS && mantissa <= (uint64_t)INT64_MAX + negative);
    if (out->is_whole)
        out->whole = negative ? -(int64_t)(mantissa - 1) - 1 : (int64_t)mantissa;
    return i;
}
