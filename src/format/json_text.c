/* JSON in a file, and what is said of its faults: json_text.h. */
#include "format/json_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/json_pass.h"
#include "kernels/utf8.h"

enum { BUFFER = 1 << 20, LONGEST_TEXT = 1 << 28 };

const char *leat_json_fault_text(unsigned fault)
{
    static const char *const texts[LEAT_FAULT_COUNT] = {
        [LEAT_FAULT_NONE] = "nothing is wrong",
        [LEAT_FAULT_NO_OBJECT] = "a record is an object, {...}, and this is none",
        [LEAT_FAULT_VALUE] = "a character where a value should begin",
        [LEAT_FAULT_WORD] = "a word that is no value",
        [LEAT_FAULT_NUMBER] = "a number that is none",
        [LEAT_FAULT_RANGE] = "a number beyond 64 bits",
        [LEAT_FAULT_CONTROL] = "a control character in a text",
        [LEAT_FAULT_ESCAPE] = "an escape in a text that is none",
        [LEAT_FAULT_SURROGATE] = "half of a surrogate pair in a text",
        [LEAT_FAULT_UTF8] = "a text that is not UTF-8",
        [LEAT_FAULT_COMMA] = "a comma or the closing bracket is missing",
        [LEAT_FAULT_COLON] = "a colon is missing behind a key",
        [LEAT_FAULT_KEY] = "a key is missing",
        [LEAT_FAULT_END] = "it ends in the middle",
        [LEAT_FAULT_BEHIND] = "something stands behind its end",
        [LEAT_FAULT_DEPTH] = "objects and lists are nested too deep",
        [LEAT_FAULT_TWICE] = "a key stands twice in an object",
        [LEAT_FAULT_NAN] = "NaN or Infinity in a value that is kept as JSON",
        [LEAT_FAULT_LONG] = "the line is too long",
        [LEAT_FAULT_LONG_TEXT] = "a text of more than 256 MiB",
        [LEAT_FAULT_LONG_NUMBER] = "a number that is too long",
        [LEAT_FAULT_NEEDS_OBJECT] = "an object is needed",
        [LEAT_FAULT_NEEDS_LIST] = "a list is needed",
        [LEAT_FAULT_NEEDS_TEXT] = "a text is needed",
        [LEAT_FAULT_NEEDS_NUMBER] = "a number is needed",
        [LEAT_FAULT_NO_MEMORY] = "no memory to read it",
        [LEAT_FAULT_READ] = "it cannot be read",
    };
    return fault < LEAT_FAULT_COUNT ? texts[fault] : "it is broken";
}

bool leat_json_fail(struct leat_json *j, enum leat_json_fault fault, const uint8_t *at)
{
    if (!j->fault) {
        j->fault = fault;
        j->at = j->offset + (uint64_t)(at - j->begin);
        j->p = j->end; /* so that nothing is there any more */
    }
    return false;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Reads on, with what stands from `p` on kept in front. False: there is no more, or there is a fault. */
static bool more(struct leat_json *j)
{
    const size_t kept = (size_t)(j->end - j->p);
    const uint64_t next = j->offset + (uint64_t)(j->end - j->begin);
    if (!j->file || j->fault || next >= j->file->size)
        return false;
    if (kept >= LONGEST_TEXT)
        return leat_json_fail(j, LEAT_FAULT_LONG_TEXT, j->p);
    leat_json_line(j);
    const size_t from = (size_t)(j->p - j->begin);
    if (j->room < kept + BUFFER) {
        const size_t room = j->room ? 2 * j->room + BUFFER : BUFFER;
        uint8_t *larger = leat_realloc_array(j->buffer, room, 1);
        if (!larger)
            return leat_json_fail(j, LEAT_FAULT_NO_MEMORY, j->p);
        j->buffer = larger;
        j->room = room;
    }
    memmove(j->buffer, j->buffer + from, kept);
    j->offset = next - kept;
    j->begin = j->p = j->counted = j->buffer;
    j->end = j->buffer + kept;
    const uint64_t left = j->file->size - next;
    const size_t n = left < j->room - kept ? (size_t)left : j->room - kept;
    if ((j->code = leat_io_read(j->file, next, n, j->buffer + kept, j->error)))
        return leat_json_fail(j, LEAT_FAULT_READ, j->p);
    j->end += n;
    return true;
}

bool leat_json_is_cut(struct leat_json *j, const uint8_t **from, const uint8_t **p)
{
    const enum leat_json_fault fault = j->fault;
    if (!j->file || (!*p && j->at + LEAT_JSON_LONGEST_NUMBER < leat_json_offset(j)))
        return false;
    j->fault = LEAT_FAULT_NONE;
    j->p = *from;
    const bool cut = more(j);
    *from = j->p;
    if (j->fault)
        *p = NULL;
    else if (!cut && fault) {
        j->fault = fault;
        j->p = j->end;
    }
    return cut;
}

const uint8_t *leat_json_look_further(struct leat_json *j)
{
    j->p = j->end;
    while (j->p == j->end && more(j))
        j->p = pass_space(j->p, j->end);
    return j->p;
}

void leat_json_span(struct leat_json *j, const uint8_t *bytes, size_t n)
{
    *j = (struct leat_json){.begin = bytes, .p = bytes, .end = bytes + n, .deepest = LEAT_JSON_DEPTH};
}

void leat_json_begin(struct leat_json *j, struct leat_io_file *file, struct leat_error *error)
{
    leat_json_span(j, (const uint8_t *)"", 0);
    j->file = file;
    j->error = error;
    j->counted = j->p;
    if (more(j) && j->end - j->p >= 3 && !memcmp(j->p, "\xef\xbb\xbf", 3)) /* UTF-8's mark, of Windows' tools */
        j->p += 3;
}

uint64_t leat_json_line(struct leat_json *j)
{
    const uint8_t *const to = j->fault ? j->begin + (j->at - j->offset) : j->p;
    while (j->counted < to) {
        const uint8_t *found = memchr(j->counted, '\n', (size_t)(to - j->counted));
        j->lines += found != NULL;
        j->counted = found ? found + 1 : to;
    }
    return j->lines + 1;
}

uint64_t leat_json_offset(const struct leat_json *j)
{
    return j->offset + (uint64_t)(j->p - j->begin);
}

void leat_json_stop(struct leat_json *j)
{
    leat_free(j->buffer);
    leat_free(j->text);
    j->buffer = NULL;
    j->text = NULL;
    j->begin = j->p = j->end = j->counted = NULL;
    j->room = 0;
}

int leat_json_end(struct leat_json *j)
{
    int rc = LEAT_OK;
    if (!leat_json_done(j, j->p) && j->fault == LEAT_FAULT_READ) {
        rc = j->code;
    } else if (j->fault) {
        rc = j->fault == LEAT_FAULT_NO_MEMORY ? LEAT_E_NOMEM : LEAT_E_CORRUPT;
        leat_fail(j->error, rc, "%s is no JSON text in line %" PRIu64 ": %s", j->file->path, leat_json_line(j),
                  leat_json_fault_text(j->fault));
        leat_error_at_file(j->error, j->file->path, (int64_t)j->at);
    }
    leat_json_stop(j);
    return rc;
}

/* ---- strings --------------------------------------------------------------------------------- */

size_t leat_utf8_check(const void *text, size_t length)
{
    const uint8_t *p = text, *const end = p + length;
    if (leat_utf8_is_valid(p, length))
        return length;
    for (size_t n; p < end && (n = *p < 0x80 ? 1 : utf8_bytes(p, end));)
        p += n;
    return (size_t)(p - (const uint8_t *)text);
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 63));
    to[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

size_t leat_json_unescape(const uint8_t *text, size_t length, char *to)
{
    const uint8_t *p = text, *const end = text + length;
    enum leat_json_fault what;
    uint32_t code;
    size_t used = 0, n;
    while (p < end) {
        const uint8_t *next = memchr(p, '\\', (size_t)(end - p));
        next = next ? next : end;
        memcpy(to + used, p, (size_t)(next - p));
        used += (size_t)(next - p);
        p = next;
        if (p == end || !(n = escape(p, end, &code, &what)))
            break;
        used += put_utf8(to + used, code);
        p += n;
    }
    return used;
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* Goes on at p; NULL: there is a fault. */
static bool go_on(struct leat_json *j, const uint8_t *p)
{
    j->p = p ? p : j->p;
    return p;
}

char leat_json_peek(struct leat_json *j)
{
    const uint8_t *const p = j->p = look(j, j->p);
    if (p == j->end)
        return leat_json_fail(j, LEAT_FAULT_END, p);
    if ((*p >= '0' && *p <= '9') || *p == '-' || *p == 'N' || *p == 'I')
        return '0';
    const bool begins = *p == '{' || *p == '[' || *p == '"' || *p == 'n' || *p == 't' || *p == 'f';
    return begins ? (char)*p : leat_json_fail(j, LEAT_FAULT_VALUE, p);
}

const char *leat_json_kind(char kind)
{
    switch (kind) {
    case '{':
        return "an object";
    case '[':
        return "a list";
    case '"':
        return "a text";
    case '0':
        return "a number";
    default:
        return kind == 'n' ? "null" : kind == 't' ? "true" : "false";
    }
}

bool leat_json_enter(struct leat_json *j, char bracket)
{
    return leat_json_peek(j) == bracket
               ? go_on(j, leat_json_pass_open(j, j->p))
               : leat_json_fail(j, bracket == '{' ? LEAT_FAULT_NEEDS_OBJECT : LEAT_FAULT_NEEDS_LIST, j->p);
}

bool leat_json_item(struct leat_json *j)
{
    bool left;
    return go_on(j, leat_json_pass_item(j, j->p, &left)) && !left;
}

/* Keeps a string in `text`, NUL-terminated, and goes on behind it. */
static bool keep_text(struct leat_json *j, const struct leat_json_value *v, const uint8_t *behind, size_t *length)
{
    if (!leat_grow(&j->text, &j->text_room, v->length + 1, 1))
        return leat_json_fail(j, LEAT_FAULT_NO_MEMORY, j->p);
    *length = leat_json_unescape(v->text, v->length, j->text);
    j->text[*length] = 0;
    return go_on(j, behind);
}

bool leat_json_key(struct leat_json *j, char *key, size_t room)
{
    struct leat_json_value v;
    size_t length;
    bool left;
    const uint8_t *const p = leat_json_pass_member(j, j->p, &v, &left);
    if (!p || left)
        return go_on(j, p) && !left;
    if (!keep_text(j, &v, p, &length))
        return false;
    length = length < room ? length : room - 1;
    memcpy(key, j->text, length);
    key[length] = 0;
    return true;
}

const char *leat_json_string(struct leat_json *j, size_t *length)
{
    struct leat_json_value v;
    size_t n;
    if (leat_json_peek(j) != '"') {
        leat_json_fail(j, LEAT_FAULT_NEEDS_TEXT, j->p);
        return NULL;
    }
    const uint8_t *const p = leat_json_pass_scalar(j, j->p, &v);
    return p && keep_text(j, &v, p, length ? length : &n) ? j->text : NULL;
}

bool leat_json_text(struct leat_json *j, char **out)
{
    leat_free(*out);
    *out = NULL;
    if (leat_json_peek(j) == 'n')
        return leat_json_skip(j);
    const char *text = leat_json_string(j, NULL);
    return text && ((*out = leat_strdup(text)) || leat_json_fail(j, LEAT_FAULT_NO_MEMORY, j->p));
}

bool leat_json_read_number(struct leat_json *j, double *number, bool *is_whole, int64_t *whole)
{
    struct leat_json_value v;
    if (leat_json_peek(j) != '0')
        return leat_json_fail(j, LEAT_FAULT_NEEDS_NUMBER, j->p);
    if (!go_on(j, leat_json_pass_scalar(j, j->p, &v)))
        return false;
    *number = v.rounded;
    if (is_whole && (*is_whole = v.type == LEAT_JSON_INT))
        *whole = v.number.i;
    return true;
}

bool leat_json_skip(struct leat_json *j)
{
    return go_on(j, leat_json_pass(j, j->p));
}
