/*
 * The table of status codes and the functions that fill `struct leat_error`. One table holds name and text of a code,
 * so that a code cannot exist without either; the Python face maps the same codes to exceptions.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/unicode.h"

static const struct {
    int code;
    const char *name, *text;
} table[] = {
    {LEAT_OK, "LEAT_OK", "success"},
    {LEAT_E_NOMEM, "LEAT_E_NOMEM", "out of memory"},
    {LEAT_E_INVALID, "LEAT_E_INVALID", "invalid argument"},
    {LEAT_E_RANGE, "LEAT_E_RANGE", "out of range"},
    {LEAT_E_IO, "LEAT_E_IO", "input or output failed"},
    {LEAT_E_NOT_FOUND, "LEAT_E_NOT_FOUND", "not found"},
    {LEAT_E_EXISTS, "LEAT_E_EXISTS", "the target exists"},
    {LEAT_E_BUSY, "LEAT_E_BUSY", "another process writes this target"},
    {LEAT_E_FORMAT, "LEAT_E_FORMAT", "unknown format or version"},
    {LEAT_E_CORRUPT, "LEAT_E_CORRUPT", "corrupt data"},
    {LEAT_E_UNFINISHED, "LEAT_E_UNFINISHED", "the file was never finished"},
    {LEAT_E_CHANGED, "LEAT_E_CHANGED", "the source changed"},
    {LEAT_E_TYPE, "LEAT_E_TYPE", "the program does not fit the data"},
    {LEAT_E_DECODE, "LEAT_E_DECODE", "broken sample"},
    {LEAT_E_BUDGET, "LEAT_E_BUDGET", "the byte budget is too small"},
    {LEAT_E_HELD, "LEAT_E_HELD", "too many batches are held"},
    {LEAT_E_STATE, "LEAT_E_STATE", "the state does not fit"},
    {LEAT_E_FORKED, "LEAT_E_FORKED", "used in a forked process"},
    {LEAT_E_CLOSED, "LEAT_E_CLOSED", "closed"},
    {LEAT_E_CANCELLED, "LEAT_E_CANCELLED", "cancelled"},
    {LEAT_E_TIMEOUT, "LEAT_E_TIMEOUT", "timed out"},
    {LEAT_E_END, "LEAT_E_END", "end of the epoch"},
    {LEAT_E_UNSUPPORTED, "LEAT_E_UNSUPPORTED", "not supported here"},
    {LEAT_E_OPERATOR, "LEAT_E_OPERATOR", "a function of the user's failed on a sample"},
};

const char *leat_status_name(int code)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code)
            return table[i].name;
    return "LEAT_E_UNKNOWN";
}

const char *leat_status_text(int code)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code)
            return table[i].text;
    return "unknown status";
}

void leat_error_clear(struct leat_error *error)
{
    if (!error)
        return;
    error->code = 0;
    error->sys_errno = 0;
    error->sample = LEAT_NO_SAMPLE;
    error->offset = LEAT_NO_OFFSET;
    error->file[0] = error->field[0] = error->message[0] = 0;
}

/* Whether a character does something to a terminal, or to the order in which others are shown. */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

char *leat_escape(const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        uint32_t c;
        unsigned n = leat_unicode_read((const char *)p, 4, &c), bytes = n ? n : 1; /* the NUL ends it, too */
        bool escape = !n || is_control(c);
        if (used + (escape ? 4 * bytes : bytes) >= room)
            break;
        for (unsigned i = 0; i < bytes; i++, p++)
            if (escape)
                used += (size_t)snprintf(out + used, room - used, "\\x%02x", *p);
            else
                out[used++] = (char)*p;
    }
    if (room)
        out[used] = 0;
    return out;
}

/* The first name and password of an address in a text, "http://name:password@host/": where they begin, and how long
 * they are with the sign behind them; 0: there are none. */
static size_t find_login(const char *text, size_t *length)
{
    for (const char *p = text; (p = strstr(p, "://"));) {
        p += 3;
        const size_t host = strcspn(p, "/?# \t\n");
        const char *at = memrchr(p, '@', host);
        if (at) {
            *length = (size_t)(at + 1 - p);
            return (size_t)(p - text);
        }
    }
    *length = 0;
    return 0;
}

void leat_shorten(char *text, size_t room)
{
    const size_t n = strlen(text);
    if (n < room)
        return;
    size_t begin = room / 3, end = n - (room - 4 - begin);
    while (begin && ((unsigned char)text[begin] & 0xc0) == 0x80) /* no part of a character */
        begin--;
    while (((unsigned char)text[end] & 0xc0) == 0x80)
        end++;
    memcpy(text + begin, "...", 3);
    memmove(text + begin + 3, text + end, n - end + 1);
}

/* Leaves `left` bytes of the message free. */
static void fill(struct leat_error *error, int code, size_t left, const char *format, va_list args)
{
    /* The format's arguments may point into *error itself (wrapping a message), so it is written only afterwards. */
    char message[8 * sizeof error->message];
    vsnprintf(message, sizeof message, format, args);
    for (size_t login, at; at = find_login(message, &login), login;)
        memmove(message + at, message + at + login, strlen(message + at + login) + 1);
    leat_error_clear(error);
    error->code = code;
    char shown[sizeof message];
    leat_escape(message, shown, sizeof shown); /* it may quote names out of files */
    leat_shorten(shown, sizeof error->message - left);
    memcpy(error->message, shown, strlen(shown) + 1);
}

int leat_fail(struct leat_error *error, int code, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, code, 0, format, args);
        va_end(args);
    }
    return code;
}

int leat_fail_at(struct leat_error *error, int code, const char *file, int64_t offset, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, code, 0, format, args);
        va_end(args);
        leat_error_at_file(error, file, offset);
    }
    return code;
}

const char *leat_if_full(int sys_errno)
{
    if (sys_errno == ENOSPC || sys_errno == EDQUOT)
        return "; make room on the disk";
    return sys_errno == EFBIG
               ? "; raise the limit of the size of files (ulimit -f), or write to a file system that takes "
                 "larger ones"
               : "";
}

int leat_fail_errno(struct leat_error *error, int code, const char *format, ...)
{
    int saved = errno;
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, code, 128, format, args);
        va_end(args);
        size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, ": %s%s", strerrordesc_np(saved),
                 code == LEAT_E_NOMEM && saved == EAGAIN                     ? LEAT_MORE_THREADS
                 : code == LEAT_E_IO && !strstr(error->message, "make room") ? leat_if_full(saved)
                                                                             : "");
        error->sys_errno = saved;
    }
    return code;
}

void leat_error_at_file(struct leat_error *error, const char *file, int64_t offset)
{
    if (!error)
        return;
    if (file) {
        size_t login, at = find_login(file, &login), n = strlen(file), room = sizeof error->file - 1;
        if (n - login <= room)
            snprintf(error->file, sizeof error->file, "%.*s%s", (int)at, file, file + at + login);
        else
            snprintf(error->file, sizeof error->file, "...%s",
                     file + (n - room + 3 > at + login ? n - room + 3 : at + login));
    }
    if (offset != LEAT_NO_OFFSET)
        error->offset = offset;
}

void leat_error_at_sample(struct leat_error *error, int64_t sample, const char *field)
{
    if (!error)
        return;
    if (sample != LEAT_NO_SAMPLE)
        error->sample = sample;
    if (field)
        snprintf(error->field, sizeof error->field, "%s", field);
}
