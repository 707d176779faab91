/*
 * One word per photo says where its index and its checksum are. So neither threads that read indexes nor those that add
 * them need a lock:
 *
 *     0                                          not known
 *     a pointer (its lowest bit is 0)            in memory, until the folder is closed
 *     place << 24 | length << 2 | 1              in the file
 *     checksum of the photo, its last bits 10    no index, or no room for one: the checksum alone
 *
 * New indexes and checksums are also put on a list of records that the file lacks. A thread that finds the list long or
 * old enough appends it to the file. When memory is full, an index is only on that list, until it is in the file; so is
 * a checksum without an index that this process does not use.
 *
 * A child that is forked while a thread writes has an empty list: the records on it are written by the parent.
 */
#include "format/folder_rows.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "format/rows_file.h"

/* When the list is written to the file: at so many bytes, or so long after the last time. If another process has the
 * lock, some time passes before the next try. */
#define WRITE_BYTES (UINT64_C(256) << 10)
#define WRITE_NS (INT64_C(10) * 1000000000)
#define AGAIN_NS (INT64_C(100) * 1000000)
/* The bound of a list that cannot be written. */
#define LIST_BYTES (UINT64_C(16) << 20)
/* A file below this is not started again, however much of it is obsolete. */
#define SMALL_FILE (UINT64_C(1) << 20)
#define CLOSE_WAIT_MS 1000

struct kept {
    struct kept *next; /* on the list */
    uint64_t sample;
    uint64_t photo; /* the checksum, where checksums are made */
    uint32_t length;
    bool resident;       /* its word points to it: it is freed at the end */
    _Atomic bool stored; /* it is in the file */
    uint8_t bytes[];
};

struct leat_folder_rows {
    const struct leat_listing *listing;
    _Atomic(_Atomic uint64_t *) words; /* made when there is something to say */
    _Atomic uint64_t memory;           /* bytes of what is resident */
    bool filed, again;                 /* photos are checked again in this process */
    _Atomic bool unwritable;
    struct leat_rows_file file;
    _Atomic(struct kept *) list;
    _Atomic uint64_t list_bytes;
    _Atomic int64_t tried_ns;
    _Atomic int writing; /* the process of the thread that writes, or 0 */
};

/* The state of reading the file at opening. */
struct loading {
    struct leat_folder_rows *rows;
    uint32_t *table; /* numbers of photos + 1, by the hash of their names; made if photos were added or removed */
    size_t mask;
    bool tried;
    uint64_t useful;
};

/* ---- words ----------------------------------------------------------------------------------- */

static _Atomic uint64_t *words_of(struct leat_folder_rows *r)
{
    _Atomic uint64_t *words = atomic_load_explicit(&r->words, memory_order_acquire), *fresh;
    if (words)
        return words;
    if (!(fresh = leat_new_array(r->listing->n_files, sizeof *fresh)))
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&r->words, &words, fresh, memory_order_acq_rel, memory_order_acquire))
        return fresh;
    leat_free(fresh);
    return words;
}

static uint64_t word_of(const struct leat_folder_rows *r, uint64_t sample)
{
    _Atomic uint64_t *words = atomic_load_explicit(&r->words, memory_order_acquire);
    return words ? atomic_load_explicit(&words[sample], memory_order_acquire) : 0;
}

static bool is_filed(uint64_t word)
{
    return word & 1;
}

static uint64_t filed_word(uint64_t place, uint32_t length)
{
    return place << 24 | (uint64_t)length << 2 | 1;
}

static uint64_t place_in(uint64_t word)
{
    return word >> 24;
}

static uint32_t length_in(uint64_t word)
{
    return word >> 2 & LEAT_ROWS_LONGEST;
}

static bool is_sum(uint64_t word)
{
    return (word & 3) == 2;
}

static uint64_t sum_word(uint64_t checksum)
{
    return (checksum & ~UINT64_C(3)) | 2;
}

static struct kept *kept_in(uint64_t word)
{
    return (struct kept *)(uintptr_t)word; /* NOLINT: a word that is not filed is a pointer */
}

static uint64_t kept_bytes(uint32_t length)
{
    return sizeof(struct kept) + length + 16; /* the allocator's own */
}

static struct leat_rows_key key_of(const struct leat_listing *l, uint64_t sample)
{
    const struct leat_listing_file *f = &l->files[sample];
    return (struct leat_rows_key){leat_hash64(l->names + f->name, f->name_length), f->size, f->mtime_ns};
}

/* ---- what stands in the file ----------------------------------------------------------------- */

static bool is_named(const struct leat_listing *l, uint64_t sample, uint64_t name)
{
    return sample < l->n_files && leat_hash64(l->names + l->files[sample].name, l->files[sample].name_length) == name;
}

static void make_table(struct loading *g)
{
    const struct leat_listing *l = g->rows->listing;
    g->tried = true;
    if (l->n_files >= UINT32_MAX / 4)
        return;
    size_t room = 16;
    while (room < l->n_files * 2)
        room *= 2;
    if (!(g->table = leat_new_array(room, sizeof *g->table)))
        return; /* then those are not found again */
    g->mask = room - 1;
    for (size_t i = 0; i < l->n_files; i++) {
        size_t at = leat_hash64(l->names + l->files[i].name, l->files[i].name_length) & g->mask;
        while (g->table[at])
            at = (at + 1) & g->mask;
        g->table[at] = (uint32_t)i + 1;
    }
}

/* The photo of that name, or UINT64_MAX. */
static uint64_t find(struct loading *g, const struct leat_rows_record *record)
{
    const struct leat_listing *l = g->rows->listing;
    if (is_named(l, record->hint, record->key.name))
        return record->hint;
    if (!g->tried)
        make_table(g);
    for (size_t at = record->key.name & g->mask; g->table && g->table[at]; at = (at + 1) & g->mask)
        if (is_named(l, g->table[at] - 1, record->key.name))
            return g->table[at] - 1;
    return UINT64_MAX;
}

static bool is_current(const struct leat_listing *l, uint64_t sample, const struct leat_rows_key *key)
{
    return l->files[sample].size == key->size && l->files[sample].mtime_ns == key->mtime_ns;
}

static void found_at_opening(void *user, const struct leat_rows_record *record)
{
    struct loading *g = user;
    uint64_t sample = find(g, record);
    if (sample == UINT64_MAX || !is_current(g->rows->listing, sample, &record->key))
        return;
    _Atomic uint64_t *words = words_of(g->rows);
    if (!words)
        return;
    if (!atomic_load_explicit(&words[sample], memory_order_relaxed))
        g->useful += LEAT_ROWS_RECORD + record->length;
    atomic_store_explicit(&words[sample], filed_word(record->place, record->length), memory_order_release);
}

/* A record of another process, met while this one writes. If its listing differs, the photo is not searched for. */
static void found_at_writing(void *user, const struct leat_rows_record *record)
{
    struct leat_folder_rows *r = user;
    _Atomic uint64_t *words;
    if (!is_named(r->listing, record->hint, record->key.name) || !is_current(r->listing, record->hint, &record->key) ||
        !(words = words_of(r)))
        return;
    uint64_t word = 0;
    if (!atomic_compare_exchange_strong_explicit(&words[record->hint], &word, filed_word(record->place, record->length),
                                                 memory_order_acq_rel, memory_order_acquire) &&
        !is_filed(word) && !is_sum(word))
        atomic_store_explicit(&kept_in(word)->stored, true, memory_order_relaxed);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void drop(struct leat_folder_rows *r, struct kept *k)
{
    atomic_fetch_sub_explicit(&r->list_bytes, kept_bytes(k->length), memory_order_relaxed);
    if (!k->resident)
        leat_free(k);
}

static void push(struct leat_folder_rows *r, struct kept *first, struct kept *last)
{
    struct kept *head = atomic_load_explicit(&r->list, memory_order_relaxed);
    do
        last->next = head;
    while (!atomic_compare_exchange_weak_explicit(&r->list, &head, first, memory_order_release, memory_order_relaxed));
}

/* Whether the file has this one already. */
static bool is_stored(const struct leat_folder_rows *r, const struct kept *k)
{
    return atomic_load_explicit(&k->stored, memory_order_relaxed) || (!k->resident && is_filed(word_of(r, k->sample)));
}

/* Writes the next block of the list; *list then is the rest. False: no more can be written. */
static bool write_some(struct leat_folder_rows *r, struct leat_rows_record *records, struct kept **from,
                       struct kept **list)
{
    size_t n = 0;
    uint64_t bytes = 0;
    struct kept *k = *list;
    for (; k && n < LEAT_ROWS_AT_ONCE && bytes < LIST_BYTES; k = k->next) {
        if (is_stored(r, k))
            continue;
        records[n] = (struct leat_rows_record){
            key_of(r->listing, k->sample), (uint32_t)k->sample, k->length, k->photo, k->bytes, 0};
        from[n++] = k;
        bytes += k->length;
    }
    *list = k;
    if (!n)
        return true;
    if (!leat_rows_file_write(&r->file, records, n))
        return false;
    _Atomic uint64_t *words = words_of(r);
    for (size_t i = 0; i < n; i++) {
        uint64_t none = 0;
        atomic_store_explicit(&from[i]->stored, true, memory_order_relaxed);
        if (words && !from[i]->resident)
            atomic_compare_exchange_strong_explicit(&words[from[i]->sample], &none,
                                                    filed_word(records[i].place, from[i]->length), memory_order_acq_rel,
                                                    memory_order_acquire);
    }
    return true;
}

static bool write_list(struct leat_folder_rows *r, struct kept *list)
{
    struct leat_rows_record *records = leat_new_array(LEAT_ROWS_AT_ONCE, sizeof *records);
    struct kept **from = leat_new_array(LEAT_ROWS_AT_ONCE, sizeof *from);
    bool good = records && from;
    while (good && list)
        good = write_some(r, records, from, &list);
    leat_free(records);
    leat_free(from);
    return good;
}

static void write_file(struct leat_folder_rows *r, int wait_ms)
{
    int self = getpid(), now = atomic_load_explicit(&r->writing, memory_order_relaxed);
    if (now == self ||
        !atomic_compare_exchange_strong_explicit(&r->writing, &now, self, memory_order_acquire, memory_order_relaxed))
        return;
    struct kept *list = atomic_exchange_explicit(&r->list, NULL, memory_order_acquire), *last = list;
    int rc = list ? leat_rows_file_begin(&r->file, wait_ms, found_at_writing, r) : LEAT_OK;
    if (list && rc == LEAT_E_BUSY) {
        while (last->next)
            last = last->next;
        push(r, list, last);
        list = NULL;
    }
    if (list && !rc) {
        if (!write_list(r, list))
            rc = LEAT_E_IO;
        leat_rows_file_end(&r->file);
    }
    if (rc == LEAT_E_IO)
        atomic_store_explicit(&r->unwritable, true, memory_order_relaxed);
    for (struct kept *next; list; list = next) {
        next = list->next;
        drop(r, list);
    }
    atomic_store_explicit(&r->tried_ns, leat_clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&r->writing, 0, memory_order_release);
}

static void write_in_time(struct leat_folder_rows *r)
{
    int64_t since = leat_clock_ns() - atomic_load_explicit(&r->tried_ns, memory_order_relaxed);
    if (since >= WRITE_NS ||
        (since >= AGAIN_NS && atomic_load_explicit(&r->list_bytes, memory_order_relaxed) >= WRITE_BYTES))
        write_file(r, 0);
}

/* ---- the calls ------------------------------------------------------------------------------- */

int leat_folder_rows_open(const char *root, const char *index_dir, bool checksums, const struct leat_listing *listing,
                          struct leat_folder_rows **out)
{
    struct leat_folder_rows *r = *out = leat_new(struct leat_folder_rows);
    uint64_t photos = 0;
    if (!r)
        return LEAT_E_NOMEM;
    r->listing = listing;
    r->again = checksums;
    r->tried_ns = leat_clock_ns();
    if (!index_dir)
        return LEAT_OK;
    for (size_t i = 0; i < listing->n_files; i++)
        photos += listing->files[i].size;
    if (leat_rows_file_init(&r->file, index_dir, root, photos / 32 + listing->n_files * 128 + SMALL_FILE)) {
        leat_rows_file_destroy(&r->file);
        leat_free(r);
        *out = NULL;
        return LEAT_E_NOMEM;
    }
    r->filed = true;
    struct loading loading = {.rows = r};
    leat_rows_file_load(&r->file, found_at_opening, &loading);
    r->file.restart = r->file.end > SMALL_FILE && loading.useful * 2 < r->file.end;
    leat_free(loading.table);
    return LEAT_OK;
}

void leat_folder_rows_close(struct leat_folder_rows *r)
{
    if (!r)
        return;
    if (r->filed && !r->unwritable)
        write_file(r, CLOSE_WAIT_MS);
    for (struct kept *k = r->list, *next; k; k = next) {
        next = k->next;
        drop(r, k);
    }
    for (size_t i = 0; r->words && i < r->listing->n_files; i++)
        if (!is_filed(r->words[i]) && !is_sum(r->words[i]))
            leat_free(kept_in(r->words[i]));
    leat_free(r->words);
    if (r->filed)
        leat_rows_file_destroy(&r->file);
    leat_free(r);
}

static bool has_checksums(const struct leat_folder_rows *r)
{
    return r->filed || r->again;
}

void leat_folder_rows_describe(struct leat_folder_rows *r, uint64_t sample, struct leat_value_info *info)
{
    uint64_t word = word_of(r, sample);
    if (is_filed(word)) {
        info->rows_length = length_in(word);
        info->rows_apart = info->remembered = true;
    } else if (is_sum(word)) {
        info->remembered = true;
    } else if (word) {
        info->rows = kept_in(word)->bytes;
        info->rows_length = kept_in(word)->length;
        info->remembered = has_checksums(r);
    }
}

bool leat_folder_rows_recall(struct leat_folder_rows *r, uint64_t sample, uint8_t *to, uint32_t length,
                             const uint64_t *checksum)
{
    uint64_t word = word_of(r, sample), photo;
    if (is_sum(word))
        return !length && checksum && sum_word(*checksum) == word;
    if (word && !is_filed(word)) /* the index need not be copied: who asks for it looked before it came to memory */
        return !length && (!checksum || (has_checksums(r) && kept_in(word)->photo == *checksum));
    if (!word || length_in(word) != length)
        return false;
    const struct leat_rows_key key = key_of(r->listing, sample);
    if (leat_rows_file_read(&r->file, &key, place_in(word), length, to, &photo) && (!checksum || photo == *checksum))
        return true;
    atomic_compare_exchange_strong_explicit(&words_of(r)[sample], &word, 0, memory_order_acq_rel, memory_order_acquire);
    return false;
}

void leat_folder_rows_keep(struct leat_folder_rows *r, uint64_t sample, const void *photo, size_t photo_bytes,
                           const uint8_t *bytes, size_t length)
{
    _Atomic uint64_t *words = length || has_checksums(r) ? words_of(r) : NULL;
    if (!words || length > LEAT_ROWS_LONGEST || word_of(r, sample))
        return;
    uint64_t room = kept_bytes((uint32_t)length), none = 0;
    bool resident = atomic_fetch_add_explicit(&r->memory, room, memory_order_relaxed) + room <= LEAT_FOLDER_ROWS_BYTES;
    resident = resident && (length || r->again);
    bool filed = r->filed && !atomic_load_explicit(&r->unwritable, memory_order_relaxed) &&
                 atomic_load_explicit(&r->list_bytes, memory_order_relaxed) + room <= LIST_BYTES;
    struct kept *k = resident || filed ? leat_alloc(sizeof *k + length) : NULL;
    if (k) {
        *k = (struct kept){.sample = sample, .length = (uint32_t)length, .resident = resident};
        if (has_checksums(r))
            k->photo = leat_hash64(photo, photo_bytes);
        if (length)
            memcpy(k->bytes, bytes, length);
    }
    if (k && resident &&
        !atomic_compare_exchange_strong_explicit(&words[sample], &none, (uint64_t)(uintptr_t)k, memory_order_acq_rel,
                                                 memory_order_acquire)) { /* another thread has found it too */
        leat_free(k);
        k = NULL;
    }
    uint64_t empty = 0;
    if (!k && r->again)
        atomic_compare_exchange_strong_explicit(&words[sample], &empty, sum_word(leat_hash64(photo, photo_bytes)),
                                                memory_order_acq_rel, memory_order_acquire);
    if (!k || !resident)
        atomic_fetch_sub_explicit(&r->memory, room, memory_order_relaxed);
    if (!k || !filed)
        return;
    atomic_fetch_add_explicit(&r->list_bytes, room, memory_order_relaxed);
    push(r, k, k);
    write_in_time(r);
}
