/*
 * JSON that is too long for a tree in memory, read from its file piece by piece: the caller walks through it and takes
 * what it wants. Half a gigabyte of annotations takes seconds and a megabyte.
 *
 *     if (leat_json_enter(j, '{'))
 *         while (leat_json_key(j, key, sizeof key))       the next key, until the closing brace
 *             if (!strcmp(key, "images") && leat_json_enter(j, '['))
 *                 while (leat_json_item(j)) ...           before each element, until the closing bracket
 *             else
 *                 leat_json_skip(j);                      every value is taken or skipped
 *
 * The first fault stays: `fault` says what it is, and everything then returns false. NaN, Infinity and -Infinity are
 * numbers, because Python writes them. One thread.
 */
#ifndef LEAT_FORMAT_JSON_TEXT_H
#define LEAT_FORMAT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

#define LEAT_JSON_DEPTH 64

struct leat_json {
    struct leat_io_file *file;
    uint8_t *buffer;
    size_t room, n, at;         /* of the buffer: bytes, those that are read, the next one */
    uint64_t offset;            /* of the buffer's first byte in the file */
    uint64_t lines;             /* that end before ... */
    size_t counted;             /* ... this byte of the buffer */
    unsigned depth;             /* of `open` */
    char open[LEAT_JSON_DEPTH]; /* '{' or '[' */
    bool first;                 /* nothing was read yet behind the last bracket that opened */
    const char *fault;          /* NULL: none */
    int code;                   /* of it: LEAT_E_CORRUPT, LEAT_E_NOMEM, or what reading returned */
    struct leat_error *error;   /* filled by reading */
    char *text;                 /* of the last string */
    size_t text_room;
};

/* `file` is borrowed. CORRUPT, NOMEM, IO are found by the calls below; leat_json_end says which. */
void leat_json_begin(struct leat_json *json, struct leat_io_file *file, struct leat_error *error);
/* Releases everything. LEAT_OK: the document was read to its end, and nothing follows it. Otherwise the error names
 * file, line and offset. */
int leat_json_end(struct leat_json *json);
/* Releases everything, where the caller has found an error of its own. */
void leat_json_stop(struct leat_json *json);

/* The kind of the next value by its first character: '{', '[', '"', 'n', 't', 'f', or '0' for a number; 0: a fault. */
char leat_json_peek(struct leat_json *json);
/* The kind in words: "a list". */
const char *leat_json_kind(char kind);
bool leat_json_enter(struct leat_json *json, char bracket);
bool leat_json_item(struct leat_json *json);
/* A key that is longer than the room is cut, which no known one is. */
bool leat_json_key(struct leat_json *json, char *key, size_t room);
/* A string of UTF-8, NUL-terminated, valid until the next one is read; its length may be NULL. One with a NUL in it is
 * a fault. */
const char *leat_json_string(struct leat_json *json, size_t *length);
/* A number, correctly rounded; `whole` (may be NULL): whether it is an integer that int64_t holds, and which. */
bool leat_json_number(struct leat_json *json, double *number, bool *is_whole, int64_t *whole);
bool leat_json_skip(struct leat_json *json);
/* Line, from 1, and offset of the next character. */
uint64_t leat_json_line(struct leat_json *json);
uint64_t leat_json_offset(const struct leat_json *json);

#endif
