/* Names that are the same: names.h. They are found by the hash of the name that all of them have in common. */
#include "format/names.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/unicode.h"

struct leat_name {
    uint64_t hash; /* of the common name */
    size_t at;     /* in the text */
    uint32_t next; /* 1 + the next one in its place of the table */
};

enum { COMMON = LEAT_NAME_BYTES * LEAT_UNICODE_GROWTH };

void leat_name_clean(const char *name, char *out)
{
    size_t n = 0;
    for (const char *p = name; *p;) {
        const size_t part = strcspn(p, "/");
        const bool counts = part > 1 || (part && *p != '.'), ends = !p[part], root = !part && p == name;
        memmove(out + n, p, counts ? part : 0);
        n += counts ? part : 0;
        p += part + !ends;
        if (!ends && (counts || root))
            out[n++] = '/';
    }
    out[n] = 0;
}

bool leat_name_ends_in(const char *name, const char *extension)
{
    const size_t n = strlen(name), m = strlen(extension);
    return n > m && name[0] != '.' && strcasecmp(name + n - m, extension) == 0;
}

size_t leat_name_stem(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

bool leat_name_with(const char *name, const char *extension, char *out)
{
    const int n = snprintf(out, LEAT_NAME_BYTES, "%.*s%s", (int)leat_name_stem(name), name, extension);
    return n >= 0 && n < LEAT_NAME_BYTES;
}

static void lower_extension(char *name)
{
    for (char *p = name + leat_name_stem(name); *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + ('a' - 'A') : *p);
}

/* Clean, with its extension in small letters. */
static bool plain(const char *name, char *out)
{
    if (strlen(name) >= LEAT_NAME_BYTES)
        return false;
    leat_name_clean(name, out);
    lower_extension(out);
    return true;
}

/* Letters in small ones: Latin, Greek and Cyrillic, whose marks stand apart once they are decomposed. Each keeps its
 * bytes: of Greek and Cyrillic two, whose first is 0xce or 0xcf, 0xd0 or 0xd1. */
static void lower(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)text[i], next = i + 1 < n ? (uint8_t)text[i + 1] : 0;
        const bool greek = c == 0xce && next >= 0x91 && next <= 0xa9,
                   cyrillic = c == 0xd0 && next >= 0x80 && next <= 0xaf;
        if (c >= 'A' && c <= 'Z')
            text[i] = (char)(c + ('a' - 'A'));
        if (!greek && !cyrillic)
            continue;
        text[i] = (char)(c + (next < 0x90 || next >= 0xa0));
        text[++i] = (char)(next < 0x90 ? next + 0x10 : next < 0xa0 ? next + 0x20 : next - 0x20);
    }
}

/* The form that a name shares with those in other forms of Unicode, and in another case unless `cased`. */
static size_t common(const char *name, bool cased, char *out)
{
    size_t n = 0;
    while (name[n] && (unsigned char)name[n] < 0x80)
        n++;
    if (name[n])
        n = leat_unicode_decompose(name, n + strlen(name + n), out);
    else
        memcpy(out, name, n);
    if (!cased)
        lower(out, n);
    return n;
}

static uint64_t hash_of(const char *plain_name)
{
    char out[COMMON];
    return leat_hash64(out, common(plain_name, false, out));
}

/* Whether two names that are short enough differ at most in their form of Unicode, and in case unless `cased`. */
static bool is_like(const char *a, const char *b, bool cased)
{
    char one[COMMON], other[COMMON];
    const size_t n = common(a, cased, one);
    return common(b, cased, other) == n && !memcmp(one, other, n);
}

static bool has_others(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            return true;
    return false;
}

bool leat_name_is_form_of(const char *a, const char *b)
{
    return has_others(a) && strcmp(a, b) != 0 && strlen(a) < LEAT_NAME_BYTES && strlen(b) < LEAT_NAME_BYTES &&
           is_like(a, b, true);
}

/* ---- the set --------------------------------------------------------------------------------- */

static void link_name(struct leat_names *s, size_t i)
{
    uint32_t *head = &s->table[s->all[i].hash & s->mask];
    s->all[i].next = *head;
    *head = (uint32_t)i + 1;
}

static bool make_table(struct leat_names *s)
{
    const size_t room = s->table ? (s->mask + 1) * 2 : 64;
    uint32_t *table = leat_new_array(room, sizeof *table);
    if (!table)
        return false;
    leat_free(s->table);
    s->table = table;
    s->mask = room - 1;
    for (size_t i = 0; i < s->n; i++)
        link_name(s, i);
    return true;
}

bool leat_names_add(struct leat_names *s, const char *name)
{
    char out[LEAT_NAME_BYTES];
    const size_t bytes = strlen(name) + 1;
    if (s->n >= UINT32_MAX - 1 || ((!s->table || s->n > s->mask / 2) && !make_table(s)) ||
        !leat_grow(&s->all, &s->room, s->n + 1, sizeof *s->all) ||
        !leat_grow(&s->text, &s->text_room, s->text_n + bytes, 1))
        return false;
    memcpy(s->text + s->text_n, name, bytes);
    s->all[s->n] = (struct leat_name){.hash = plain(name, out) ? hash_of(out) : 0, .at = s->text_n};
    s->text_n += bytes;
    link_name(s, s->n++);
    return true;
}

bool leat_names_add_listing(struct leat_names *s, const struct leat_listing *l)
{
    for (size_t i = 0; i < l->n_files; i++)
        if (!leat_names_add(s, l->names + l->files[i].name))
            return false;
    return true;
}

void leat_names_destroy(struct leat_names *s)
{
    leat_free(s->text);
    leat_free(s->all);
    leat_free(s->table);
    *s = (struct leat_names){0};
}

const char *leat_names_at(const struct leat_names *s, size_t number)
{
    return s->text + s->all[number].at;
}

enum leat_names_found leat_names_find(const struct leat_names *s, const char *name, size_t *number)
{
    char clean[LEAT_NAME_BYTES], wanted[LEAT_NAME_BYTES], there[LEAT_NAME_BYTES];
    enum leat_names_found found = LEAT_NAMES_NONE;
    const size_t length = strlen(name);
    if (!s->table || length >= LEAT_NAME_BYTES)
        return LEAT_NAMES_NONE;
    leat_name_clean(name, clean);
    memcpy(wanted, clean, strlen(clean) + 1);
    lower_extension(wanted);
    const uint64_t hash = hash_of(wanted);
    const char *best = NULL;
    for (uint32_t i = s->table[hash & s->mask]; i; i = s->all[i - 1].next) {
        const char *text = leat_names_at(s, i - 1);
        if (s->all[i - 1].hash != hash)
            continue;
        const bool exact = !strcmp(text, clean);
        if (!exact && !plain(text, there))
            continue;
        const bool same = exact || !strcmp(there, wanted);
        if (!same && found == LEAT_NAMES_FOUND)
            continue;
        if (!same && !is_like(wanted, there, false))
            continue;
        const bool better = !best || exact || (same && found == LEAT_NAMES_OTHER_FORM) || strcmp(text, best) < 0;
        if (!better)
            continue;
        best = text;
        *number = i - 1;
        found = same ? LEAT_NAMES_FOUND : LEAT_NAMES_OTHER_FORM;
        if (exact)
            break;
    }
    return found;
}

bool leat_names_find_form(const struct leat_names *s, const char *name, size_t *number)
{
    char out[LEAT_NAME_BYTES];
    const uint64_t hash = plain(name, out) ? hash_of(out) : 0;
    for (uint32_t i = s->table ? s->table[hash & s->mask] : 0; i; i = s->all[i - 1].next)
        if (leat_name_is_form_of(name, leat_names_at(s, *number = i - 1)))
            return true;
    return false;
}

static void use_slashes(char *name)
{
    for (; *name; name++)
        *name = *name == '\\' ? '/' : *name;
}

enum leat_names_found leat_names_find_slashed(const struct leat_names *s, const char *name, size_t *number)
{
    char slashed[LEAT_NAME_BYTES];
    if (snprintf(slashed, sizeof slashed, "%s", name) >= (int)sizeof slashed)
        return LEAT_NAMES_NONE;
    use_slashes(slashed);
    return leat_names_find(s, slashed, number);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The name from a byte on, with its other characters in escapes. False: its end does not fit. */
static bool escape(const char *name, size_t from, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "%s", from ? "..." : ""), left = strlen(name + from);
    for (const char *p = name + from; left && used + 14 < room;) {
        uint32_t c;
        const unsigned n = leat_unicode_read(p, left, &c), bytes = n ? n : 1;
        if (n == 1)
            used += (size_t)snprintf(out + used, room - used, "%c", *p);
        else
            used += (size_t)snprintf(out + used, room - used, n ? c > 0xffff ? "\\U%08x" : "\\u%04x" : "\\x%02x",
                                     n ? c : (unsigned char)*p);
        p += bytes;
        left -= bytes;
    }
    if (left)
        snprintf(out + used, room - used, "...");
    return !left;
}

/* Two long names are shown from here on: a little before they differ. */
static size_t before_difference(const char *a, const char *b)
{
    enum { SHOWN = 24 };
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    n = n > SHOWN ? n - SHOWN : 0;
    while (n && ((unsigned char)a[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* Whether two names that are one in other forms or cases are so in the same case. */
static bool is_of_same_case(const char *a, const char *b)
{
    char one[LEAT_NAME_BYTES], other[LEAT_NAME_BYTES];
    if (!leat_name_with(a, "", one) || !leat_name_with(b, "", other))
        return false;
    use_slashes(one);
    use_slashes(other);
    leat_name_clean(one, one);
    leat_name_clean(other, other);
    return is_like(one, other, true);
}

const char *leat_names_say_forms(const char *a, const char *b, bool taken, char *out, size_t room)
{
    char first[400], second[400];
    const bool first_fits = escape(a, 0, first, sizeof first), second_fits = escape(b, 0, second, sizeof second);
    if (!first_fits || !second_fits) {
        const size_t from = before_difference(a, b);
        escape(a, from, first, sizeof first / 2);
        escape(b, from, second, sizeof second / 2);
    }
    snprintf(out, room, "; \"%s\" and \"%s\" %s%s", first, second,
             is_of_same_case(a, b) ? "are one name in two forms of Unicode (NFC and NFD)"
                                   : "differ only in the case of letters",
             taken ? ", and the second goes with another" : ": rename one of them");
    return out;
}

static const char white[] = " \t\r\n\v\f";

void leat_trim(char *text)
{
    const char *begin = text + strspn(text, white);
    size_t n = strlen(begin);
    while (n && strchr(white, begin[n - 1]))
        n--;
    memmove(text, begin, n);
    text[n] = 0;
}

bool leat_is_blank(const char *text)
{
    return !text[strspn(text, white)];
}
