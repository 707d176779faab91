/*
 * Values computed by a source, in chunks of memory that are released together. Small values share a chunk; a large one
 * has its own. Or they lie in blocks of the cache, which stay there so long.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "format/source.h"
#include "io/blocks.h"
#include "leat/chunks.h"

enum { LEAST_CHUNK = 4 << 10, CHUNK_BYTES = 64 << 10, ALIGNMENT = 64 };

struct leat_values_chunk {
    struct leat_values_chunk *next;
    uint64_t used, room; /* of `bytes` */
    uint8_t bytes[];
};

int leat_values_init(struct leat_values *v, size_t n_fields, size_t n_samples)
{
    uint64_t n = 0;
    *v = (struct leat_values){.n_fields = n_fields, .n_samples = n_samples};
    if (leat_mul_u64(n_fields, n_samples, &n))
        v->at = leat_new_array(n, sizeof *v->at);
    return v->at ? LEAT_OK : LEAT_E_NOMEM;
}

void leat_values_destroy(struct leat_values *v)
{
    for (struct leat_values_chunk *c = v->chunks, *next; c; c = next) {
        next = c->next;
        leat_free(c);
    }
    leat_blocks_unpin(v->pins, v->n_pins);
    leat_free(v->pins);
    leat_free(v->at);
    memset(v, 0, sizeof *v);
}

/* `bytes` of memory, aligned. NULL: there is none. */
static uint8_t *take(struct leat_values *v, uint64_t bytes)
{
    struct leat_values_chunk *c = v->chunks;
    uint64_t need, room;
    if (!leat_add_u64(bytes, ALIGNMENT, &need))
        return NULL;
    if (!c || need > c->room - c->used) {
        room = v->bytes < LEAST_CHUNK   ? LEAST_CHUNK
               : v->bytes < CHUNK_BYTES ? v->bytes
                                        : CHUNK_BYTES; /* as much again */
        room = need > room ? need : room;
        if (room > SIZE_MAX - sizeof *c || !(c = leat_alloc(sizeof *c + room)))
            return NULL;
        *c = (struct leat_values_chunk){.next = v->chunks, .room = room};
        v->chunks = c;
        v->bytes += sizeof *c + room;
    }
    uint8_t *p = c->bytes + c->used;
    uint64_t pad = -(uintptr_t)p % ALIGNMENT;
    c->used += pad + bytes;
    return p + pad;
}

void *leat_values_room(struct leat_values *v, size_t field_index, size_t sample_index, uint64_t bytes)
{
    struct leat_computed *c = &v->at[field_index * v->n_samples + sample_index];
    uint8_t *to = c->to && c->bytes == bytes ? c->to : take(v, bytes);
    if (to)
        *c = (struct leat_computed){.data = to, .bytes = bytes};
    return to;
}

int leat_values_put(struct leat_values *v, size_t field_index, size_t sample_index, const void *data, uint64_t bytes)
{
    void *to = leat_values_room(v, field_index, sample_index, bytes);
    if (!to)
        return LEAT_E_NOMEM;
    if (bytes)
        memcpy(to, data, bytes);
    return LEAT_OK;
}

void leat_values_aim(struct leat_values *v, size_t field_index, size_t sample_index, void *to, uint64_t bytes)
{
    v->at[field_index * v->n_samples + sample_index] = (struct leat_computed){.bytes = bytes, .to = to};
}

void leat_values_point(struct leat_values *v, size_t field_index, size_t sample_index, const void *data, uint64_t bytes)
{
    v->at[field_index * v->n_samples + sample_index] = (struct leat_computed){.data = data, .bytes = bytes};
}

int leat_values_hold(struct leat_values *v, struct leat_pin *pin)
{
    if (!leat_grow(&v->pins, &v->pins_room, v->n_pins + 1, sizeof *v->pins))
        return LEAT_E_NOMEM;
    v->pins[v->n_pins++] = *pin;
    pin->entry = NULL;
    return LEAT_OK;
}

int leat_values_take(struct leat_values *v, size_t field, size_t sample, const struct leat_values *from,
                     size_t from_field)
{
    int rc = LEAT_OK;
    for (size_t i = 0; i < from->n_samples && !rc; i++) {
        const struct leat_computed *c = &from->at[from_field * from->n_samples + i];
        if (c->lacking)
            leat_values_lack(v, field, sample + i);
        else if (c->data) /* else there is no value */
            rc = leat_values_put(v, field, sample + i, c->data, c->bytes);
    }
    return rc;
}

bool leat_values_begun(const struct leat_values *v, size_t sample_index, const void **data, uint64_t *bytes)
{
    *data = v->begun ? v->begun[sample_index].data : NULL;
    *bytes = v->begun ? v->begun[sample_index].bytes : 0;
    return v->begun;
}

bool leat_values_may_lack(const struct leat_values *v)
{
    return v->may_lack;
}

void leat_values_lack(struct leat_values *v, size_t field_index, size_t sample_index)
{
    struct leat_computed *at = &v->at[field_index * v->n_samples + sample_index];
    *at = (struct leat_computed){.data = (const uint8_t *)"", .lacking = true};
}

bool leat_values_cancelled(const struct leat_values *v)
{
    return v->cancelled && atomic_load(v->cancelled);
}
