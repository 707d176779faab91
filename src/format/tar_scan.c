/* The headers of a tar: tar_scan.h. */
#include "format/tar_scan.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Places in a header. */
enum { NAME = 0, SIZE = 124, CHECKSUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };
enum { NAME_BYTES = 100, SIZE_BYTES = 12, CHECKSUM_BYTES = 8, PREFIX_BYTES = 155 };
/* Sizes of index entries have 48 bits. */
#define LARGEST ((UINT64_C(1) << 48) - 1)

/* What stands before a header, or for all that follow. */
struct said {
    char *name; /* NULL: nothing */
    size_t length, room;
    uint64_t size;
    bool has_size;
};

struct leat_tar_scan {
    const char *path;
    const struct leat_tar_sink *sink;
    uint64_t bytes, at;
    uint8_t block[LEAT_TAR_BLOCK];
    size_t filled;
    char type;     /* of the text that is being taken; 0: a header is */
    uint8_t *text; /* of L, x or g */
    size_t text_room;
    uint64_t text_size, text_taken, text_header;
    uint64_t wanted;     /* of the body, still to be given */
    bool in_body, ended; /* `ended`: zeros stand before the next header */
    uint64_t passes;     /* then so many bytes are nobody's */
    uint64_t due;        /* the file has at least so many bytes: the end of the last body */
    struct said next, all;
    char *name;
    size_t name_room;
};

static int broken(const struct leat_tar_scan *s, uint64_t at, struct leat_error *error, const char *what)
{
    return leat_fail_at(error, LEAT_E_CORRUPT, s->path, (int64_t)at, "%s is a damaged tar: at byte %" PRIu64 " %s",
                        s->path, at, what);
}

static int no_memory(const struct leat_tar_scan *s, struct leat_error *error)
{
    return leat_fail(error, LEAT_E_NOMEM, "no memory to read the headers of %s", s->path);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Octal digits, with spaces in front and a space or NUL behind. */
static bool read_octal(const uint8_t *p, size_t n, uint64_t *out)
{
    size_t i = 0;
    *out = 0;
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        if (*out >> 61)
            return false;
        *out = *out << 3 | (uint64_t)(p[i] - '0');
    }
    return i == n || p[i] == 0 || p[i] == ' ';
}

/* Octal, or of large ones base 256, whose first byte is 0x80; 0xff begins negative ones. */
static bool read_size(const uint8_t *p, uint64_t *out)
{
    if (!(*p & 0x80))
        return read_octal(p, SIZE_BYTES, out);
    *out = 0;
    if (*p != 0x80)
        return false;
    for (size_t i = 1; i < SIZE_BYTES; i++) {
        if (*out >> 56)
            return false;
        *out = *out << 8 | p[i];
    }
    return true;
}

static bool read_decimal(const uint8_t *p, size_t n, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || !leat_mul_u64(*out, 10, out) || !leat_add_u64(*out, p[i] - (uint64_t)'0', out))
            return false;
    return n;
}

/* The sum of all bytes, those of the checksum as spaces; some programs added them as signed ones. */
static bool checksum_fits(const uint8_t *block)
{
    uint64_t said, unsigned_sum = 0;
    int64_t signed_sum = 0;
    if (!read_octal(block + CHECKSUM, CHECKSUM_BYTES, &said))
        return false;
    for (size_t i = 0; i < LEAT_TAR_BLOCK; i++) {
        const uint8_t byte = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_BYTES ? ' ' : block[i];
        unsigned_sum += byte;
        signed_sum += (int8_t)byte;
    }
    return said == unsigned_sum || (signed_sum >= 0 && said == (uint64_t)signed_sum);
}

bool leat_tar_recognise(const uint8_t *head, size_t n)
{
    return n >= LEAT_TAR_BLOCK && *head && checksum_fits(head);
}

/* ---- texts before a header ------------------------------------------------------------------- */

static int say_name(struct leat_tar_scan *s, struct said *said, const uint8_t *name, size_t n, struct leat_error *error)
{
    if (memchr(name, 0, n))
        return broken(s, s->text_header, error, "a name has a NUL in it");
    if (!leat_grow(&said->name, &said->room, n + 1, 1))
        return no_memory(s, error);
    memcpy(said->name, name, n);
    said->name[n] = 0;
    said->length = n;
    return LEAT_OK;
}

static int take_record(struct leat_tar_scan *s, struct said *said, const uint8_t *key, size_t key_length,
                       const uint8_t *value, size_t n, struct leat_error *error)
{
    static const char sparse[] = "GNU.sparse.";
    if (key_length == 4 && !memcmp(key, "path", 4))
        return say_name(s, said, value, n, error);
    if (key_length == 4 && !memcmp(key, "size", 4)) {
        if (!read_decimal(value, n, &said->size))
            return broken(s, s->text_header, error, "a pax header says a size that is no number, or below 0");
        said->has_size = true;
    } else if (key_length > sizeof sparse - 1 && !memcmp(key, sparse, sizeof sparse - 1)) {
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, s->path, (int64_t)s->text_header,
                            "%s has a sparse file at byte %" PRIu64 ", whose bytes are not those of the file: pack it "
                            "again without --sparse",
                            s->path, s->text_header);
    }
    return LEAT_OK;
}

/* Records "length key=value\n", where the length counts all of the record. */
static int take_pax(struct leat_tar_scan *s, struct said *said, struct leat_error *error)
{
    const uint8_t *p = s->text, *const end = p + s->text_size;
    while (p < end && *p) { /* some fill up with NUL */
        uint64_t length;
        const uint8_t *space = memchr(p, ' ', (size_t)(end - p)), *equals;
        if (!space || !read_decimal(p, (size_t)(space - p), &length) || length > (uint64_t)(end - p) ||
            length < (uint64_t)(space - p) + 3 || p[length - 1] != '\n' ||
            !(equals = memchr(space + 1, '=', (size_t)(p + length - space - 1))))
            return broken(s, s->text_header, error, "a pax header is damaged");
        const int rc = take_record(s, said, space + 1, (size_t)(equals - space - 1), equals + 1,
                                   (size_t)(p + length - 1 - equals - 1), error);
        if (rc)
            return rc;
        p += length;
    }
    return LEAT_OK;
}

static int take_text(struct leat_tar_scan *s, struct leat_error *error)
{
    const char type = s->type;
    s->type = 0;
    s->passes = (LEAT_TAR_BLOCK - s->text_size % LEAT_TAR_BLOCK) % LEAT_TAR_BLOCK;
    if (type == 'x' || type == 'g')
        return take_pax(s, type == 'g' ? &s->all : &s->next, error);
    const uint8_t *nul = memchr(s->text, 0, (size_t)s->text_size);
    if (type == 'K') /* the target of a link, which is no file */
        return LEAT_OK;
    return say_name(s, &s->next, s->text, nul ? (size_t)(nul - s->text) : (size_t)s->text_size, error);
}

/* ---- headers --------------------------------------------------------------------------------- */

/* The name, with the prefix that POSIX has for long ones, to s->name. */
static int name_of(struct leat_tar_scan *s, const char **name, size_t *length, struct leat_error *error)
{
    const uint8_t *b = s->block;
    const struct said *said = s->next.name ? &s->next : s->all.name ? &s->all : NULL;
    const size_t n = strnlen((const char *)b + NAME, NAME_BYTES);
    const size_t prefix = memcmp(b + MAGIC, "ustar\0", 6) ? 0 : strnlen((const char *)b + PREFIX, PREFIX_BYTES);
    if (said) {
        *name = said->name;
        *length = said->length;
        return LEAT_OK;
    }
    if (!leat_grow(&s->name, &s->name_room, n + prefix + 2, 1))
        return no_memory(s, error);
    *length = 0;
    if (prefix) {
        memcpy(s->name, b + PREFIX, prefix);
        s->name[prefix] = '/';
        *length = prefix + 1;
    }
    memcpy(s->name + *length, b + NAME, n);
    *length += n;
    s->name[*length] = 0;
    *name = s->name;
    return LEAT_OK;
}

static int begin_file(struct leat_tar_scan *s, uint64_t header, uint64_t size, struct leat_error *error)
{
    struct leat_tar_found found = {.size = size, .apart = s->ended, .header = header, .at = s->at};
    int rc = name_of(s, &found.name, &found.length, error);
    s->ended = false;
    if (rc)
        return rc;
    if (s->block[TYPE] == 0 && found.length && found.name[found.length - 1] == '/') { /* a folder, in old ones */
        s->due = s->at;
        return LEAT_OK;
    }
    if (s->sink->most && size > s->sink->most)
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, s->path, (int64_t)header,
                            "%s has a file of %" PRIu64 " bytes at byte %" PRIu64 ", and of compressed tars leat reads "
                            "none above %" PRIu64 ": decompress it",
                            s->path, size, header, s->sink->most);
    rc = s->sink->begin(s->sink->user, &found, &s->wanted, error);
    s->passes = (size - s->wanted) + (LEAT_TAR_BLOCK - size % LEAT_TAR_BLOCK) % LEAT_TAR_BLOCK;
    s->in_body = true;
    return rc;
}

/* Looks at a block in which a header is due; s->at is behind it. */
static int take_header(struct leat_tar_scan *s, struct leat_error *error)
{
    const uint8_t *b = s->block;
    const uint64_t header = s->at - LEAT_TAR_BLOCK;
    const char type = (char)b[TYPE];
    uint64_t size;
    bool zeros = true;
    for (size_t i = 0; i < LEAT_TAR_BLOCK && zeros; i++)
        zeros = !b[i];
    s->ended = s->ended || zeros;
    if (zeros)
        return LEAT_OK;
    if (!checksum_fits(b))
        return broken(s, header, error, "there is no header with a right checksum");
    if (!read_size(b + SIZE, &size))
        return broken(s, header, error, "a header says a size that is no number, or below 0");
    const bool text = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (!text && (s->next.has_size || s->all.has_size))
        size = s->next.has_size ? s->next.size : s->all.size;
    if (type >= '1' && type <= '6') /* links, devices, folders: nothing follows, whatever they say */
        size = 0;
    if (type == 'S')
        return leat_fail_at(error, LEAT_E_UNSUPPORTED, s->path, (int64_t)header,
                            "%s has a sparse file at byte %" PRIu64 ", whose bytes are not those of the file: pack it "
                            "again without --sparse",
                            s->path, header);
    if (size > LARGEST || (s->bytes != UINT64_MAX && size > s->bytes - s->at))
        return leat_fail_at(error, LEAT_E_CORRUPT, s->path, (int64_t)header,
                            "%s is damaged or cut: the header at byte %" PRIu64 " says %" PRIu64
                            " bytes, and the file ends before",
                            s->path, header, size);
    s->due = s->at + size;
    if (text && size > LEAT_TAR_TEXT)
        return broken(s, header, error, "a text about a file is too long");
    if (text) {
        s->type = type;
        s->text_size = size;
        s->text_taken = 0;
        s->text_header = header;
        if (!leat_grow(&s->text, &s->text_room, (size_t)size + 1, 1)) /* an empty one has a place, too */
            return no_memory(s, error);
        return size ? LEAT_OK : take_text(s, error);
    }
    int rc = LEAT_OK;
    if (type == '0' || type == 0 || type == '7')
        rc = begin_file(s, header, size, error);
    else
        s->passes = size + (LEAT_TAR_BLOCK - size % LEAT_TAR_BLOCK) % LEAT_TAR_BLOCK;
    if ((type == '1' || type == '2') && s->sink->link) {
        const char *name;
        size_t length;
        if (!(rc = name_of(s, &name, &length, error)))
            s->sink->link(s->sink->user, name);
    }
    leat_free(s->next.name);
    s->next = (struct said){0};
    return rc;
}

/* ---- the calls ------------------------------------------------------------------------------- */

int leat_tar_scan_begin(const char *path, uint64_t bytes, const struct leat_tar_sink *sink, struct leat_tar_scan **out,
                        struct leat_error *error)
{
    struct leat_tar_scan *s = *out = leat_new(struct leat_tar_scan);
    if (!s)
        return leat_fail(error, LEAT_E_NOMEM, "no memory to read %s", path);
    s->path = path;
    s->bytes = bytes;
    s->sink = sink;
    return LEAT_OK;
}

uint64_t leat_tar_scan_passes(const struct leat_tar_scan *s)
{
    return s->in_body || s->type || s->filled ? 0 : s->passes;
}

void leat_tar_scan_pass(struct leat_tar_scan *s, uint64_t n)
{
    s->passes -= n;
    s->at += n;
}

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* One step, over at least one byte, or to the end of a body. *taken: how many bytes. */
static int step(struct leat_tar_scan *s, const uint8_t *p, size_t n, size_t *taken, struct leat_error *error)
{
    int rc = LEAT_OK;
    *taken = 0;
    if (s->in_body) {
        *taken = least(s->wanted, n);
        rc = *taken ? s->sink->body(s->sink->user, p, *taken, error) : LEAT_OK;
        s->wanted -= *taken;
        if (!rc && !s->wanted) {
            s->in_body = false;
            rc = s->sink->end(s->sink->user, error);
        }
    } else if (s->type) {
        *taken = least(s->text_size - s->text_taken, n);
        memcpy(s->text + s->text_taken, p, *taken);
        s->text_taken += *taken;
        if (s->text_taken == s->text_size)
            rc = take_text(s, error);
    } else if (s->passes) {
        *taken = least(s->passes, n);
        s->passes -= *taken;
    } else {
        *taken = least(LEAT_TAR_BLOCK - s->filled, n);
        memcpy(s->block + s->filled, p, *taken);
        s->filled += *taken;
        if (s->filled == LEAT_TAR_BLOCK) {
            s->filled = 0;
            s->at += *taken;
            rc = take_header(s, error);
            s->at -= *taken;
        }
    }
    s->at += *taken;
    return rc;
}

int leat_tar_scan_push(struct leat_tar_scan *s, const uint8_t *p, size_t n, struct leat_error *error)
{
    int rc = LEAT_OK;
    while (!rc && (n || (s->in_body && !s->wanted))) {
        size_t taken;
        rc = step(s, p, n, &taken, error);
        p += taken;
        n -= taken;
    }
    return rc;
}

int leat_tar_scan_end(struct leat_tar_scan *s, bool whole, struct leat_error *error)
{
    int rc = LEAT_OK;
    bool zeros = true;
    if (!s)
        return rc;
    for (size_t i = 0; i < s->filled; i++)
        zeros = zeros && !s->block[i];
    const bool orphan = s->next.name || s->next.has_size; /* what a header that is not there should have */
    if (whole && (s->in_body || s->type || s->at < s->due || !zeros || orphan))
        rc = broken(s, s->at, error, "it ends in the middle of a file, or of a header: it was cut");
    else if (whole && s->passes) /* every writer fills up the last block, as every reader expects */
        rc = broken(s, s->at, error, "it ends within the padding of its last file: it was cut");
    leat_free(s->next.name);
    leat_free(s->all.name);
    leat_free(s->name);
    leat_free(s->text);
    leat_free(s);
    return rc;
}
