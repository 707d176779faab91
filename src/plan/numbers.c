/*
 * Numbers of sources in a state, one for each: an array, or, of more than 32 sources, one text: base64 of the numbers,
 * zigzag-coded, as base-128 varints. So a state stays small, and one of a few sources can be read. Reading takes either
 * and checks every byte.
 */
#include "plan/numbers.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/list.h"

#define MOST_LISTED 32

bool leat_numbers_listed(uint32_t n)
{
    return n <= MOST_LISTED;
}

json_t *leat_numbers_json(const int64_t *numbers, uint32_t n, bool packed)
{
    if (!packed || leat_numbers_listed(n)) {
        json_t *list = json_array();
        int bad = 0;
        for (uint32_t k = 0; k < n; k++)
            bad |= json_array_append_new(list, json_integer(numbers[k]));
        if (!bad)
            return list;
        json_decref(list);
        return NULL;
    }
    uint8_t *bytes = leat_new_array(n, LEAT_VARINT_BYTES);
    if (!bytes)
        return NULL;
    uint64_t used = 0;
    for (uint32_t k = 0; k < n; k++)
        used += leat_varint_put(numbers[k], bytes + used);
    char *text = leat_to_base64(bytes, used);
    json_t *o = text ? json_string(text) : NULL;
    leat_free(text);
    leat_free(bytes);
    return o;
}

int leat_numbers_read(const json_t *value, uint32_t n, int64_t *out)
{
    if (json_is_array(value)) {
        bool good = json_array_size(value) == n;
        for (uint32_t k = 0; good && k < n; k++) {
            const json_t *v = json_array_get(value, k);
            good = json_is_integer(v);
            out[k] = good ? json_integer_value(v) : 0;
        }
        return good ? LEAT_OK : LEAT_E_INVALID;
    }
    const char *text = json_string_value(value);
    if (!text || strlen(text) / 4 * 3 > n * (uint64_t)LEAT_VARINT_BYTES + 3)
        return LEAT_E_INVALID;
    uint8_t *bytes = leat_alloc(strlen(text) + 1);
    if (!bytes)
        return LEAT_E_NOMEM;
    uint64_t used = 0, at = 0;
    bool good = leat_from_base64(text, bytes, &used);
    for (uint32_t k = 0; good && k < n; k++)
        good = leat_varint_take(bytes, used, &at, &out[k]);
    leat_free(bytes);
    return good && at == used ? LEAT_OK : LEAT_E_INVALID;
}
