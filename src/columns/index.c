/*
 * The index: from an id, or an id and a key, to the entry of a row.
 *
 * Entries are numbered, and lie in chunks of a segment that are made when they are first needed: for ids the number is
 * the id. Pairs are hashed, into levels, each four times as large as the one before:
 *
 *     level 0   | 32 Ki entries |
 *     level 1   |    128 Ki entries     |
 *     level 2   |            512 Ki entries             |
 *
 * A level is whole before it counts. A pair can be in one of 64 entries of each level, from the place of its hash on,
 * behind entries of others. It is looked for from the largest level down, and a new one takes an entry of the largest:
 * if there is none among the 64, the next level is begun. Entries never move, so readers and writers need no lock, and
 * a kill leaves nothing half done. If two writers begin a level and write the same new pair at once, it may get an
 * entry in both: then the larger level's counts from there on, for everybody.
 *
 * 128 bits of hash say whose an entry is; 32 of these check the others, so that a damaged entry is known as such.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "columns/internal.h"
#include "io/guard.h"

_Static_assert(sizeof(struct entry) == 16 && sizeof(struct pair_entry) == 32, "as the file has them");

uint64_t leat_columns_chunks(const struct leat_columns *c, uint64_t *entries_each)
{
    *entries_each = SEGMENT_BYTES / (c->keyed ? sizeof(struct pair_entry) : sizeof(struct entry));
    return ROOTS * DIRECTORY_CHUNKS;
}

/* A chunk that this process knows; NULL: it does not. */
static uint8_t *known(const struct leat_columns *c, uint64_t chunk)
{
    _Atomic(uint8_t *) *of_root = atomic_load_explicit(&c->chunks[chunk >> CHUNKS_SHIFT], memory_order_acquire);
    return of_root ? atomic_load_explicit(&of_root[chunk & (DIRECTORY_CHUNKS - 1)], memory_order_acquire) : NULL;
}

static enum found find_id(struct leat_columns *c, uint64_t id, struct place *out)
{
    const uint64_t each = SEGMENT_BYTES / sizeof(struct entry);
    out->chunk = id / each;
    uint8_t *p = known(c, out->chunk);
    if (!p)
        return NEEDS_CHUNK;
    out->entry = (struct entry *)(void *)p + id % each;
    return FOUND;
}

struct hashes {
    uint64_t hash, check;
};

static uint64_t check_of(uint64_t hash, uint64_t high)
{
    uint64_t x = (hash ^ high) * UINT64_C(0x9e3779b97f4a7c15);
    return (high & ~UINT64_C(0xffffffff)) | (x >> 32 | 1);
}

static struct hashes hash_pair(uint64_t id, uint64_t key)
{
    const uint64_t a[2] = {id, key}, b[3] = {id, key, 1};
    struct hashes h = {.hash = leat_hash64(a, sizeof a)};
    h.hash += !h.hash;
    h.check = check_of(h.hash, leat_hash64(b, sizeof b) & ~UINT64_C(0xffffffff));
    return h;
}

bool leat_columns_is_pair(const struct pair_entry *e, uint64_t id, uint64_t key)
{
    const struct hashes h = hash_pair(id, key);
    const uint64_t check = atomic_load(&e->check);
    return atomic_load(&e->hash) == h.hash && (!check || check == h.check);
}

/* The chunks of a level follow those of smaller ones. */
static uint64_t first_chunk(uint64_t level)
{
    return ((UINT64_C(1) << 2 * level) - 1) / 3;
}

/* Looks in one level. */
static enum found probe(struct leat_columns *c, uint64_t level, struct hashes h, bool take, struct place *out)
{
    const uint64_t each = SEGMENT_BYTES / sizeof(struct pair_entry), size = each << 2 * level;
    bool damaged = false;
    for (uint64_t i = 0; i < PROBES; i++) {
        const uint64_t at = (h.hash + i) & (size - 1);
        const uint64_t chunk = first_chunk(level) + at / each;
        uint8_t *p = known(c, chunk);
        if (!p) {
            out->chunk = chunk;
            return NEEDS_CHUNK;
        }
        struct pair_entry *e = (struct pair_entry *)(void *)p + at % each;
        uint64_t hash = atomic_load_explicit(&e->hash, memory_order_acquire);
        if (!hash && take && atomic_compare_exchange_strong(&e->hash, &hash, h.hash))
            hash = h.hash;
        if (!hash)
            break;
        uint64_t check = atomic_load_explicit(&e->check, memory_order_acquire);
        if (hash == h.hash && (!check || check == h.check)) {
            if (!check && take)
                atomic_store_explicit(&e->check, h.check, memory_order_release);
            out->entry = &e->entry;
            return FOUND;
        }
        if (check && check != check_of(hash, check & ~UINT64_C(0xffffffff))) {
            damaged = true;
            out->entry = &e->entry;
        }
    }
    return damaged ? DAMAGED : take ? NEEDS_LEVEL : NOT_THERE;
}

enum found leat_columns_find(struct leat_columns *c, uint64_t id, uint64_t key, bool take, struct place *out)
{
    *out = (struct place){0};
    if (!c->keyed)
        return find_id(c, id, out);
    const struct hashes h = hash_pair(id, key);
    uint64_t levels = atomic_load_explicit(&c->shared->levels, memory_order_acquire);
    if (levels > LEVELS)
        levels = LEVELS;
    out->levels = levels;
    struct place damaged = {0};
    for (uint64_t level = levels; level-- > 0;) {
        enum found found = probe(c, level, h, false, out);
        if (found == FOUND || found == NEEDS_CHUNK)
            return found;
        if (found == DAMAGED)
            damaged = *out;
    }
    if (take && !levels)
        return NEEDS_LEVEL;
    if (take) {
        enum found found = probe(c, levels - 1, h, true, out);
        return found == DAMAGED ? NEEDS_LEVEL : found;
    }
    if (!damaged.entry)
        return NOT_THERE;
    *out = damaged;
    return DAMAGED;
}

/* ---- chunks and levels ------------------------------------------------------------------------------------------- */

/* Whether the file has the segment, and the table says that it is this. `said_at`: the word that named it. */
static int check_segment(struct leat_columns *c, uint64_t segment, uint64_t wanted, const word *said_at,
                         struct leat_error *error)
{
    uint64_t is = 0;
    if (segment < leat_columns_segments(c)) {
        word *at = leat_columns_segment(c, segment, error);
        int rc = at ? leat_columns_look(at, &is, error) : error ? error->code : LEAT_E_IO;
        if (rc)
            return rc;
    }
    if (is == wanted)
        return LEAT_OK;
    const uint64_t offset = leat_columns_offset_of(c, (const void *)said_at);
    return leat_fail_at(error, LEAT_E_CORRUPT, c->path, (int64_t)offset,
                        "%s: the index is damaged at byte %" PRIu64 ": rows behind it cannot be found; "
                        "restore the file from a copy",
                        c->path, offset);
}

uint64_t leat_columns_offset_of(const struct leat_columns *c, const void *mapped)
{
    for (uint64_t i = 0; i < MAX_WINDOWS; i++) {
        const uint8_t *p = atomic_load_explicit(&c->windows[i], memory_order_acquire);
        if (p && (const uint8_t *)mapped >= p && (const uint8_t *)mapped < p + WINDOW_BYTES)
            return (i << WINDOW_SHIFT) + (uint64_t)((const uint8_t *)mapped - p);
    }
    return 0;
}

/* The segment that a word names: a segment of the kind and number that `is` says, mapped; NULL: nothing. With `make`,
 * which needs GROW, it is made then, and is on disk before the word can be. `anew`: the segment does not count yet, and
 * may have been lost with power. */
static int follow(struct leat_columns *c, word *at, uint64_t is, bool make, bool anew, uint8_t **out,
                  struct leat_error *error)
{
    uint64_t segment;
    *out = NULL;
    int rc = leat_columns_look(at, &segment, error);
    if (!rc && segment && anew && check_segment(c, segment, is, at, NULL))
        segment = 0;
    if (!rc && !segment && make) {
        if ((rc = leat_columns_grow(c, is, 1, &segment, error)) || (!anew && (rc = leat_columns_keep(c, error))) ||
            (rc = leat_columns_set(at, segment, error)))
            return rc;
    } else if (!rc && segment)
        rc = check_segment(c, segment, is, at, error);
    if (rc || !segment)
        return rc;
    *out = leat_columns_map(c, segment << SEGMENT_SHIFT, error);
    return *out ? LEAT_OK : error ? error->code : LEAT_E_IO;
}

/* Remembers the place of a chunk. */
static int remember(struct leat_columns *c, uint64_t chunk, uint8_t *p, struct leat_error *error)
{
    int rc = LEAT_OK;
    pthread_mutex_lock(&c->map_mutex);
    _Atomic(uint8_t *) *of_root = atomic_load(&c->chunks[chunk >> CHUNKS_SHIFT]);
    if (!of_root) {
        of_root = leat_new_array(DIRECTORY_CHUNKS, sizeof *of_root);
        if (of_root)
            atomic_store_explicit(&c->chunks[chunk >> CHUNKS_SHIFT], of_root, memory_order_release);
        else
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the index of %s", c->path);
    }
    if (!rc)
        atomic_store_explicit(&of_root[chunk & (DIRECTORY_CHUNKS - 1)], p, memory_order_release);
    pthread_mutex_unlock(&c->map_mutex);
    return rc;
}

static int supply_chunk(struct leat_columns *c, uint64_t chunk, bool make, bool anew, bool *there,
                        struct leat_error *error)
{
    const uint64_t root = chunk >> CHUNKS_SHIFT;
    uint8_t *directory, *p = NULL;
    int rc = follow(c, &c->shared->roots[root], SEGMENT_DIRECTORY | root << 4, make, false, &directory, error);
    if (!rc && directory)
        rc = follow(c, (word *)(void *)directory + (chunk & (DIRECTORY_CHUNKS - 1)), SEGMENT_INDEX | chunk << 4, make,
                    anew, &p, error);
    *there = p != NULL;
    return rc || !p ? rc : remember(c, chunk, p, error);
}

/* Makes the chunks of one level more, and counts it then. */
static int supply_level(struct leat_columns *c, uint64_t levels, struct leat_error *error)
{
    bool there;
    uint64_t there_are = 0;
    int rc = leat_columns_look(&c->shared->levels, &there_are, error);
    if (rc || there_are > levels)
        return rc; /* another was faster */
    if (levels == LEVELS)
        return leat_fail(error, LEAT_E_RANGE, "%s has as many rows as it can hold", c->path);
    for (uint64_t i = 0; !rc && i < UINT64_C(1) << 2 * levels; i++)
        rc = supply_chunk(c, first_chunk(levels) + i, true, true, &there, error);
    if (!rc)
        rc = leat_columns_keep(c, error); /* all of it is on disk before it counts */
    return rc ? rc : leat_columns_set(&c->shared->levels, levels + 1, error);
}

int leat_columns_supply(struct leat_columns *c, enum found needs, const struct place *place, bool make, bool *there,
                        struct leat_error *error)
{
    int rc;
    *there = true;
    if (needs == NEEDS_CHUNK) {
        rc = supply_chunk(c, place->chunk, false, false, there, error);
        if (rc || *there)
            return rc;
        if (c->keyed)
            return leat_fail(error, LEAT_E_CORRUPT, "%s: a part of the index is missing; restore the file from a copy",
                             c->path);
        if (!make)
            return LEAT_OK;
    }
    if ((rc = leat_columns_grow_begin(c, error)))
        return rc;
    rc = needs == NEEDS_CHUNK ? supply_chunk(c, place->chunk, true, false, there, error)
                              : supply_level(c, place->levels, error);
    leat_columns_grow_end(c);
    return rc;
}

struct search {
    struct leat_columns *c;
    uint64_t id, key;
    bool take;
    enum found found;
    struct place place;
};

static int search(void *arg)
{
    struct search *s = arg;
    s->found = leat_columns_find(s->c, s->id, s->key, s->take, &s->place);
    return LEAT_OK;
}

int leat_columns_look_up(struct leat_columns *c, uint64_t id, uint64_t key, bool take, struct entry **entry,
                         struct leat_error *error)
{
    struct search s = {.c = c, .id = id, .key = key, .take = take};
    *entry = NULL;
    for (;;) {
        bool there = true;
        int rc = leat_guarded(search, &s, error);
        if (!rc && (s.found == NEEDS_CHUNK || s.found == NEEDS_LEVEL))
            rc = leat_columns_supply(c, s.found, &s.place, take, &there, error);
        if (rc)
            return rc;
        if (s.found == NOT_THERE || !there)
            return LEAT_OK;
        if (s.found == FOUND || s.found == DAMAGED) {
            *entry = s.place.entry;
            return s.found == FOUND ? LEAT_OK : LEAT_E_CORRUPT;
        }
    }
}

int leat_columns_check_ids(const struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                           struct leat_error *error)
{
    if (n && c->keyed != (keys != NULL))
        return leat_fail(error, LEAT_E_INVALID,
                         c->keyed ? "rows of %s are found by id and key: keys are missing"
                                  : "rows of %s are found by id alone",
                         c->path);
    for (uint64_t i = 0; !c->keyed && i < n; i++)
        if (ids[i] >= LEAT_COLUMNS_MAX_ID) {
            int rc = leat_fail(error, LEAT_E_INVALID,
                               "id %" PRIu64 " is above the largest of a store without keys, %" PRIu64, ids[i],
                               LEAT_COLUMNS_MAX_ID - 1);
            leat_error_at_sample(error, (int64_t)ids[i], NULL);
            return rc;
        }
    return LEAT_OK;
}
