/*
 * The store of decoded photos (decoded.h): a hash table, and a list of those that are ready by when they were last
 * used. One lock; nothing is decoded under it. Memory of photos that went is kept for the next ones, as new memory
 * would cost a fault per page: some twentieth of the time that the photo takes to decode.
 *
 *     buckets --> photo --> photo          newest <-> .. <-> oldest      ready ones
 *                   |                      spares: memory without a photo
 *                   `- pixels: a whole photo, in the rows that decoders give
 */
#include "op/decoded.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/ledger.h"

#define BUCKETS 1024
#define SPARES 8
#define MOST_SPARE (UINT64_C(4) << 20) /* larger memory is seldom of use to the next photo */

/* A photo is worth decoding into the store if its users need so many 1024ths of it together: the rest is what it costs
 * to go through memory. Measured with photos of 500 x 375, as they came and in the fast form: of two users with
 * RandomResizedCrop, who need two thirds each, one core made 0.8 to 1.03 times as many photos as without a store; with
 * Resize and CenterCrop, three quarters each, 1.1 to 1.3 times; of four with RandomResizedCrop 1.1 to 1.3 times. The
 * mean part is that of some MEAN_OF users. */
#define WORTH 1434
#define MEAN_OF 64
#define USERS_TO_EXPECT 2

/* Filling is judged by the hits of the last fills: those of JUDGED count, older ones half as much each time. A fill
 * decodes what no crop of its user needs, so with fewer than LEAST_HITS in LEAST_OF fills only one of RARELY photos is
 * decoded into the store. Which ones follows from their key, so that all users mean the same. */
#define JUDGED 256
#define LEAST_HITS 1
#define LEAST_OF 2
#define RARELY 16

struct spare {
    uint8_t *pixels;
    uint64_t room;
};

struct leat_decoded {
    pthread_mutex_t lock;
    pthread_cond_t ready; /* some photo is, or will not be */
    unsigned references;
    uint64_t max_bytes, bytes;
    unsigned expected;
    uint64_t hits, fills;
    uint64_t recent_hits, recent_fills;
    unsigned mean; /* part that a user needs, times MEAN_OF */
    bool sparing;  /* only few photos are decoded into the store */
    struct spare spares[SPARES];
    struct leat_decoded_photo *newest, *oldest;
    struct leat_decoded_photo *pending; /* that are being decoded, linked by `older` */
    struct leat_decoded_photo *buckets[BUCKETS];
};

struct leat_decoded *leat_decoded_new(uint64_t max_bytes)
{
    struct leat_decoded *s = leat_new(struct leat_decoded);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->ready, NULL);
    s->references = 1;
    s->max_bytes = max_bytes;
    s->mean = LEAT_DECODED_WHOLE * MEAN_OF;
    return s;
}

struct leat_decoded *leat_decoded_retain(struct leat_decoded *s)
{
    pthread_mutex_lock(&s->lock);
    s->references++;
    pthread_mutex_unlock(&s->lock);
    return s;
}

static void take(struct leat_decoded *s, uint64_t bytes)
{
    s->bytes += bytes;
    leat_ledger_take(LEAT_OF_PHOTOS, bytes);
}

static void give(struct leat_decoded *s, uint64_t bytes)
{
    s->bytes -= bytes;
    leat_ledger_give(LEAT_OF_PHOTOS, bytes);
}

static void free_spare(struct leat_decoded *s, struct spare *spare)
{
    leat_free(spare->pixels);
    give(s, spare->room);
    *spare = (struct spare){NULL, 0};
}

void leat_decoded_release(struct leat_decoded *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    const bool last = !--s->references;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    for (struct leat_decoded_photo *p; (p = s->oldest);) {
        s->oldest = p->newer;
        leat_free(p->pixels);
        leat_free(p);
    }
    for (size_t i = 0; i < SPARES; i++)
        free_spare(s, &s->spares[i]);
    give(s, s->bytes);
    pthread_cond_destroy(&s->ready);
    pthread_mutex_destroy(&s->lock);
    leat_free(s);
}

void leat_decoded_count(struct leat_decoded *s, struct leat_decoded_counts *counts)
{
    pthread_mutex_lock(&s->lock);
    *counts = (struct leat_decoded_counts){s->hits, s->fills, s->bytes};
    pthread_mutex_unlock(&s->lock);
}

/* ---- under the lock -------------------------------------------------------------------------- */

static uint64_t hash_of(const uint64_t *key)
{
    return leat_hash64(key, LEAT_DECODED_KEY * sizeof *key);
}

static struct leat_decoded_photo **bucket_of(struct leat_decoded *s, const uint64_t *key)
{
    return &s->buckets[hash_of(key) % BUCKETS];
}

static struct leat_decoded_photo *look_up(struct leat_decoded *s, const uint64_t *key)
{
    struct leat_decoded_photo *p = *bucket_of(s, key);
    while (p && memcmp(p->key, key, sizeof p->key) != 0)
        p = p->chain;
    return p;
}

static void link_newest(struct leat_decoded *s, struct leat_decoded_photo *p)
{
    p->newer = NULL;
    p->older = s->newest;
    *(p->older ? &p->older->newer : &s->oldest) = p;
    s->newest = p;
}

static void unlink_use(struct leat_decoded *s, struct leat_decoded_photo *p)
{
    *(p->newer ? &p->newer->older : &s->newest) = p->older;
    *(p->older ? &p->older->newer : &s->oldest) = p->newer;
}

/* Its memory becomes a spare one, in the place of a smaller one if there are enough. */
static void keep_memory(struct leat_decoded *s, uint8_t *pixels, uint64_t room)
{
    struct spare *least = s->spares;
    for (size_t i = 1; i < SPARES; i++)
        least = s->spares[i].room < least->room ? &s->spares[i] : least;
    if (room <= MOST_SPARE && room > least->room) {
        free_spare(s, least);
        *least = (struct spare){pixels, room};
        return;
    }
    leat_free(pixels);
    give(s, room);
}

static void unlink_pending(struct leat_decoded *s, struct leat_decoded_photo *p)
{
    struct leat_decoded_photo **at = &s->pending;
    while (*at != p)
        at = &(*at)->older;
    *at = p->older;
}

/* Removes a photo that nobody has. */
static void remove_photo(struct leat_decoded *s, struct leat_decoded_photo *p)
{
    struct leat_decoded_photo **at = bucket_of(s, p->key);
    while (*at != p)
        at = &(*at)->chain;
    *at = p->chain;
    if (p->ready)
        unlink_use(s, p);
    else
        unlink_pending(s, p);
    keep_memory(s, p->pixels, p->room);
    give(s, sizeof *p);
    leat_free(p);
}

/* The smallest spare memory that holds so much, and not twice as much. */
static struct spare *find_spare(struct leat_decoded *s, uint64_t bytes)
{
    struct spare *found = NULL;
    for (size_t i = 0; i < SPARES; i++) {
        const uint64_t room = s->spares[i].room;
        if (room >= bytes && room / 2 <= bytes && (!found || room < found->room))
            found = &s->spares[i];
    }
    return found;
}

static bool has_place(const struct leat_decoded *s, uint64_t bytes)
{
    return s->bytes <= s->max_bytes - bytes && !leat_ledger_is_over(0);
}

/* Makes place for so many bytes: spare memory goes first, then photos from the oldest on. */
static bool make_place(struct leat_decoded *s, uint64_t bytes)
{
    if (bytes > s->max_bytes)
        return false;
    for (size_t i = 0; !has_place(s, bytes) && i < SPARES; i++)
        free_spare(s, &s->spares[i]);
    for (struct leat_decoded_photo *p = s->oldest, *next; !has_place(s, bytes) && p; p = next) {
        next = p->newer;
        if (p->users)
            continue;
        remove_photo(s, p);
        for (size_t i = 0; i < SPARES; i++)
            free_spare(s, &s->spares[i]);
    }
    return has_place(s, bytes);
}

void leat_decoded_expect(struct leat_decoded *s, unsigned users)
{
    pthread_mutex_lock(&s->lock);
    s->expected = users;
    if (users == 1)
        make_place(s, s->max_bytes);
    pthread_mutex_unlock(&s->lock);
}

static bool get_memory(struct leat_decoded *s, struct leat_decoded_photo *p, uint64_t bytes)
{
    struct spare *spare = find_spare(s, bytes);
    if (!spare && !make_place(s, bytes))
        return false;
    p->pixels = spare ? spare->pixels : leat_alloc((size_t)bytes);
    p->room = spare ? spare->room : bytes;
    if (spare)
        *spare = (struct spare){NULL, 0};
    else if (p->pixels)
        take(s, bytes);
    return p->pixels;
}

/* Whether a decode of the whole photo is likely to serve others too. */
static bool pays(const struct leat_decoded *s, const uint64_t *key)
{
    const uint64_t users = s->expected ? s->expected : USERS_TO_EXPECT;
    return users > 1 && users * s->mean > (uint64_t)WORTH * MEAN_OF &&
           (!s->sparing || hash_of(key) / BUCKETS % RARELY == 0);
}

static void note_part(struct leat_decoded *s, unsigned part)
{
    s->mean += part ? part - s->mean / MEAN_OF : 0;
}

static void judge(struct leat_decoded *s)
{
    if (s->recent_fills < (s->sparing ? JUDGED / RARELY : JUDGED))
        return;
    s->sparing = s->recent_hits * LEAST_OF < s->recent_fills * LEAST_HITS;
    s->recent_hits /= 2;
    s->recent_fills /= 2;
}

/* ---- for decoders ---------------------------------------------------------------------------- */

static struct leat_decoded_photo *find(struct leat_decoded *s, const uint64_t *key, bool scanned)
{
    struct leat_decoded_photo *p;
    while ((p = look_up(s, key)) && !p->ready)
        pthread_cond_wait(&s->ready, &s->lock);
    if (!p || (scanned && !p->scanned))
        return NULL;
    unlink_use(s, p);
    link_newest(s, p);
    p->users++;
    p->had++;
    s->hits++;
    s->recent_hits++;
    return p;
}

bool leat_decoded_is_busy(struct leat_decoded *s, const struct leat_value_id *value)
{
    uint64_t key[LEAT_DECODED_KEY];
    leat_decoded_key(key, value);
    pthread_mutex_lock(&s->lock);
    const struct leat_decoded_photo *p = s->pending;
    while (p && memcmp(p->key, key, LEAT_DECODED_VALUE * sizeof *key) != 0)
        p = p->older;
    pthread_mutex_unlock(&s->lock);
    return p;
}

struct leat_decoded_photo *leat_decoded_find(struct leat_decoded *s, const uint64_t *key, bool scanned)
{
    pthread_mutex_lock(&s->lock);
    struct leat_decoded_photo *p = find(s, key, scanned);
    pthread_mutex_unlock(&s->lock);
    return p;
}

static struct leat_decoded_photo *add(struct leat_decoded *s, const uint64_t *key, uint64_t bytes)
{
    struct leat_decoded_photo *p = leat_new(struct leat_decoded_photo);
    if (p)
        take(s, sizeof *p);
    if (p && !get_memory(s, p, bytes)) {
        give(s, sizeof *p);
        leat_free(p);
        p = NULL;
    }
    if (!p)
        return NULL;
    memcpy(p->key, key, sizeof p->key);
    p->users = p->had = 1;
    p->chain = *bucket_of(s, key);
    *bucket_of(s, key) = p;
    p->older = s->pending;
    s->pending = p;
    return p;
}

struct leat_decoded_photo *leat_decoded_claim(struct leat_decoded *s, const uint64_t *key, bool scanned, unsigned part,
                                              uint64_t bytes)
{
    pthread_mutex_lock(&s->lock);
    struct leat_decoded_photo *p = find(s, key, scanned);
    if (!p && !look_up(s, key) && pays(s, key)) /* there may be one that was not scanned */
        p = add(s, key, bytes);
    note_part(s, p ? 0 : part); /* else when the caller leaves it */
    pthread_mutex_unlock(&s->lock);
    return p;
}

void leat_decoded_fill(struct leat_decoded *s, struct leat_decoded_photo *p)
{
    pthread_mutex_lock(&s->lock);
    unlink_pending(s, p);
    p->ready = true;
    link_newest(s, p);
    s->fills++;
    s->recent_fills++;
    judge(s);
    pthread_cond_broadcast(&s->ready);
    pthread_mutex_unlock(&s->lock);
}

void leat_decoded_drop(struct leat_decoded *s, struct leat_decoded_photo *p)
{
    pthread_mutex_lock(&s->lock);
    remove_photo(s, p);
    pthread_cond_broadcast(&s->ready);
    pthread_mutex_unlock(&s->lock);
}

void leat_decoded_leave(struct leat_decoded *s, struct leat_decoded_photo *p, unsigned part)
{
    pthread_mutex_lock(&s->lock);
    note_part(s, part);
    if (!--p->users && s->expected && p->had >= s->expected)
        remove_photo(s, p);
    pthread_mutex_unlock(&s->lock);
}
