/*
 * The part of a file's schema about the relation of fields: the role of each, the pairs of its keypoints, the columns
 * of its sparse rows. They stand in optional sections, so that files without them are those of before.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/role.h"
#include "store/layout.h"

bool leat_store_roles_put(const struct leat_store_layout *l, uint8_t *roles)
{
    uint8_t any = 0;
    for (uint32_t f = 0; f < l->n_stored; f++)
        any |= roles[f] = (uint8_t)(l->fields[f].role | (l->fields[f].normalized ? 128 : 0));
    return any;
}

bool leat_store_roles_get(struct leat_store_layout *l, const uint8_t *roles)
{
    for (uint32_t f = 0; f < l->n_stored; f++) {
        unsigned role = roles[f] & 127;
        bool known = role <= LEAT_ROLE_SPARSE;
        l->fields[f].role = known ? (enum leat_role)role : LEAT_ROLE_NONE;
        l->fields[f].normalized = known && roles[f] & 128;
        if (!leat_role_fits(&l->fields[f]))
            return false;
    }
    return true;
}

bool leat_store_pairs_put(const struct leat_store_layout *l, struct leat_growing *out)
{
    bool ok = true;
    for (uint32_t f = 0; f < l->n_stored && ok; f++) {
        const struct leat_field *field = &l->fields[f];
        uint8_t head[8];
        leat_put_u32(head, f);
        leat_put_u32(head + 4, (uint32_t)field->n_pairs);
        if (field->n_pairs)
            ok = leat_growing_append(out, head, sizeof head) &&
                 leat_growing_append(out, field->pairs, 2 * field->n_pairs * sizeof *field->pairs);
    }
    return ok;
}

bool leat_store_pairs_get(struct leat_store_layout *l, const uint8_t *bytes, uint64_t length, bool *memory)
{
    *memory = true;
    while (length >= 8) {
        const uint32_t f = leat_get_u32(bytes), n = leat_get_u32(bytes + 4);
        bytes += 8;
        length -= 8;
        if (f >= l->n_stored || !n || n > length / 4 || l->fields[f].n_pairs)
            return false;
        uint16_t *pairs = leat_new_array(2 * (size_t)n, sizeof *pairs);
        if (!pairs)
            return *memory = false;
        memcpy(pairs, bytes, 4 * (size_t)n);
        bytes += 4 * (size_t)n;
        length -= 4 * (size_t)n;
        l->fields[f].pairs = pairs;
        l->fields[f].n_pairs = n;
        if (!leat_pairs_fit(&l->fields[f]))
            return false;
    }
    return !length;
}

enum { SPARSE_BYTES = 16 };

bool leat_store_columns_put(const struct leat_store_layout *l, struct leat_growing *out)
{
    bool ok = true;
    for (uint32_t f = 0; f < l->n_stored && ok; f++) {
        uint8_t entry[SPARSE_BYTES] = {0};
        leat_put_u32(entry, f);
        leat_put_u32(entry + 4, (uint32_t)l->fields[f].item);
        leat_put_u64(entry + 8, (uint64_t)l->fields[f].columns);
        if (l->fields[f].columns)
            ok = leat_growing_append(out, entry, sizeof entry);
    }
    return ok;
}

bool leat_store_columns_get(struct leat_store_layout *l, const uint8_t *bytes, uint64_t length)
{
    for (; length >= SPARSE_BYTES; bytes += SPARSE_BYTES, length -= SPARSE_BYTES) {
        const uint32_t f = leat_get_u32(bytes);
        const uint64_t columns = leat_get_u64(bytes + 8);
        if (f >= l->n_stored || !columns || columns > INT32_MAX || l->fields[f].role != LEAT_ROLE_SPARSE ||
            l->fields[f].columns)
            return false;
        l->fields[f].item = (enum leat_dtype)leat_get_u32(bytes + 4);
        l->fields[f].columns = (int64_t)columns;
    }
    for (uint32_t f = 0; f < l->n_stored; f++)
        if (!leat_columns_fit(&l->fields[f]))
            return false;
    return !length;
}
