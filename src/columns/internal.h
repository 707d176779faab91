/*
 * Columns that change, beside a data set (leat/columns.h): the common part of the files of this folder. docs/stores.md
 * is the specification of the file.
 *
 * The file is cut into segments of 1 MiB, and mapped in windows of 1 GiB as it grows. A table of words, one for each
 * segment, gives the kind of each: the first segment of 128 Gi has it.
 *
 *     | header | table | directory | index | data, data, ... | index | data, ...
 *
 * header      fields, and words that change: how many segments there are, where the directories are
 * index       entries of rows, in chunks of a segment; a directory says in which segment a chunk is
 * data        groups of segments, cut into slots of one size; a slot has a record: one version of one row
 *
 * An entry has two words, each a place in the data and 26 bits of the record's stamp:
 *
 *     live     the row as it is. Set by one atomic exchange, after the record is there
 *     durable  the row as of the last flush, whose record is known to be on disk: what is read if power was lost before
 *              the record of `live` was on disk. Set by flush only
 *
 * A slot is in use if the entry of the row that its record names points at it: by either word. No other count of slots
 * exists, so none is off by one after a kill. A group is filled by one open file at a time, which holds a lock on a
 * byte of its number; a slot that a killed writer took and never published is found to be free when its group is taken
 * over.
 *
 * Locks (of the process | of the file): flush_mutex | FLUSH, slots_mutex, grow_mutex | GROW, map_mutex; in this order.
 * Readers take none, but map_mutex when they meet a window or a chunk for the first time.
 */
#ifndef LEAT_COLUMNS_INTERNAL_H
#define LEAT_COLUMNS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "leat/columns.h"

enum {
    LEAT_COLUMNS_VERSION = 1,
    SEGMENT_SHIFT = 20,
    WINDOW_SHIFT = 30,
    REGION_SHIFT = 17, /* segments that one segment of the table is about */
    CHUNKS_SHIFT = 17, /* chunks that a directory has */
    ROOTS = 1024,      /* directories */
    UNIT = 64,         /* bytes; records begin at multiples */
    UNIT_SHIFT = 6,
    PLACE_BITS = 38, /* of a word: in units */
    PROBES = 64,     /* entries of a level that a pair can be in */
    LEVELS = 16,
    HEADER_BYTES = 16384, /* of the part that does not change */
    FINGERPRINT_BYTES = 128,
    ROWS_TOGETHER = 32,     /* that a gather works on at a time */
    WRITTEN_TOGETHER = 128, /* likewise a write */
    /* For rows that are put (write.c). Measured on tmpfs and ext4, Linux 6.18, Zen 3. */
    PAGE_SHIFT = 12,
    PUT_LEAST = 4096,             /* bytes of a run: a shorter one is not worth the call */
    PUT_LEAST_TOGETHER = 1 << 15, /* likewise, of all rows that are written by one call of leat_columns_write */
    PUT_BYTES = 1 << 18,          /* of rows that are put together: they are in the core's cache still */
    PUT_MOST = 1 << 22,           /* of a row: a larger one is written through the mapping */
    PUT_ROW_IN_MEMORY = 512,      /* of a row: there a page's fault is shared by enough smaller ones */
    PUTS_IN_MEMORY = 1,           /* of a page, until it is written through the mapping */
    PUTS_ON_DISK = 10             /* likewise: there the first touch costs as much as ten puts do more than a copy */
};
#define SEGMENT_BYTES (UINT64_C(1) << SEGMENT_SHIFT)
#define WINDOW_BYTES (UINT64_C(1) << WINDOW_SHIFT)
#define WINDOW_SEGMENTS (WINDOW_BYTES / SEGMENT_BYTES)
#define REGION_SEGMENTS (UINT64_C(1) << REGION_SHIFT)
#define DIRECTORY_CHUNKS (UINT64_C(1) << CHUNKS_SHIFT)
#define MAX_SEGMENTS (UINT64_C(1) << (PLACE_BITS + UNIT_SHIFT - SEGMENT_SHIFT))
#define MAX_WINDOWS (MAX_SEGMENTS / WINDOW_SEGMENTS)
#define PLACE_MASK ((UINT64_C(1) << PLACE_BITS) - 1)

typedef _Atomic uint64_t word;

/* At HEADER_BYTES of the file. */
struct shared {
    word n_segments;
    word levels;   /* for the index of pairs: the number of its entries */
    word flushing; /* not 0: words `durable` were set, and may not be on disk yet */
    word kept;     /* segments as of the last flush: a file that has fewer was cut */
    word spare[508];
    word roots[ROOTS]; /* segments of directories; 0: there is none */
};

/* Words of the table: the kind of a segment. */
enum segment_kind { SEGMENT_NONE = 0, SEGMENT_TABLE, SEGMENT_DIRECTORY, SEGMENT_INDEX, SEGMENT_DATA, SEGMENT_MORE };
#define KIND_OF(w) ((enum segment_kind)((w)&15))
#define NUMBER_OF(w) ((w) >> 4) /* of a directory, and a chunk of the index */
/* For data: somebody has taken the group (or died with it); slots that became free since, roughly; units of a slot. */
#define DATA_TAKEN UINT64_C(16)
#define DATA_UNITS(w) ((uint32_t)((w) >> 5 & 0xffffff))
#define DATA_FREED(w) ((uint32_t)((w) >> 29))
#define DATA_FREED_ONE (UINT64_C(1) << 29)
#define DATA_WORD(units) (SEGMENT_DATA | (uint64_t)(units) << 5)

struct entry {
    word live, durable;
};
/* For pairs: as above, and the owner: hash 0: nobody. */
struct pair_entry {
    struct entry entry;
    word hash, check;
};

/* Behind it its payload: the dense fields and the counts of others, each at a multiple of 8; then the values of the
 * others, so too. */
struct record {
    uint64_t checksum; /* of the following, and the payload's */
    uint64_t stamp;    /* unlike that of any other write */
    uint64_t id, key;
    uint64_t length; /* of the payload */
    uint64_t spare;
};

/* The place in which records are made before they are put into the file. */
struct scratch {
    uint64_t room;
    uint64_t bytes[];
};

/* The place of a field in a record. */
struct shape {
    enum leat_dtype dtype;
    bool ragged;
    bool scaled;      /* int8: a float scale stands before dense values and behind the count of others */
    uint64_t item;    /* bytes of a value, or of one of its rows */
    uint64_t n_items; /* elements of those */
    uint64_t at;      /* in the payload: the values, or how many rows they have */
};

/* A group of segments that this open file fills. */
struct group {
    uint64_t segment;
    uint32_t units, slots, n_free, n_busy;
    uint32_t cursor;
    bool listed;
    struct group *next; /* of its class, with free slots */
    uint64_t *free, *busy;
    /* For each page: the number of recent puts, and the flush of this open file that they count from (write.c). A hint,
     * which any thread sets. */
    _Atomic uint16_t *puts;
};
struct class
{
    uint32_t units;
    struct group *with_free;
    uint64_t cursor; /* segments before it were looked at lately */
};

/* A place that a row has left. */
struct left {
    uint64_t place;
    const struct entry *entry;
};

struct leat_columns {
    char *path;
    int fd, lock_fd;
    bool read_only, keyed;
    pid_t pid;
    char fingerprint[FINGERPRINT_BYTES];
    size_t n_fields;
    struct leat_field fields[LEAT_COLUMNS_MAX_FIELDS];
    char names[LEAT_COLUMNS_MAX_FIELDS][64];
    struct shape shapes[LEAT_COLUMNS_MAX_FIELDS];
    uint64_t fixed; /* bytes of a payload before the values that vary */
    bool ragged;
    bool plain; /* one field, as it is: the payload is its value */

    struct shared *shared;
    uint64_t most; /* segments that there can be: in a file that lost power, and is only read, those that are left */
    _Atomic(uint8_t *) *windows;                 /* MAX_WINDOWS */
    _Atomic(_Atomic(uint8_t *) *) chunks[ROOTS]; /* those that were looked for, DIRECTORY_CHUNKS of each root */
    pthread_mutex_t map_mutex, grow_mutex, slots_mutex, flush_mutex;
    word stamp;
    bool in_memory;                    /* the file system is: a flush leaves pages as they are mapped */
    atomic_uint flushes;               /* of this open file */
    uint64_t put_least;                /* PUT_LEAST_TOGETHER, but in tests */
    _Atomic(struct scratch *) scratch; /* of the next writer */

    /* of slots_mutex */
    struct group **groups; /* by segment */
    size_t n_groups, groups_room;
    struct class *classes;
    size_t n_classes, classes_room;
    struct entry **dirty;                   /* entries written since the last flush, some several times */
    size_t n_dirty, dirty_room, dirty_kept; /* of these, so many were there when each was last there once */
    bool noting;                            /* a flush has taken note of the first ones */
    /* A sync has failed since the last flush that succeeded: pages that the system has in memory may count as written
     * and not be on disk. No slot becomes free until a flush has written it again. */
    atomic_bool unsynced;
    struct left *left;                   /* places that were left, and not looked at since */
    size_t n_left, left_room, left_kept; /* of these, so many were there when it was last looked */
    size_t in_flight;

    struct leat_columns *previous, *next; /* open ones, for a fork */
};

/* ---- calls.c: calls to the system, which a test can wrap ------------------------------------------------------- */

/* Each returns 0, a file or an address; on failure -1 or NULL, and errno. */
int leat_call_open(const char *path, int flags, mode_t mode);
int leat_call_allocate(int fd, uint64_t offset, uint64_t bytes);
int leat_call_cut(int fd, uint64_t bytes);
int leat_call_write(int fd, const void *data, uint64_t bytes); /* of the whole, at 0 */
int leat_call_read(int fd, void *data, uint64_t bytes);        /* likewise; fewer are an error without errno */
ssize_t leat_call_put(int fd, const void *data, uint64_t bytes, uint64_t offset); /* how many */
int leat_call_sync(int fd);
int leat_call_publish(const char *from, const char *to); /* link */
int leat_call_replace(const char *from, const char *to); /* rename */
/* Bytes of one file to the same place of another one, without coming here: how many, 0 at the end of `from`. */
ssize_t leat_call_move(int from, int to, uint64_t offset, uint64_t bytes);
void *leat_call_map(int fd, uint64_t offset, uint64_t bytes, bool writable);
/* The lock of byte `number`; wait: until it is free. 1: another has it. */
int leat_call_lock(int fd, uint64_t number, bool wait);
int leat_call_unlock(int fd, uint64_t number);
enum { LOCK_FLUSH = 0, LOCK_GROW = 1, LOCK_SEGMENTS = 16 };

/* ---- header.c ------------------------------------------------------------------------------------------------ */

/* The part of the file that does not change, of HEADER_BYTES. */
int leat_columns_header_write(const struct leat_columns_options *options, uint8_t *out, struct leat_error *error);
/* Fills the fields of `c` from any bytes. */
int leat_columns_header_read(struct leat_columns *c, const uint8_t *bytes, struct leat_error *error);
int leat_columns_check_fields(const struct leat_field *fields, size_t n, struct leat_error *error);

/* ---- file.c --------------------------------------------------------------------------------------------------- */

/* The address at which byte `offset` is mapped. It lies within the segments that there are. NULL with an error. */
uint8_t *leat_columns_map(struct leat_columns *c, uint64_t offset, struct leat_error *error);
/* The same without a lock; NULL: it is not mapped yet. */
static inline uint8_t *leat_columns_at(const struct leat_columns *c, uint64_t offset)
{
    uint8_t *window = atomic_load_explicit(&c->windows[offset >> WINDOW_SHIFT], memory_order_acquire);
    return window ? window + (offset & (WINDOW_BYTES - 1)) : NULL;
}
/* The number of segments, within a guard; leat_columns_look_end: without one around it. */
static inline uint64_t leat_columns_segments(const struct leat_columns *c)
{
    const uint64_t n = atomic_load_explicit(&c->shared->n_segments, memory_order_acquire);
    return n < c->most ? n : c->most;
}
/* Makes the file longer: the word of the first segment, and n segments of zeroes. GROW is held. */
int leat_columns_grow(struct leat_columns *c, uint64_t first_word, uint64_t n, uint64_t *segment,
                      struct leat_error *error);
/* Syncs the file: 0, or -1 with errno, which is remembered. */
int leat_columns_sync(struct leat_columns *c);
/* The same, and says that it is not shorter from now on. GROW is held. */
int leat_columns_keep(struct leat_columns *c, struct leat_error *error);
int leat_columns_grow_begin(struct leat_columns *c, struct leat_error *error);
void leat_columns_grow_end(struct leat_columns *c);
/* The word of a segment in the table. Touching it may fault. NULL with an error. */
word *leat_columns_segment(struct leat_columns *c, uint64_t segment, struct leat_error *error);
/* Read and set a word of the file, within a guard. */
int leat_columns_look(word *at, uint64_t *value, struct leat_error *error);
int leat_columns_set(word *at, uint64_t value, struct leat_error *error);
int leat_columns_look_end(const struct leat_columns *c, uint64_t *n_segments, struct leat_error *error);
int leat_columns_may_write(const struct leat_columns *c, struct leat_error *error);

/* ---- index.c --------------------------------------------------------------------------------------------------- */

enum found { FOUND, NOT_THERE, NEEDS_CHUNK, NEEDS_LEVEL, DAMAGED };
struct place {
    struct entry *entry;
    uint64_t chunk; /* NEEDS_CHUNK */
    uint64_t levels;
};
/* Finds the entry of a row, or takes one for it. No locks, no memory: within a guard. */
enum found leat_columns_find(struct leat_columns *c, uint64_t id, uint64_t key, bool take, struct place *out);
/* Gives the needs of the guarded part: a chunk becomes known, or is made. `there`: whether there is such a chunk. */
int leat_columns_supply(struct leat_columns *c, enum found needs, const struct place *place, bool make, bool *there,
                        struct leat_error *error);
/* Both, without a guard around it. entry NULL: there is none; DAMAGED: LEAT_E_CORRUPT. */
int leat_columns_look_up(struct leat_columns *c, uint64_t id, uint64_t key, bool take, struct entry **entry,
                         struct leat_error *error);
uint64_t leat_columns_offset_of(const struct leat_columns *c, const void *mapped);
/* Whether an entry belongs to a pair. Within a guard. */
bool leat_columns_is_pair(const struct pair_entry *entry, uint64_t id, uint64_t key);
uint64_t leat_columns_chunks(const struct leat_columns *c, uint64_t *entries_each);
/* Whether n rows can have these ids, and keys or none. INVALID. */
int leat_columns_check_ids(const struct leat_columns *c, const uint64_t *ids, const uint64_t *keys, uint64_t n,
                           struct leat_error *error);

/* ---- slots.c --------------------------------------------------------------------------------------------------- */

/* A slot with room for so many bytes, which is busy until it is given up, or put into use. */
int leat_columns_slot(struct leat_columns *c, uint64_t bytes, struct group **group, uint64_t *offset,
                      struct leat_error *error);
/* Ends that a slot is busy. `entry`: that of the row whose record it has now, `before` the word that it had; NULL: it
 * is free again. */
void leat_columns_slot_done(struct leat_columns *c, struct group *group, uint64_t offset, struct entry *entry,
                            uint64_t before);
/* FLUSH is held, and all words `durable` are on disk: slots that rows have left and nobody needs are free again. */
void leat_columns_reclaim(struct leat_columns *c);
void leat_columns_slots_end(struct leat_columns *c);

/* ---- record.c -------------------------------------------------------------------------------------------------- */

static inline uint64_t leat_columns_word(uint64_t offset, uint64_t stamp)
{
    return offset >> UNIT_SHIFT | stamp << PLACE_BITS;
}
static inline uint64_t leat_columns_offset(uint64_t w)
{
    return (w & PLACE_MASK) << UNIT_SHIFT;
}
uint64_t leat_columns_checksum(const struct record *header, uint64_t payload);
/* Bytes of row i's payload; UINT64_MAX: far too many. */
uint64_t leat_columns_payload(const struct leat_columns *c, const struct leat_column *columns, uint64_t i);
/* Writes it. Touches nothing else. */
void leat_columns_encode(const struct leat_columns *c, const struct leat_column *columns, uint64_t i, uint8_t *payload);
/* For a payload that was verified: whether its counts fit its length, and columns of sparse rows rise (a file that was
 * forged, or written by a version that knows no sparse rows). */
bool leat_columns_payload_fits(const struct leat_columns *c, const uint8_t *payload, uint64_t length);

/* Copies bytes that a writer may be writing to: a checksum says afterwards whether it was. ThreadSanitizer would call
 * it a race, which it is, so it does not see this. */
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize_thread, noinline, unused)) static void leat_columns_copy_bytes(void *to, const void *from,
                                                                                          uint64_t bytes)
{
    const volatile uint8_t *p = from;
    for (uint64_t i = 0; i < bytes; i++)
        ((volatile uint8_t *)to)[i] = p[i];
}
#else
static inline void leat_columns_copy_bytes(void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

/* ---- flush.c --------------------------------------------------------------------------------------------------- */

/* FLUSH, and words `durable` on disk. unless_here: LEAT_E_BUSY at once if a thread of this open file has it; it waits
 * for others. */
int leat_columns_flush_begin(struct leat_columns *c, bool unless_here, struct leat_error *error);
void leat_columns_flush_end(struct leat_columns *c);

#endif
