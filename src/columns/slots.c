/*
 * Slots: the place of the next record in the file.
 *
 * Groups of segments are cut into slots of one size, and an open file fills groups of its own: a lock on a byte of the
 * group's number says so, and is gone with its process. The file does not list the free slots of a group: a slot is in
 * use if the entry of the row that its record names points at it. A slot that a row has left becomes free again here as
 * soon as no entry points at it, on disk neither. A process that takes over a group that nobody has looks at each slot.
 *
 * Files grow by an eighth at a time, from 1 to 64 MiB, so that large ones have few groups.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "columns/internal.h"
#include "io/guard.h"

enum {
    GROUP_SEGMENTS_MOST = 64,
    LOOKED_AT_MOST = 4096, /* words of the table, when a group to take over is looked for */
    LEFT_BEFORE_LOOKING = 1024,
    DIRTY_BEFORE_SORTING = 1 << 16,
    WORD_BITS = 64,
};

/* ---- groups -------------------------------------------------------------------------------------------------------
 */

/* Slots come in sizes of 64 bytes up to 512, and then eight to each doubling. */
static uint32_t units_for(uint64_t bytes)
{
    uint64_t units = (bytes + UNIT - 1) / UNIT;
    if (units > 8) {
        const unsigned shift = 60u - (unsigned)__builtin_clzll(units);
        units = (units + (UINT64_C(1) << shift) - 1) >> shift << shift;
    }
    return (uint32_t)units;
}

static struct class *class_of(struct leat_columns *c, uint32_t units)
{
    for (size_t i = 0; i < c->n_classes; i++)
        if (c->classes[i].units == units)
            return &c->classes[i];
    if (!leat_grow(&c->classes, &c->classes_room, c->n_classes + 1, sizeof *c->classes))
        return NULL;
    c->classes[c->n_classes] = (struct class){.units = units};
    return &c->classes[c->n_classes++];
}

/* The number of the first group behind a segment. */
static size_t groups_up_to(const struct leat_columns *c, uint64_t segment)
{
    return LEAT_BISECT(i, 0, c->n_groups, c->groups[i]->segment <= segment);
}

/* The group of this open file that has the byte, and which of its slots. */
static struct group *group_at(const struct leat_columns *c, uint64_t offset, uint32_t *slot)
{
    const size_t i = groups_up_to(c, offset >> SEGMENT_SHIFT);
    if (!i)
        return NULL;
    struct group *g = c->groups[i - 1];
    const uint64_t number = (offset - (g->segment << SEGMENT_SHIFT)) / ((uint64_t)g->units * UNIT);
    *slot = (uint32_t)number;
    return number < g->slots ? g : NULL;
}

static void group_free(struct group *g)
{
    if (g) {
        leat_free(g->free);
        leat_free((void *)g->puts);
    }
    leat_free(g);
}

/* A group with no free slots, in the order of the others. */
static struct group *group_add(struct leat_columns *c, uint64_t segment, uint64_t n_segments, uint32_t units)
{
    struct group *g = leat_new(struct group);
    const uint64_t slots = (n_segments << SEGMENT_SHIFT) / ((uint64_t)units * UNIT), words = slots / WORD_BITS + 1;
    if (!g || !(g->free = leat_new_array(2 * words, sizeof *g->free)) ||
        !(g->puts = leat_new_array(n_segments << (SEGMENT_SHIFT - PAGE_SHIFT), sizeof *g->puts)) ||
        !leat_grow(&c->groups, &c->groups_room, c->n_groups + 1, sizeof(struct group *))) {
        group_free(g);
        return NULL;
    }
    g->segment = segment;
    g->units = units;
    g->slots = (uint32_t)slots;
    g->busy = g->free + words;
    const size_t i = groups_up_to(c, segment);
    memmove(c->groups + i + 1, c->groups + i, (c->n_groups - i) * sizeof *c->groups);
    c->groups[i] = g;
    c->n_groups++;
    return g;
}

static void group_remove(struct leat_columns *c, struct group *g)
{
    const size_t i = groups_up_to(c, g->segment) - 1;
    memmove(c->groups + i, c->groups + i + 1, (c->n_groups - i - 1) * sizeof *c->groups);
    c->n_groups--;
    group_free(g);
}

static bool bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / WORD_BITS] >> i % WORD_BITS & 1;
}

static void set_free(struct leat_columns *c, struct group *g, uint32_t slot)
{
    if (bit(g->free, slot) || bit(g->busy, slot))
        return;
    g->free[slot / WORD_BITS] |= UINT64_C(1) << slot % WORD_BITS;
    g->n_free++;
    if (slot < g->cursor)
        g->cursor = slot;
    if (g->listed)
        return;
    for (size_t i = 0; i < c->n_classes; i++)
        if (c->classes[i].units == g->units) {
            g->listed = true;
            g->next = c->classes[i].with_free;
            c->classes[i].with_free = g;
        }
}

/* The first free slot, which is busy from now on. */
static uint64_t take(struct group *g)
{
    uint32_t w = g->cursor / WORD_BITS;
    while (!g->free[w])
        w++;
    const uint32_t slot = w * WORD_BITS + (uint32_t)__builtin_ctzll(g->free[w]);
    g->free[w] &= g->free[w] - 1;
    g->busy[w] |= UINT64_C(1) << slot % WORD_BITS;
    g->n_free--;
    g->n_busy++;
    g->cursor = slot;
    return (g->segment << SEGMENT_SHIFT) + (uint64_t)slot * g->units * UNIT;
}

static int new_group(struct leat_columns *c, uint32_t units, struct leat_error *error)
{
    const uint64_t slot = (uint64_t)units * UNIT, least = (slot + SEGMENT_BYTES - 1) >> SEGMENT_SHIFT;
    uint64_t n = 0, segment = 0;
    int rc = leat_columns_look_end(c, &n, error);
    n /= 8;
    n = n > GROUP_SEGMENTS_MOST ? GROUP_SEGMENTS_MOST : n;
    n = n < least ? least : n;
    n = n ? n : 1;
    while (n < least + 8 && (n << SEGMENT_SHIFT) % slot > (n << SEGMENT_SHIFT) / 8)
        n++; /* less than an eighth is left over */
    rc = rc ? rc : leat_columns_grow_begin(c, error);
    if (rc)
        return rc;
    rc = leat_columns_grow(c, DATA_WORD(units) | DATA_TAKEN, n, &segment, error);
    leat_columns_grow_end(c);
    if (rc)
        return rc;
    struct group *g = group_add(c, segment, n, units);
    if (!g) { /* the next one to look finds it taken by nobody */
        leat_call_unlock(c->lock_fd, LOCK_SEGMENTS + segment);
        return leat_fail(error, LEAT_E_NOMEM, "no memory for a group of slots of %s", c->path);
    }
    for (uint32_t i = 0; i < g->slots; i++)
        set_free(c, g, i);
    return LEAT_OK;
}

/* ---- slots in use -------------------------------------------------------------------------------------------------
 */

static bool points_at(uint64_t w, uint64_t offset)
{
    return leat_columns_offset(w) == offset;
}

struct name {
    const struct record *record;
    uint64_t id, key;
};

static int read_name(void *arg)
{
    struct name *n = arg;
    n->id = n->record->id;
    n->key = n->record->key;
    return LEAT_OK;
}

/* Whether no row needs the slot. A slot of unknown state is needed. */
static bool is_free(struct leat_columns *c, uint64_t offset)
{
    struct name name = {.record = (const struct record *)(const void *)leat_columns_at(c, offset)};
    struct entry *entry;
    uint64_t live, durable;
    if (!name.record || leat_guarded(read_name, &name, NULL))
        return false;
    if (!c->keyed && name.id >= LEAT_COLUMNS_MAX_ID)
        return true;
    if (leat_columns_look_up(c, name.id, name.key, false, &entry, NULL))
        return false;
    return !entry || (!leat_columns_look(&entry->live, &live, NULL) && !points_at(live, offset) &&
                      !leat_columns_look(&entry->durable, &durable, NULL) && !points_at(durable, offset));
}

/* Looks at all slots of a group. */
static void sweep(struct leat_columns *c, struct group *g)
{
    const uint64_t begin = g->segment << SEGMENT_SHIFT, bytes = (uint64_t)g->units * UNIT;
    for (uint32_t i = 0; i < g->slots; i++)
        if (!bit(g->free, i) && !bit(g->busy, i) && is_free(c, begin + i * bytes))
            set_free(c, g, i);
}

/* The words of a group of the table: its first one, and how many segments it has. */
static uint64_t length_of(struct leat_columns *c, uint64_t segment)
{
    uint64_t n = 1, w, end = 0;
    if (leat_columns_look_end(c, &end, NULL))
        return 0;
    for (; segment + n < end && n < WINDOW_SEGMENTS; n++) {
        word *at = leat_columns_segment(c, segment + n, NULL);
        if (!at || leat_columns_look(at, &w, NULL) || KIND_OF(w) != SEGMENT_MORE)
            break;
    }
    return n;
}

/* Takes over a group that nobody has, or looks again at one's own. Whether it has a free slot now. */
static bool take_over(struct leat_columns *c, uint32_t units, uint64_t segment, word *at, uint64_t w)
{
    const size_t i = groups_up_to(c, segment);
    struct group *g = i && c->groups[i - 1]->segment == segment ? c->groups[i - 1] : NULL;
    const uint64_t n = g ? 0 : length_of(c, segment);
    const uint64_t slots = g ? g->slots : (n << SEGMENT_SHIFT) / ((uint64_t)units * UNIT);
    if (!slots || (segment & (WINDOW_SEGMENTS - 1)) + n > WINDOW_SEGMENTS ||
        !((w & DATA_TAKEN && !g) || DATA_FREED(w) > slots / 4))
        return false;
    if (!g) {
        if (!leat_columns_map(c, segment << SEGMENT_SHIFT, NULL) ||
            leat_call_lock(c->lock_fd, LOCK_SEGMENTS + segment, false))
            return false;
        if (!(g = group_add(c, segment, n, units))) {
            leat_call_unlock(c->lock_fd, LOCK_SEGMENTS + segment);
            return false;
        }
    }
    leat_columns_set(at, DATA_WORD(units) | DATA_TAKEN, NULL);
    sweep(c, g);
    if (!g->n_free && !g->n_busy) {
        leat_columns_set(at, DATA_WORD(units), NULL);
        group_remove(c, g);
        leat_call_unlock(c->lock_fd, LOCK_SEGMENTS + segment);
        return false;
    }
    return g->n_free;
}

/* Looks for a group with free slots among the existing ones, from the end of the last look. FLUSH is held. */
static void look_around(struct leat_columns *c, struct class *class)
{
    uint64_t end = 0;
    if (leat_columns_look_end(c, &end, NULL))
        return;
    for (uint64_t n = end < LOOKED_AT_MOST ? end : LOOKED_AT_MOST; n; n--) {
        if (class->cursor >= end)
            class->cursor = 0;
        uint64_t w, segment = class->cursor++;
        word *at = leat_columns_segment(c, segment, NULL);
        if (!at || leat_columns_look(at, &w, NULL))
            return;
        if (KIND_OF(w) == SEGMENT_DATA && DATA_UNITS(w) == class->units && take_over(c, class->units, segment, at, w))
            return;
    }
}

/* ---- slots that rows have left --------------------------------------------------------------------------------------
 */

struct reclaim {
    struct leat_columns *c;
    size_t at, kept;
};

/* Tells the present or next owner of the group that one slot more is free. */
static void tell_freed(struct leat_columns *c, uint64_t offset)
{
    uint64_t segment = offset >> SEGMENT_SHIFT;
    for (unsigned n = 0; n < WINDOW_SEGMENTS; n++, segment--) {
        word *at = leat_columns_segment(c, segment, NULL);
        const uint64_t w = at ? atomic_load(at) : 0;
        if (KIND_OF(w) == SEGMENT_DATA && DATA_FREED(w) < 1u << 30)
            atomic_fetch_add(at, DATA_FREED_ONE);
        if (KIND_OF(w) != SEGMENT_MORE)
            return;
    }
}

/* Whether the row that a slot's record names does not need it: the row that has left it may not be the last one that
 * had it. If it cannot be told here, the scan of the whole group decides. Within a guard. */
static bool is_left(struct leat_columns *c, uint64_t offset)
{
    const struct record *record = (const struct record *)(const void *)leat_columns_at(c, offset);
    struct place place;
    if (!record)
        return false;
    if (!c->keyed && record->id >= LEAT_COLUMNS_MAX_ID)
        return true;
    switch (leat_columns_find(c, record->id, record->key, false, &place)) {
    case FOUND:
        return !points_at(atomic_load(&place.entry->live), offset) &&
               !points_at(atomic_load(&place.entry->durable), offset);
    case NOT_THERE:
        return true;
    default:
        return false;
    }
}

static int reclaim(void *arg)
{
    struct reclaim *r = arg;
    struct leat_columns *c = r->c;
    for (; r->at < c->n_left; r->at++) {
        const struct left left = c->left[r->at];
        uint32_t slot;
        if (points_at(atomic_load(&left.entry->live), left.place) ||
            points_at(atomic_load(&left.entry->durable), left.place)) {
            c->left[r->kept++] = left;
            continue;
        }
        struct group *g = group_at(c, left.place, &slot);
        if (g && is_left(c, left.place))
            set_free(c, g, slot);
        else
            tell_freed(c, left.place);
    }
    return LEAT_OK;
}

void leat_columns_reclaim(struct leat_columns *c)
{
    struct reclaim r = {.c = c};
    if (c->unsynced)
        return;
    leat_guarded(reclaim, &r, NULL);
    memmove(c->left + r.kept, c->left + r.at, (c->n_left - r.at) * sizeof *c->left);
    c->n_left = c->left_kept = r.kept + c->n_left - r.at;
}

/* ---- the face ------------------------------------------------------------------------------------------------------
 */

/* A group of the class with a free slot. */
static struct group *group_with_room(struct leat_columns *c, struct class *class)
{
    while (class->with_free && !class->with_free->n_free) {
        class->with_free->listed = false;
        class->with_free = class->with_free->next;
    }
    return class->with_free;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t) * (struct entry *const *)a, y = (uintptr_t) * (struct entry *const *)b;
    return (x > y) - (x < y);
}

/* Rows that are written again and again without a flush take no more memory for it. */
static void sort_dirty(struct leat_columns *c)
{
    size_t kept = 0;
    if (c->noting || c->n_dirty < 2 * c->dirty_kept + DIRTY_BEFORE_SORTING)
        return;
    qsort((void *)c->dirty, c->n_dirty, sizeof(struct entry *), by_address);
    for (size_t i = 0; i < c->n_dirty; i++)
        if (!kept || c->dirty[i] != c->dirty[kept - 1])
            c->dirty[kept++] = c->dirty[i];
    c->n_dirty = c->dirty_kept = kept;
}

static int find_slot(struct leat_columns *c, uint32_t units, struct group **group, struct leat_error *error)
{
    struct class *class = class_of(c, units);
    sort_dirty(c);
    if (!class || !leat_grow(&c->dirty, &c->dirty_room, c->n_dirty + c->in_flight + 1, sizeof(struct entry *)) ||
        !leat_grow(&c->left, &c->left_room, c->n_left + c->in_flight + 1, sizeof *c->left))
        return leat_fail(error, LEAT_E_NOMEM, "no memory to write to %s", c->path);
    *group = group_with_room(c, class);
    if (*group)
        return LEAT_OK;
    struct leat_error unlocked;
    int rc = leat_columns_flush_begin(c, true, &unlocked);
    if (!rc) {
        if (c->n_left >= 2 * c->left_kept + LEFT_BEFORE_LOOKING)
            leat_columns_reclaim(c);
        if (!group_with_room(c, class) && !c->unsynced)
            look_around(c, class);
        leat_columns_flush_end(c);
    } else if (rc != LEAT_E_BUSY) {
        if (error)
            *error = unlocked;
        return rc;
    }
    rc = group_with_room(c, class) ? LEAT_OK : new_group(c, units, error);
    *group = group_with_room(c, class);
    return rc;
}

int leat_columns_slot(struct leat_columns *c, uint64_t bytes, struct group **group, uint64_t *offset,
                      struct leat_error *error)
{
    pthread_mutex_lock(&c->slots_mutex);
    int rc = find_slot(c, units_for(bytes), group, error);
    if (!rc) {
        *offset = take(*group);
        c->in_flight++;
    }
    pthread_mutex_unlock(&c->slots_mutex);
    return rc;
}

void leat_columns_slot_done(struct leat_columns *c, struct group *g, uint64_t offset, struct entry *entry,
                            uint64_t before)
{
    const uint64_t slot = (offset - (g->segment << SEGMENT_SHIFT)) / ((uint64_t)g->units * UNIT);
    pthread_mutex_lock(&c->slots_mutex);
    g->busy[slot / WORD_BITS] &= ~(UINT64_C(1) << slot % WORD_BITS);
    g->n_busy--;
    c->in_flight--;
    if (!entry)
        set_free(c, g, (uint32_t)slot);
    else
        c->dirty[c->n_dirty++] = entry;
    if (entry && before)
        c->left[c->n_left++] = (struct left){leat_columns_offset(before), entry};
    pthread_mutex_unlock(&c->slots_mutex);
}

struct parting {
    struct leat_columns *c;
    size_t at;
};

/* Leaves the free slots to others. */
static int part(void *arg)
{
    struct parting *p = arg;
    for (; p->at < p->c->n_groups; p->at++) {
        const struct group *g = p->c->groups[p->at];
        word *at = leat_columns_segment(p->c, g->segment, NULL);
        if (at)
            atomic_store(at, DATA_WORD(g->units) + g->n_free * DATA_FREED_ONE);
    }
    for (size_t i = 0; i < p->c->n_left; i++)
        tell_freed(p->c, p->c->left[i].place);
    return LEAT_OK;
}

void leat_columns_slots_end(struct leat_columns *c)
{
    if (c->n_groups && !leat_columns_may_write(c, NULL))
        leat_guarded(part, &(struct parting){.c = c}, NULL);
    for (size_t i = 0; i < c->n_groups; i++)
        group_free(c->groups[i]);
    leat_free(c->groups);
    leat_free(c->classes);
    leat_free((void *)c->dirty);
    leat_free(c->left);
}
