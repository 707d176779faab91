/* The directories of a TIFF. Every offset comes from outside. */
#include "codec/photo/tiff.h"

enum { BYTE = 1, SHORT = 3, LONG = 4, SBYTE = 6, UNDEFINED = 7, SSHORT = 8, SLONG = 9, LONG8 = 16, SLONG8, IFD8 };

static unsigned unit_of(unsigned type)
{
    switch (type) {
    case BYTE:
    case SBYTE:
    case UNDEFINED:
        return 1;
    case SHORT:
    case SSHORT:
        return 2;
    case LONG:
    case SLONG:
        return 4;
    case LONG8:
    case SLONG8:
    case IFD8:
        return 8;
    default:
        return 0;
    }
}

static uint64_t number(const struct leat_tiff *t, const uint8_t *p, unsigned bytes)
{
    if (bytes <= 4)
        return leat_bytes_number(p, bytes, t->big_endian);
    uint64_t first = leat_bytes_number(p, 4, t->big_endian), second = leat_bytes_number(p + 4, 4, t->big_endian);
    return t->big_endian ? first << 32 | second : second << 32 | first;
}

bool leat_tiff_begin(struct leat_bytes file, struct leat_tiff *t)
{
    *t = (struct leat_tiff){.file = file};
    t->big = LEAT_BYTES_START(file, "II+\0") || LEAT_BYTES_START(file, "MM\0+");
    t->big_endian = LEAT_BYTES_START(file, "MM\0");
    if (!t->big && !LEAT_BYTES_START(file, "II*\0") && !LEAT_BYTES_START(file, "MM\0*"))
        return false;
    struct leat_bytes offset = t->big ? leat_bytes_part(file, 8, 8) : leat_bytes_part(file, 4, 4);
    t->first = offset.p ? number(t, offset.p, t->big ? 8 : 4) : 0;
    return true;
}

bool leat_tiff_directory(const struct leat_tiff *t, uint64_t at, struct leat_tiff_directory *d)
{
    const unsigned head = t->big ? 8 : 2, entry = t->big ? 20 : 12, link = t->big ? 8 : 4;
    struct leat_bytes count = leat_bytes_part(t->file, at, head);
    *d = (struct leat_tiff_directory){0};
    if (!at || !count.p)
        return false;
    d->at = at + head;
    const uint64_t room = (t->file.n - d->at) / entry, n = number(t, count.p, head);
    d->n = n < room ? n : room;
    struct leat_bytes next = leat_bytes_part(t->file, d->at + d->n * entry, link);
    d->next = n <= room && next.p ? number(t, next.p, link) : 0;
    return true;
}

bool leat_tiff_find(const struct leat_tiff *t, const struct leat_tiff_directory *d, unsigned tag,
                    struct leat_tiff_entry *e)
{
    const unsigned bytes = t->big ? 20 : 12, inside = t->big ? 8 : 4;
    for (uint64_t i = 0; i < d->n; i++) {
        const uint8_t *p = t->file.p + d->at + i * bytes;
        if (number(t, p, 2) != tag)
            continue;
        e->type = (unsigned)number(t, p + 2, 2);
        e->unit = unit_of(e->type);
        e->count = number(t, p + 4, inside);
        if (!e->unit || !e->count || e->count > t->file.n / e->unit)
            return false;
        e->values = p + 4 + inside;
        if (e->count * e->unit > inside)
            e->values = leat_bytes_part(t->file, number(t, e->values, inside), e->count * e->unit).p;
        return e->values;
    }
    return false;
}

uint64_t leat_tiff_value(const struct leat_tiff *t, const struct leat_tiff_entry *e, uint64_t i)
{
    return number(t, e->values + i * e->unit, e->unit);
}

uint64_t leat_tiff_number(const struct leat_tiff *t, const struct leat_tiff_directory *d, unsigned tag,
                          uint64_t otherwise)
{
    struct leat_tiff_entry e;
    return leat_tiff_find(t, d, tag, &e) ? leat_tiff_value(t, &e, 0) : otherwise;
}

unsigned leat_tiff_orientation(struct leat_bytes file)
{
    struct leat_tiff t;
    struct leat_tiff_directory d;
    struct leat_tiff_entry e;
    if (!leat_tiff_begin(file, &t) || !leat_tiff_directory(&t, t.first, &d) || !leat_tiff_find(&t, &d, 0x0112, &e) ||
        (e.type != SHORT && e.type != LONG))
        return 1;
    uint64_t value = leat_tiff_value(&t, &e, 0);
    return value >= 1 && value <= 8 ? (unsigned)value : 1;
}
