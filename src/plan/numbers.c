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
#include "base/error.h"
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

int leat_numbers_read(const json_t *value, uint32_t n, const char *what, int64_t **out, struct leat_error *error)
{
    const char *text = json_string_value(value);
    uint64_t used = 0, at = 0;
    const uint64_t most = n * (uint64_t)LEAT_VARINT_BYTES + 3;
    bool good = json_is_array(value) ? json_array_size(value) == n : text && strlen(text) / 4 * 3 <= most;
    if (!good)
        return leat_not_a_state(error, what);
    int64_t *numbers = leat_new_array(n, sizeof *numbers);
    uint8_t *bytes = text ? leat_alloc(most) : NULL;
    int rc = numbers && (!text || bytes) ? LEAT_OK : leat_no_memory_for_state(error);
    good = rc || !text || leat_from_base64(text, bytes, &used);
    for (uint32_t k = 0; !rc && good && k < n; k++) {
        const json_t *v = json_array_get(value, k);
        numbers[k] = json_integer_value(v);
        good = text ? leat_varint_take(bytes, used, &at, &numbers[k]) : json_is_integer(v);
    }
    leat_free(bytes);
    rc = rc || (good && at == used) ? rc : leat_not_a_state(error, what);
    if (rc)
        leat_free(numbers);
    else
        *out = numbers;
    return rc;
}

int leat_not_a_state(struct leat_error *error, const char *what)
{
    return leat_fail(error, LEAT_E_INVALID, "not a state of leat: %s. Give the text that state_dict() gave, unchanged",
                     what);
}

int leat_no_memory_for_state(struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory for a state");
}
