/*
 * The list of rows, and the rows to be read: the index from its beginning to its end, and requests to the system to
 * read ahead.
 */
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "columns/internal.h"
#include "io/guard.h"

struct listing {
    struct leat_columns *c;
    const uint8_t *chunk;
    uint64_t number, at; /* of the chunk, and the entry in it */
    uint64_t *ids, *keys;
    size_t n, ids_room, keys_room;
    uint64_t wanted; /* 0, or an offset that must be mapped */
};

static bool add(struct listing *l, uint64_t id, uint64_t key)
{
    l->ids[l->n] = id;
    l->keys[l->n++] = key;
    return l->n < l->ids_room && l->n < l->keys_room;
}

/* The row that a word points at: names are not verified further. */
static bool name_of(struct listing *l, uint64_t w, uint64_t *id, uint64_t *key)
{
    const uint64_t offset = leat_columns_offset(w);
    if (!w || offset + sizeof(struct record) > leat_columns_segments(l->c) << SEGMENT_SHIFT)
        return false;
    const struct record *record = (const struct record *)(const void *)leat_columns_at(l->c, offset);
    if (!record) {
        l->wanted = offset;
        return false;
    }
    struct record header;
    leat_columns_copy_bytes(&header, record, sizeof header);
    *id = header.id;
    *key = header.key;
    return header.stamp << PLACE_BITS == (w & ~PLACE_MASK);
}

/* Lists rows of a chunk as long as there is room. */
static int list_some(void *arg)
{
    struct listing *l = arg;
    uint64_t each;
    leat_columns_chunks(l->c, &each);
    for (; l->at < each; l->at++) {
        if (!l->c->keyed) {
            const struct entry *e = (const struct entry *)(const void *)l->chunk + l->at;
            if ((atomic_load(&e->live) || atomic_load(&e->durable)) && !add(l, l->number * each + l->at, 0))
                return l->at++, LEAT_OK;
            continue;
        }
        const struct pair_entry *e = (const struct pair_entry *)(const void *)l->chunk + l->at;
        uint64_t id, key;
        l->wanted = 0;
        const bool named = name_of(l, atomic_load(&e->entry.live), &id, &key) ||
                           (!l->wanted && name_of(l, atomic_load(&e->entry.durable), &id, &key));
        if (l->wanted)
            return LEAT_OK;
        if (named && leat_columns_is_pair(e, id, key) && !add(l, id, key))
            return l->at++, LEAT_OK;
    }
    return LEAT_OK;
}

static int list_chunk(struct listing *l, uint64_t segment, struct leat_error *error)
{
    uint64_t each;
    leat_columns_chunks(l->c, &each);
    l->chunk = leat_columns_map(l->c, segment << SEGMENT_SHIFT, error);
    int rc = l->chunk ? LEAT_OK : error ? error->code : LEAT_E_IO;
    for (l->at = 0, l->wanted = 0; !rc && l->at < each;) {
        if (!leat_grow(&l->ids, &l->ids_room, l->n + 2, sizeof *l->ids) ||
            !leat_grow(&l->keys, &l->keys_room, l->n + 2, sizeof *l->keys))
            rc = leat_fail(error, LEAT_E_NOMEM, "no memory for the ids of %s", l->c->path);
        else if (l->wanted && !leat_columns_map(l->c, l->wanted, error))
            rc = error ? error->code : LEAT_E_IO;
        else
            rc = leat_guarded(list_some, l, error);
    }
    return rc;
}

enum { WORDS_AT_ONCE = 512 };
struct words {
    const word *from;
    uint64_t to[WORDS_AT_ONCE];
};

static int copy_words(void *arg)
{
    struct words *w = arg;
    for (size_t i = 0; i < WORDS_AT_ONCE; i++)
        w->to[i] = atomic_load_explicit(&w->from[i], memory_order_acquire);
    return LEAT_OK;
}

/* Lists the chunks of directory `root`. */
static int list_directory(struct listing *l, uint64_t root, uint64_t segment, struct leat_error *error)
{
    struct words words;
    words.from = (const word *)(const void *)leat_columns_map(l->c, segment << SEGMENT_SHIFT, error);
    int rc = words.from ? LEAT_OK : error ? error->code : LEAT_E_IO;
    for (uint64_t first = 0; !rc && first < DIRECTORY_CHUNKS; first += WORDS_AT_ONCE) {
        rc = leat_guarded(copy_words, &words, error);
        words.from += WORDS_AT_ONCE;
        for (uint64_t i = 0; !rc && i < WORDS_AT_ONCE; i++) {
            l->number = root * DIRECTORY_CHUNKS + first + i;
            if (words.to[i] && words.to[i] < leat_columns_segments(l->c))
                rc = list_chunk(l, words.to[i], error);
        }
    }
    return rc;
}

int leat_columns_list(struct leat_columns *c, uint64_t **ids, uint64_t **keys, uint64_t *n, struct leat_error *error)
{
    struct listing l = {.c = c};
    int rc = LEAT_OK;
    *ids = NULL;
    if (keys)
        *keys = NULL;
    *n = 0;
    for (uint64_t root = 0; !rc && root < ROOTS; root++) {
        uint64_t directory;
        rc = leat_columns_look(&c->shared->roots[root], &directory, error);
        if (!rc && directory && directory < leat_columns_segments(c))
            rc = list_directory(&l, root, directory, error);
    }
    if (rc || !keys) {
        leat_free(l.keys);
        l.keys = NULL;
    }
    if (rc) {
        leat_free(l.ids);
        return rc;
    }
    *ids = l.ids;
    if (keys)
        *keys = l.keys;
    *n = l.n;
    return LEAT_OK;
}

void leat_columns_expect(struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint64_t i = 0; i < n; i++) {
        struct entry *entry;
        uint64_t w;
        if ((!c->keyed && ids[i] >= LEAT_COLUMNS_MAX_ID) || (c->keyed && !keys) ||
            leat_columns_look_up(c, ids[i], keys ? keys[i] : 0, false, &entry, NULL) || !entry ||
            leat_columns_look(&entry->live, &w, NULL) || !w)
            continue;
        const uint64_t offset = leat_columns_offset(w), begin = offset & ~(page - 1);
        const uint64_t end = offset + sizeof(struct record) + c->fixed;
        uint8_t *p = end <= leat_columns_segments(c) << SEGMENT_SHIFT ? leat_columns_map(c, begin, NULL) : NULL;
        if (p && (begin >> WINDOW_SHIFT) == ((end - 1) >> WINDOW_SHIFT))
            madvise(p, end - begin, MADV_WILLNEED);
    }
}
