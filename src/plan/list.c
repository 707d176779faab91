/*
 * A list of positions as text: differences of neighbours, zigzag-coded, as base-128 varints, in base64. Reading checks
 * every byte.
 */
#include "plan/list.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "leat/feedback.h"

uint64_t leat_positions_hash(const int64_t *positions, uint64_t n)
{
    return leat_hash64(positions, n * sizeof *positions);
}

int leat_list_new(const int64_t *positions, uint64_t n, uint64_t count, struct leat_list **out,
                  struct leat_error *error)
{
    *out = NULL;
    for (uint64_t i = 0; i < n; i++)
        if (positions[i] < 0 || (uint64_t)positions[i] >= count)
            return leat_fail(error, LEAT_E_RANGE,
                             "entry %llu of the list of positions is %lld, but the data set has %llu samples: give "
                             "positions of this data set",
                             (unsigned long long)i, (long long)positions[i], (unsigned long long)count);
    struct leat_list *list = leat_new(struct leat_list);
    if (!list || !(list->positions = leat_new_array(n, sizeof *positions))) {
        leat_free(list);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a list of %llu positions", (unsigned long long)n);
    }
    list->n = n;
    if (n)
        memcpy(list->positions, positions, n * sizeof *positions);
    list->hash = leat_positions_hash(list->positions, n);
    *out = list;
    return LEAT_OK;
}

void leat_list_free(struct leat_list *list)
{
    if (!list)
        return;
    leat_free(list->positions);
    leat_free(list);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

uint64_t leat_varint_put(int64_t value, uint8_t *out)
{
    uint64_t n = 0, z = ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
    for (; z >= 128; z >>= 7)
        out[n++] = (uint8_t)(z | 128);
    out[n++] = (uint8_t)z;
    return n;
}

static uint64_t varints(const struct leat_list *list, uint8_t *out)
{
    uint64_t n = 0;
    int64_t before = 0;
    for (uint64_t i = 0; i < list->n; i++) {
        n += leat_varint_put(list->positions[i] - before, out + n);
        before = list->positions[i];
    }
    return n;
}

char *leat_to_base64(const uint8_t *bytes, uint64_t n)
{
    char *text = leat_alloc((n + 2) / 3 * 4 + 1), *t = text;
    if (!text)
        return NULL;
    for (uint64_t i = 0; i < n; i += 3) {
        uint32_t v =
            (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0u) | (i + 2 < n ? bytes[i + 2] : 0u);
        *t++ = digits[v >> 18];
        *t++ = digits[v >> 12 & 63];
        *t++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
        *t++ = i + 2 < n ? digits[v & 63] : '=';
    }
    *t = '\0';
    return text;
}

int leat_list_to_text(const struct leat_list *list, uint64_t room, char **out)
{
    *out = NULL;
    if (list->n > room || (list->n && !list->positions))
        return LEAT_OK;
    uint8_t *bytes = leat_new_array(list->n, LEAT_VARINT_BYTES);
    if (!bytes)
        return LEAT_E_NOMEM;
    uint64_t n = varints(list, bytes);
    int rc = LEAT_OK;
    if ((n + 2) / 3 * 4 <= room && !(*out = leat_to_base64(bytes, n)))
        rc = LEAT_E_NOMEM;
    leat_free(bytes);
    return rc;
}

bool leat_from_base64(const char *text, uint8_t *out, uint64_t *n)
{
    uint64_t length = strlen(text), k = 0;
    if (length % 4)
        return false;
    for (uint64_t i = 0; i < length; i += 4) {
        unsigned pad = i + 4 < length || text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
        uint32_t v = 0;
        for (unsigned j = 0; j < 4; j++) {
            const char *d = j < 4 - pad ? memchr(digits, text[i + j], 64) : digits;
            if (!d)
                return false;
            v = v << 6 | (uint32_t)(d - digits);
        }
        for (unsigned j = 0; j < 3 - pad; j++)
            out[k++] = (uint8_t)(v >> (16 - 8 * j));
    }
    *n = k;
    return true;
}

bool leat_varint_take(const uint8_t *bytes, uint64_t n, uint64_t *at, int64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < n && shift < 64; shift += 7) {
        uint8_t b = bytes[(*at)++];
        if (shift == 63 && b > 1)
            return false;
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) {
            *out = (int64_t)((v >> 1) ^ (0 - (v & 1)));
            return true;
        }
    }
    return false;
}

int leat_positions_to_text(const int64_t *positions, uint64_t n, char **out)
{
    struct leat_list list = {.n = n, .positions = (int64_t *)(uintptr_t)positions};
    return leat_list_to_text(&list, UINT64_MAX, out);
}

int leat_positions_from_text(const char *text, uint64_t n, int64_t **out, struct leat_error *error)
{
    struct leat_list *list;
    *out = NULL;
    int rc = leat_list_from_text(text, INT64_MAX, &list, error);
    if (rc == LEAT_E_RANGE)
        rc = leat_fail(error, LEAT_E_INVALID, "the state's list of positions has a negative one: it was changed");
    if (rc)
        return rc;
    if (list->n == n) {
        *out = list->positions;
        list->positions = NULL;
    } else {
        rc = leat_fail(error, LEAT_E_INVALID, "the state has a list of %llu positions, not of %llu: it was changed",
                       (unsigned long long)list->n, (unsigned long long)n);
    }
    leat_list_free(list);
    return rc;
}

int leat_list_from_text(const char *text, uint64_t count, struct leat_list **out, struct leat_error *error)
{
    *out = NULL;
    uint64_t length = strlen(text), n = 0, at = 0, found = 0, before = 0;
    int64_t step;
    uint8_t *bytes = leat_alloc(length);
    int64_t *positions = leat_new_array(length, sizeof *positions);
    int rc = LEAT_OK;
    if (!bytes || !positions)
        rc = leat_fail(error, LEAT_E_NOMEM, "no memory for a list of positions");
    else if (!leat_from_base64(text, bytes, &n))
        rc = leat_fail(error, LEAT_E_INVALID,
                       "the state's list of positions is not base64: the state was cut or changed");
    while (!rc && at < n) {
        if (leat_varint_take(bytes, n, &at, &step)) {
            before += (uint64_t)step;
            positions[found++] = (int64_t)before;
        } else {
            rc = leat_fail(error, LEAT_E_INVALID,
                           "the state's list of positions ends inside a number: the state was cut or changed");
        }
    }
    if (!rc)
        rc = leat_list_new(positions, found, count, out, error);
    leat_free(bytes);
    leat_free(positions);
    return rc;
}
