/*
 * A buffer over the file, and tokens in it. A token that the buffer cuts is read again once more bytes are there:
 *
 *     | read before |  token that is cut |        ->       | token, and what follows |
 *      0             at                  n                  0
 */
#include "format/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"

enum { BUFFER = 1 << 20, LONGEST_TOKEN = 1 << 28, LONGEST_NUMBER = 1024 };

static bool fail(struct leat_json *j, int code, const char *fault)
{
    if (!j->fault) {
        j->fault = fault;
        j->code = code;
    }
    return false;
}

static bool corrupt(struct leat_json *j, const char *fault)
{
    return fail(j, LEAT_E_CORRUPT, fault);
}

uint64_t leat_json_line(struct leat_json *j)
{
    while (j->counted < j->at) {
        const uint8_t *p = memchr(j->buffer + j->counted, '\n', j->at - j->counted);
        j->lines += p != NULL;
        j->counted = p ? (size_t)(p - j->buffer) + 1 : j->at;
    }
    return j->lines + 1;
}

/* Reads on, with what stands from `at` on kept in front. False: the file has no more, or there is a fault. */
static bool more(struct leat_json *j)
{
    uint64_t next = j->offset + j->n;
    if (j->fault || next >= j->file->size)
        return false;
    if (j->at) {
        leat_json_line(j);
        j->counted = 0;
        j->n -= j->at;
        memmove(j->buffer, j->buffer + j->at, j->n);
        j->offset += j->at;
        j->at = 0;
    }
    if (j->n >= LONGEST_TOKEN)
        return corrupt(j, "a text of more than 256 MiB");
    if (j->room < j->n + BUFFER) {
        uint8_t *larger = leat_realloc_array(j->buffer, j->room ? 2 * j->room + BUFFER : BUFFER, 1);
        if (!larger)
            return fail(j, LEAT_E_NOMEM, "no memory to read it");
        j->buffer = larger;
        j->room = j->room ? 2 * j->room + BUFFER : BUFFER;
    }
    uint64_t left = j->file->size - next, n = left < j->room - j->n ? left : j->room - j->n;
    int rc = leat_io_read(j->file, next, n, j->buffer + j->n, j->error);
    if (rc)
        return fail(j, rc, "it cannot be read");
    j->n += (size_t)n;
    return true;
}

/* The next character that is no white space, without taking it; 0: the end, or a fault. */
static uint8_t look(struct leat_json *j)
{
    for (;;) {
        for (; j->at < j->n; j->at++) {
            uint8_t c = j->buffer[j->at];
            if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
                return j->fault ? 0 : c ? c : 1; /* a NUL begins nothing, as 1 does */
        }
        if (!more(j))
            return 0;
    }
}

void leat_json_begin(struct leat_json *j, struct leat_io_file *file, struct leat_error *error)
{
    *j = (struct leat_json){.file = file, .error = error};
    if (more(j) && j->n >= 3 && !memcmp(j->buffer, "\xef\xbb\xbf", 3)) /* UTF-8's mark, of Windows' tools */
        j->at = 3;
}

uint64_t leat_json_offset(const struct leat_json *j)
{
    return j->offset + j->at;
}

void leat_json_stop(struct leat_json *j)
{
    leat_free(j->buffer);
    leat_free(j->text);
    j->buffer = NULL;
    j->text = NULL;
    j->n = j->at = j->room = 0;
}

int leat_json_end(struct leat_json *j)
{
    if (!j->fault && look(j))
        corrupt(j, "something behind its end");
    if (j->fault && (j->code == LEAT_E_CORRUPT || j->code == LEAT_E_NOMEM)) {
        leat_fail(j->error, j->code, "%s is no JSON text in line %" PRIu64 ": %s", j->file->path, leat_json_line(j),
                  j->fault);
        leat_error_at_file(j->error, j->file->path, (int64_t)leat_json_offset(j));
    }
    leat_json_stop(j);
    return j->fault ? j->code : LEAT_OK;
}

char leat_json_peek(struct leat_json *j)
{
    uint8_t c = look(j);
    if (c == '{' || c == '[' || c == '"' || c == 'n' || c == 't' || c == 'f')
        return (char)c;
    if (c == '-' || (c >= '0' && c <= '9') || c == 'N' || c == 'I')
        return '0';
    corrupt(j, c ? "a character where a value should begin" : "it ends in the middle");
    return 0;
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
    if (leat_json_peek(j) != bracket)
        return corrupt(j, bracket == '{' ? "an object is needed" : "a list is needed");
    if (j->depth == LEAT_JSON_DEPTH)
        return corrupt(j, "objects and lists are nested too deep");
    j->open[j->depth++] = bracket;
    j->first = true;
    j->at++;
    return true;
}

/* Goes to the next member of the innermost object or list, or leaves it. */
static bool next(struct leat_json *j, char bracket)
{
    uint8_t c = look(j), close = bracket == '{' ? '}' : ']';
    if (j->fault || !j->depth || j->open[j->depth - 1] != bracket)
        return corrupt(j, "it was not read in order");
    if (c == close) {
        j->at++;
        j->depth--;
        j->first = false;
        return false;
    }
    if (!j->first) {
        if (c != ',')
            return corrupt(j, c ? "a comma or the closing bracket is missing" : "it ends in the middle");
        j->at++;
    }
    j->first = false;
    return true;
}

bool leat_json_item(struct leat_json *j)
{
    return next(j, '[') && leat_json_peek(j);
}

bool leat_json_key(struct leat_json *j, char *key, size_t room)
{
    size_t length;
    if (!next(j, '{'))
        return false;
    const char *text = leat_json_string(j, &length);
    if (!text)
        return false;
    if (look(j) != ':')
        return corrupt(j, "a colon is missing behind a key");
    j->at++;
    length = length < room ? length : room - 1;
    memcpy(key, text, length);
    key[length] = 0;
    return true;
}

/* ---- strings --------------------------------------------------------------------------------- */

static int hex4(const uint8_t *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 63));
        to[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Decodes an escape that begins at p, with `left` bytes up to the closing quote. Returns how many it takes, 0: it is
 * none. */
static size_t unescape(const uint8_t *p, size_t left, char *to, size_t *used)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (left < 2)
        return 0;
    if (p[1] != 'u') {
        const char *found = p[1] ? strchr(from, p[1]) : NULL;
        if (!found)
            return 0;
        to[(*used)++] = into[found - from];
        return 2;
    }
    int high = left >= 6 ? hex4(p + 2) : -1;
    if (high <= 0 || (high >= 0xdc00 && high < 0xe000))
        return 0;
    if (high < 0xd800 || high >= 0xe000) {
        *used += put_utf8(to + *used, (uint32_t)high);
        return 6;
    }
    int low = left >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (low < 0xdc00 || low >= 0xe000)
        return 0;
    *used += put_utf8(to + *used, 0x10000 + (uint32_t)((high - 0xd800) << 10 | (low - 0xdc00)));
    return 12;
}

/* How many bytes the character at p has, that is not ASCII; 0: it is not UTF-8. */
static size_t utf8_length(const uint8_t *p, size_t left)
{
    size_t n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    if (!n || n > left || (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf0 && p[1] < 0x90) ||
        (*p == 0xf4 && p[1] >= 0x90))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* The number of bytes of the string's text, whose opening quote is at `at`; SIZE_MAX: a fault. */
static size_t find_quote(struct leat_json *j)
{
    size_t i = 1; /* behind the opening quote, from `at`, which may move */
    for (;;) {
        for (; j->at + i < j->n; i++) {
            uint8_t c = j->buffer[j->at + i];
            if (c == '"')
                return i - 1;
            if (c < ' ') {
                corrupt(j, "a control character in a text");
                return SIZE_MAX;
            }
            i += c == '\\';
        }
        if (!more(j)) {
            corrupt(j, "a text that has no end");
            return SIZE_MAX;
        }
    }
}

const char *leat_json_string(struct leat_json *j, size_t *length)
{
    if (look(j) != '"') {
        corrupt(j, "a text is needed");
        return NULL;
    }
    size_t n = find_quote(j), used = 0;
    if (n == SIZE_MAX)
        return NULL;
    if (!leat_grow(&j->text, &j->text_room, n + 1, 1)) {
        fail(j, LEAT_E_NOMEM, "no memory for a text");
        return NULL;
    }
    const uint8_t *p = j->buffer + j->at + 1;
    for (size_t i = 0, step; i < n; i += step) {
        step = 1;
        if (p[i] == '\\') {
            if (!(step = unescape(p + i, n - i, j->text, &used))) {
                corrupt(j, "an escape in a text that is none");
                return NULL;
            }
        } else if (p[i] < 0x80) {
            j->text[used++] = (char)p[i];
        } else {
            if (!(step = utf8_length(p + i, n - i))) {
                corrupt(j, "a text that is not UTF-8");
                return NULL;
            }
            memcpy(j->text + used, p + i, step);
            used += step;
        }
    }
    j->text[used] = 0;
    j->at += n + 2;
    if (length)
        *length = used;
    return j->text;
}

/* ---- numbers and the rest -------------------------------------------------------------------- */

/* Takes a word such as "null", and the delimiter behind it stays. */
static bool take_word(struct leat_json *j, const char *word)
{
    size_t n = strlen(word);
    while (j->n - j->at < n && more(j))
        ;
    if (j->n - j->at < n || memcmp(j->buffer + j->at, word, n) != 0)
        return corrupt(j, "a word that is no value");
    j->at += n;
    return true;
}

bool leat_json_number(struct leat_json *j, double *number, bool *is_whole, int64_t *whole)
{
    struct leat_number found;
    if (leat_json_peek(j) != '0')
        return corrupt(j, "a number is needed");
    while (j->n - j->at < LONGEST_NUMBER && more(j)) /* it then stands in the buffer, with what ends it */
        ;
    if (j->fault)
        return false;
    const char *p = (const char *)j->buffer + j->at;
    uint8_t sign = *p == '-', c = j->n - j->at > sign ? (uint8_t)p[sign] : 0;
    if (is_whole)
        *is_whole = false;
    if (c == 'N' || c == 'I') {
        if (c == 'N' && sign)
            return corrupt(j, "a word that is no value");
        *number = c == 'N' ? (double)NAN : sign ? -(double)INFINITY : (double)INFINITY;
        j->at += sign;
        return take_word(j, c == 'N' ? "NaN" : "Infinity");
    }
    size_t n = leat_number_read(p, j->n - j->at, LEAT_NUMBER_JSON, &found);
    if (!n || n >= LONGEST_NUMBER)
        return corrupt(j, n ? "a number that is too long" : "a number that is none");
    *number = found.value;
    if (is_whole) {
        *is_whole = found.is_whole;
        *whole = found.whole;
    }
    j->at += n;
    return true;
}

bool leat_json_skip(struct leat_json *j)
{
    unsigned depth = j->depth;
    double number;
    char key[1];
    do {
        if (j->depth > depth) {
            if (!(j->open[j->depth - 1] == '{' ? leat_json_key(j, key, sizeof key) : leat_json_item(j)))
                continue; /* it was left */
        }
        char c = leat_json_peek(j);
        if (c == '{' || c == '[')
            leat_json_enter(j, c);
        else if (c == '"')
            leat_json_string(j, NULL);
        else if (c == '0')
            leat_json_number(j, &number, NULL, NULL);
        else if (c)
            take_word(j, c == 'n' ? "null" : c == 't' ? "true" : "false");
    } while (j->depth > depth && !j->fault);
    return !j->fault;
}
