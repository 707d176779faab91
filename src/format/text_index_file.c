/*
 * The file of an index of lines (text_index.h): docs/format.md has the layout.
 *
 *     header | catalogue: bad records, nodes, keys, properties, frames | lines | columns
 *
 * Header and catalogue have checksums that are verified when the file is read; so have lines and columns, in a small
 * file. In a large one, which is mapped, that of a column is verified when it is used, and a line shows that it is
 * wrong where the record has another checksum. The source is known again by its size, its time and a hash of pieces of
 * it. Nobody needs the file: whoever finds none that is right makes it anew, and whoever finds later that it is wrong
 * removes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/kept.h"
#include "format/text_index.h"
#include "io/guard.h"

enum { VERSION = 4 };
static const char magic[8] = {'L', 'E', 'A', 'T', 'L', 'I', 'N', 'E'};

struct header {
    char magic[8];
    uint64_t version, mode, source_bytes, source_pieces;
    int64_t source_mtime_ns;
    uint64_t count, n_lines, bytes, n_bad, n_nodes, keys_bytes, n_frames, copy_bytes, sums[2][2];
    uint64_t file_bytes, catalogue_hash;
    uint64_t hash; /* of all before */
};

enum { WIDE = 1, PARTIAL = 2 };

/* A node of the tree with its property, as it stands in the file. Offsets are in the file; 0: it has none. */
struct node {
    uint32_t parent, key, key_length, flags; /* WIDE, PARTIAL */
    uint64_t types, present, integers, nan, lines[LEAT_RECORD_TYPES];
    uint64_t column, values, valid, starts, words, n_words, words_bytes, hash;
};

/* The places of the parts of the catalogue, in the order of the file. */
struct parts {
    uint64_t bad, nodes, keys, frames, lines, columns;
};

static bool place_parts(const struct header *h, struct parts *p)
{
    const uint64_t sizes[] = {sizeof *h, 0, 0, 0, 0, 0};
    uint64_t at = sizes[0], bytes;
    const struct {
        uint64_t *place, count, each;
    } all[] = {{&p->bad, h->n_bad, sizeof(struct leat_text_bad)},
               {&p->nodes, h->n_nodes, sizeof(struct node)},
               {&p->keys, h->keys_bytes, 1},
               {&p->frames, h->n_frames ? h->n_frames + 1 : 0, sizeof(struct leat_frame)},
               {&p->lines, h->count, sizeof(struct leat_text_line)}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].place = leat_align64(at);
        if (h->n_frames > INT64_MAX || !leat_mul_u64(all[i].count, all[i].each, &bytes) || bytes > INT64_MAX ||
            !leat_add_u64(*all[i].place, bytes, &at) || at > INT64_MAX)
            return false;
    }
    p->columns = leat_align64(at);
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct hashing {
    const struct leat_text_property *p;
    uint64_t count, hash;
};

static uint64_t column_each(uint64_t column)
{
    return column == LEAT_COLUMN_NUMBERS ? 8 : column == LEAT_COLUMN_WORDS ? 4 : 1;
}

static int hash_column(void *user)
{
    struct hashing *h = user;
    const struct leat_text_property *p = h->p;
    uint64_t hashes[4] = {0};
    if (p->values)
        hashes[0] = leat_hash64(p->values, (size_t)(h->count * column_each(p->column)));
    if (p->valid)
        hashes[1] = leat_hash64(p->valid, (size_t)h->count);
    if (p->starts) {
        hashes[2] = leat_hash64(p->starts, (size_t)(p->n_words + 1) * sizeof *p->starts);
        hashes[3] = leat_hash64(p->words, (size_t)p->starts[p->n_words]);
    }
    h->hash = leat_hash64(hashes, sizeof hashes);
    h->hash += !h->hash;
    return LEAT_OK;
}

int leat_text_index_check(const struct leat_text_index *x, const struct leat_text_property *p, struct leat_error *error)
{
    struct hashing h = {.p = p, .count = x->count};
    if (!p->hash)
        return LEAT_OK;
    int rc = leat_guarded(hash_column, &h, error);
    if (rc || h.hash == p->hash)
        return rc;
    return leat_fail(error, LEAT_E_CORRUPT, "the index %s is damaged: remove it, and it is made anew",
                     x->path ? x->path : "of the file");
}

static bool check_lines(const struct leat_text_index *x)
{
    uint64_t hash = 0;
    return !leat_guarded_hash(x->lines, (size_t)x->count * sizeof *x->lines, &hash, NULL) &&
           hash + !hash == x->lines_hash;
}

/* Header and catalogue are in memory, lines and columns perhaps in a mapping: these are read inside leat_guarded. */
struct reading {
    struct leat_text_index *x;
    const uint8_t *base, *catalogue;
    struct header h;
    struct parts parts;
};

/* `count` things of `each` bytes at `at`, NULL: they are not within the columns. */
static const void *within(const struct reading *r, uint64_t at, uint64_t count, uint64_t each)
{
    uint64_t bytes, end;
    if (at % 8 || at < r->parts.columns || !leat_mul_u64(count, each, &bytes) || !leat_add_u64(at, bytes, &end) ||
        end > r->h.file_bytes)
        return NULL;
    return r->base + at;
}

/* A copy that lives as long as the index; NULL: the file was cut, or there is no memory. */
static const void *copied(struct reading *r, const void *from, uint64_t bytes)
{
    void *to = from ? leat_text_index_room(r->x, bytes, 1) : NULL;
    return to && !leat_guarded_copy(to, from, (size_t)bytes, NULL) ? to : NULL;
}

struct bounding {
    const uint32_t *codes;
    uint64_t count, n_words;
};

/* A code leads to a word and nowhere else. */
static int bound_codes(void *user)
{
    const struct bounding *b = user;
    uint32_t most = 0;
    for (uint64_t i = 0; i < b->count; i++)
        most = b->codes[i] > most ? b->codes[i] : most;
    return b->count && most >= b->n_words ? LEAT_E_CORRUPT : LEAT_OK;
}

static bool take_words(struct reading *r, const struct node *n, struct leat_text_property *p)
{
    struct bounding bounding = {p->values, r->x->count, n->n_words};
    if (n->n_words > LEAT_WORDS || n->words_bytes > LEAT_WORDS * (uint64_t)LEAT_WORD_BYTES)
        return false;
    p->starts =
        copied(r, within(r, n->starts, n->n_words + 1, sizeof *p->starts), (n->n_words + 1) * sizeof *p->starts);
    p->words = copied(r, within(r, n->words, n->words_bytes, 1), n->words_bytes);
    p->n_words = n->n_words;
    if (!p->starts || !p->words || p->starts[0] || p->starts[n->n_words] != n->words_bytes)
        return false;
    for (uint64_t i = 0; i < n->n_words; i++)
        if (p->starts[i] > p->starts[i + 1])
            return false;
    return !leat_guarded(bound_codes, &bounding, NULL);
}

static bool take_node(struct reading *r, uint32_t number, const struct node *n, const char *keys)
{
    struct leat_text_index *x = r->x;
    struct leat_text_property *p = &x->properties[number];
    if (number) {
        if (n->parent >= number || n->key > r->h.keys_bytes || n->key_length > r->h.keys_bytes - n->key ||
            leat_property_add(&x->tree, n->parent, keys + n->key, n->key_length) != number)
            return false;
    } else {
        x->lines_hash = n->words; /* the root is no property */
    }
    x->tree.nodes[number].wide = n->flags & WIDE;
    x->tree.nodes[number].partial = n->flags & PARTIAL;
    p->types = n->types;
    p->present = n->present;
    p->integers = n->integers;
    p->nan = n->nan;
    p->hash = n->hash;
    memcpy(p->lines, n->lines, sizeof p->lines);
    if (n->types >> LEAT_RECORD_TYPES || n->present > x->count - x->n_bad || n->column > LEAT_COLUMN_WORDS)
        return false;
    p->column = n->column;
    if ((n->valid && !(p->valid = within(r, n->valid, x->count, 1))) ||
        (!n->valid && p->present && p->present != x->count))
        return false;
    if (n->column == LEAT_COLUMN_NONE)
        return true;
    if (!(p->values = within(r, n->values, x->count, column_each(n->column))) || !p->present)
        return false;
    return n->column != LEAT_COLUMN_WORDS || take_words(r, n, p);
}

static bool take_catalogue(struct reading *r)
{
    struct leat_text_index *x = r->x;
    const struct header *h = &r->h;
    const struct node *nodes = (const void *)(r->catalogue + r->parts.nodes);
    x->count = h->count;
    x->n_lines = h->n_lines;
    x->bytes = h->bytes;
    x->n_bad = h->n_bad;
    memcpy(x->sums, h->sums, sizeof x->sums);
    x->n_frames = h->n_frames;
    x->copy_bytes = h->copy_bytes;
    x->lines = (const void *)(r->base + r->parts.lines);
    x->bad = (const void *)(r->catalogue + r->parts.bad);
    x->frames = h->n_frames ? (const void *)(r->catalogue + r->parts.frames) : NULL;
    if (h->n_bad > h->count || h->n_nodes < 1 || h->n_nodes > LEAT_RECORD_PROPERTIES ||
        !leat_property_tree_init(&x->tree) ||
        !(x->properties = leat_text_index_room(x, h->n_nodes, sizeof *x->properties)))
        return false;
    for (uint64_t i = 0; i < h->n_bad; i++)
        if (x->bad[i].record >= h->count || (i && x->bad[i].record <= x->bad[i - 1].record))
            return false;
    for (uint64_t i = 0; i < h->n_frames; i++)
        if (x->frames[i].in >= x->frames[i + 1].in || x->frames[i].out > x->frames[i + 1].out)
            return false;
    if (h->n_frames && (x->frames[0].out || x->frames[h->n_frames].out != h->bytes))
        return false;
    for (uint32_t i = 0; i < h->n_nodes; i++)
        if (!take_node(r, i, &nodes[i], (const char *)r->catalogue + r->parts.keys))
            return false;
    return true;
}

/* Whether it is of this source, as far as that can be told without reading all of it. */
static bool is_of(const struct header *h, struct leat_io_file *source)
{
    uint64_t pieces;
    return h->source_bytes == source->size && h->source_mtime_ns == source->mtime_ns &&
           leat_kept_pieces(source, &pieces) && pieces == h->source_pieces;
}

static bool take_header(struct reading *r, struct leat_io_file *file, struct leat_io_file *source, uint64_t mode,
                        bool trusts)
{
    struct header *h = &r->h;
    return file->size >= sizeof *h && !leat_io_read(file, 0, sizeof *h, h, NULL) && !memcmp(h->magic, magic, 8) &&
           h->version == VERSION && (trusts || h->mode == mode) &&
           (trusts || h->hash == leat_hash64(h, offsetof(struct header, hash))) && h->file_bytes == file->size &&
           place_parts(h, &r->parts) && r->parts.columns <= file->size && (trusts || is_of(h, source));
}

static bool is_whole(const struct reading *r)
{
    return leat_hash64(r->catalogue + sizeof r->h, (size_t)(r->parts.lines - sizeof r->h)) == r->h.catalogue_hash;
}

/* Lines and columns. */
static bool is_sound(const struct leat_text_index *x)
{
    bool good = check_lines(x);
    for (size_t i = 0; good && i < x->tree.n; i++)
        good = !leat_text_index_check(x, &x->properties[i], NULL);
    return good;
}

/* Keeps where the file is, of this inode. */
static bool keep_path(struct leat_text_index *x, const char *path, uint64_t inode)
{
    char *copy = leat_text_index_room(x, strlen(path) + 1, 1);
    if (copy)
        strcpy(copy, path);
    x->path = copy;
    x->inode = inode;
    return copy;
}

bool leat_text_index_load(struct leat_text_index *x, const char *path, struct leat_io_file *source, uint64_t mode,
                          const struct leat_text_care *care)
{
    struct leat_io_file *file = NULL;
    struct reading r = {.x = x};
    struct stat st;
    *x = (struct leat_text_index){0};
    if (stat(path, &st) || !S_ISREG(st.st_mode) || leat_io_open(path, &file, NULL))
        return false;
    bool good = take_header(&r, file, source, mode, care->trusts);
    if (good && file->size <= care->small) {
        uint8_t *bytes = leat_text_index_room(x, file->size, 1);
        good = bytes && !leat_io_read(file, 0, file->size, bytes, NULL);
        r.base = r.catalogue = bytes;
    } else if (good) {
        x->file = leat_io_retain(file);
        uint8_t *bytes = leat_text_index_room(x, r.parts.lines, 1);
        good = bytes && !leat_io_read(file, 0, r.parts.lines, bytes, NULL) && (r.base = leat_io_map(file, NULL));
        r.catalogue = bytes;
    }
    good = good && r.parts.lines <= file->size && (care->trusts || is_whole(&r)) && take_catalogue(&r);
    good = good && keep_path(x, path, st.st_ino);
    if (good && (care->careful || (!x->file && !care->trusts)))
        good = is_sound(x);
    leat_io_release(file);
    if (!good)
        leat_text_index_destroy(x);
    return good;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writing {
    FILE *file;
    uint64_t at;
    bool failed;
};

static void put(struct writing *w, uint64_t at, const void *bytes, uint64_t n)
{
    static const uint8_t zeros[64];
    while (w->at < at && !w->failed) {
        const size_t pad = at - w->at < sizeof zeros ? (size_t)(at - w->at) : sizeof zeros;
        w->failed = fwrite(zeros, 1, pad, w->file) != pad;
        w->at += pad;
    }
    w->failed = w->failed || (n && fwrite(bytes, 1, (size_t)n, w->file) != n);
    w->at += n;
}

/* Gives each column its place from `at` on; returns the end. */
static uint64_t place_columns(const struct leat_text_index *x, struct node *nodes, uint64_t at)
{
    for (size_t i = 0; i < x->tree.n; i++) {
        const struct leat_property *t = &x->tree.nodes[i];
        const struct leat_text_property *p = &x->properties[i];
        struct node *n = &nodes[i];
        *n = (struct node){.parent = t->parent,
                           .key = t->key,
                           .key_length = t->key_length,
                           .flags = (t->wide ? WIDE : 0) | (t->partial ? PARTIAL : 0),
                           .types = p->types,
                           .present = p->present,
                           .integers = p->integers,
                           .nan = p->nan,
                           .column = p->column,
                           .n_words = p->n_words};
        memcpy(n->lines, p->lines, sizeof n->lines);
        struct hashing h = {.p = p, .count = x->count};
        hash_column(&h);
        n->hash = h.hash;
        if (!i) {
            const uint64_t hash = leat_hash64(x->lines, (size_t)x->count * sizeof *x->lines);
            n->words = hash + !hash;
        }
        if (p->column != LEAT_COLUMN_NONE) {
            n->values = at;
            at = leat_align64(at + x->count * column_each(p->column));
        }
        if (p->valid) {
            n->valid = at;
            at = leat_align64(at + x->count);
        }
        if (p->starts) {
            n->words_bytes = p->starts[p->n_words];
            n->starts = at;
            at = leat_align64(at + (p->n_words + 1) * sizeof *p->starts);
            n->words = at;
            at = leat_align64(at + n->words_bytes);
        }
    }
    return at;
}

static void put_all(struct writing *w, const struct leat_text_index *x, const struct header *h,
                    const struct parts *parts, const struct node *nodes)
{
    put(w, parts->bad, x->bad, x->n_bad * sizeof *x->bad);
    put(w, parts->nodes, nodes, h->n_nodes * sizeof *nodes);
    put(w, parts->keys, x->tree.keys, h->keys_bytes);
    put(w, parts->frames, x->frames, h->n_frames ? (h->n_frames + 1) * sizeof *x->frames : 0);
    put(w, parts->lines, x->lines, x->count * sizeof *x->lines);
    for (size_t i = 0; i < x->tree.n; i++) {
        const struct leat_text_property *p = &x->properties[i];
        if (p->column != LEAT_COLUMN_NONE)
            put(w, nodes[i].values, p->values, x->count * column_each(p->column));
        if (p->valid)
            put(w, nodes[i].valid, p->valid, x->count);
        if (p->starts) {
            put(w, nodes[i].starts, p->starts, (p->n_words + 1) * sizeof *p->starts);
            put(w, nodes[i].words, p->words, nodes[i].words_bytes);
        }
    }
    put(w, h->file_bytes, NULL, 0);
}

/* The catalogue's checksum: of its bytes as they will stand, which are small. */
static bool hash_catalogue(const struct leat_text_index *x, struct header *h, const struct parts *parts,
                           const struct node *nodes)
{
    const uint64_t n = parts->lines - sizeof *h;
    uint8_t *bytes = leat_new_array(1, (size_t)n + 1);
    if (!bytes)
        return false;
    const uint64_t from = sizeof *h;
    if (x->n_bad)
        memcpy(bytes + (parts->bad - from), x->bad, x->n_bad * sizeof *x->bad);
    memcpy(bytes + (parts->nodes - from), nodes, h->n_nodes * sizeof *nodes);
    if (h->keys_bytes)
        memcpy(bytes + (parts->keys - from), x->tree.keys, h->keys_bytes);
    if (h->n_frames)
        memcpy(bytes + (parts->frames - from), x->frames, (h->n_frames + 1) * sizeof *x->frames);
    h->catalogue_hash = leat_hash64(bytes, (size_t)n);
    leat_free(bytes);
    return true;
}

bool leat_text_index_save(struct leat_text_index *x, const char *path, struct leat_io_file *source, uint64_t mode)
{
    struct stat st;
    char temporary[4096 + 64];
    struct header h = {.version = VERSION,
                       .mode = mode,
                       .source_bytes = source->size,
                       .source_mtime_ns = source->mtime_ns,
                       .count = x->count,
                       .n_lines = x->n_lines,
                       .bytes = x->bytes,
                       .n_bad = x->n_bad,
                       .n_nodes = x->tree.n,
                       .keys_bytes = x->tree.keys_n,
                       .n_frames = x->n_frames,
                       .copy_bytes = x->copy_bytes};
    struct parts parts;
    memcpy(h.magic, magic, 8);
    memcpy(h.sums, x->sums, sizeof h.sums);
    const int refused = leat_kept_refused(path);
    if (refused || !leat_kept_pieces(source, &h.source_pieces) || !place_parts(&h, &parts) ||
        !leat_kept_partial_name(temporary, sizeof temporary, path)) {
        leat_kept_unwritten(path, refused);
        return false;
    }
    struct node *nodes = leat_new_array(x->tree.n, sizeof *nodes);
    struct writing w = {.at = sizeof h};
    if (nodes) {
        h.file_bytes = place_columns(x, nodes, parts.columns);
        const int fd =
            hash_catalogue(x, &h, &parts, nodes) ? open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
        w.file = fd < 0 ? NULL : fdopen(fd, "w");
        if (fd >= 0 && !w.file)
            close(fd);
    }
    h.hash = leat_hash64(&h, offsetof(struct header, hash));
    bool good = w.file;
    if (good) {
        w.failed = fwrite(&h, 1, sizeof h, w.file) != sizeof h;
        put_all(&w, x, &h, &parts, nodes);
        w.failed = fclose(w.file) || w.failed;
        const bool known = !stat(temporary, &st);
        good = !w.failed && !rename(temporary, path);
        if (!good)
            unlink(temporary);
        else if (known)
            keep_path(x, path, st.st_ino);
    }
    if (!good)
        leat_kept_unwritten(path, errno);
    leat_free(nodes);
    return good;
}
