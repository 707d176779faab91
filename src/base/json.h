/* Numbers and hashes in JSON. */
#ifndef LEAT_BASE_JSON_H
#define LEAT_BASE_JSON_H

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A whole number in [0, most]. False, and *out untouched: `value`, which may be NULL, is none. */
static inline bool leat_json_number(const json_t *value, uint64_t most, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > most)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* The hexadecimal text of a fingerprint. */
static inline void leat_json_fingerprint(const uint8_t fingerprint[16], char text[33])
{
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", fingerprint[i]);
}

/* 64 bits as 16 hexadecimal digits. NULL: there is no memory. */
static inline json_t *leat_json_hex64(uint64_t v)
{
    return json_sprintf("%016" PRIx64, v);
}

/* `o`, or NULL, and it is released, if a part of it could not be made: json_object_set_new refuses a NULL value. */
static inline json_t *leat_json_whole(json_t *o, int failed)
{
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

#endif
