/*
 * Decimal numbers in text, correctly rounded and whatever the locale: annotations are millions of short ones. Up to 19
 * digits and powers of ten up to 22 are exact, so that one multiplication or division rounds once (Clinger 1990, "How
 * to read floating point numbers accurately"); for the rest the C library has the time.
 */
#ifndef LEAT_BASE_NUMBER_H
#define LEAT_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JSON: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?, no more. TEXT: also a plus sign, zeros in front, and a point
 * that no digit stands before or behind. */
enum leat_number_form { LEAT_NUMBER_JSON, LEAT_NUMBER_TEXT };

struct leat_number {
    double value;  /* infinite if it is too large */
    bool is_whole; /* it has neither a point nor an exponent, and fits in ... */
    int64_t whole;
};

/* Reads the number that `text` of n bytes begins with; returns its bytes, 0: there is none. */
size_t leat_number_read(const char *text, size_t n, enum leat_number_form form, struct leat_number *out);

#endif
