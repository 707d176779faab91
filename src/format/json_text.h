/*
 * JSON that is walked through: the caller goes from value to value and takes what it wants, and no tree is built. The
 * bytes lie in memory (leat_json_span: a record of JSONL), or in a file that is read piece by piece (leat_json_begin):
 * half a gigabyte of annotations takes seconds and a megabyte.
 *
 *     if (leat_json_enter(j, '{'))
 *         while (leat_json_key(j, key, sizeof key))       the next key, until the closing brace
 *             if (!strcmp(key, "images") && leat_json_enter(j, '['))
 *                 while (leat_json_item(j)) ...           before each element, until the closing bracket
 *             else
 *                 leat_json_skip(j);                      every value is taken or skipped
 *
 * Whatever is passed is checked: grammar, UTF-8, escapes, depth. NaN, Infinity and -Infinity are numbers, because
 * Python writes them. The first fault stays: `fault` says what it is, `at` where, and everything then returns false.
 *
 * A text in memory may hold a NUL (\u0000), and a number beyond 64 bits or the range of a double is a fault. In a file
 * it is the other way round: its callers take texts that a NUL ends, and numbers as doubles. One thread.
 */
#ifndef LEAT_FORMAT_JSON_TEXT_H
#define LEAT_FORMAT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

#define LEAT_JSON_DEPTH 64    /* objects and lists in each other */
#define LEAT_JSON_DEEPEST 512 /* in one that may be deeper */

/* The faults of a text. The numbers up to LONG stand in index files. */
enum leat_json_fault {
    LEAT_FAULT_NONE = 0,
    LEAT_FAULT_NO_OBJECT,
    LEAT_FAULT_VALUE,
    LEAT_FAULT_WORD,
    LEAT_FAULT_NUMBER,
    LEAT_FAULT_RANGE,
    LEAT_FAULT_CONTROL,
    LEAT_FAULT_ESCAPE,
    LEAT_FAULT_SURROGATE,
    LEAT_FAULT_UTF8,
    LEAT_FAULT_COMMA,
    LEAT_FAULT_COLON,
    LEAT_FAULT_KEY,
    LEAT_FAULT_END,
    LEAT_FAULT_BEHIND,
    LEAT_FAULT_DEPTH,
    LEAT_FAULT_TWICE, /* this and NO_OBJECT are found by json_record.c */
    LEAT_FAULT_NAN,
    LEAT_FAULT_LONG, /* not found here: a line that is too long to be read */
    /* of a file */
    LEAT_FAULT_LONG_TEXT,
    LEAT_FAULT_LONG_NUMBER,
    LEAT_FAULT_NEEDS_OBJECT,
    LEAT_FAULT_NEEDS_LIST,
    LEAT_FAULT_NEEDS_TEXT,
    LEAT_FAULT_NEEDS_NUMBER,
    LEAT_FAULT_NO_MEMORY,
    LEAT_FAULT_READ,
    LEAT_FAULT_COUNT
};
const char *leat_json_fault_text(unsigned fault);

/* A value that is neither an object nor a list. */
enum leat_json_type {
    LEAT_JSON_NULL = 0,
    LEAT_JSON_BOOL,
    LEAT_JSON_INT,   /* within int64_t */
    LEAT_JSON_UINT,  /* within uint64_t, beyond int64_t */
    LEAT_JSON_FLOAT, /* with a point or an exponent, NaN, Infinity; in a file also one beyond 64 bits */
    LEAT_JSON_STR
};
union leat_json_bits {
    int64_t i;
    uint64_t u;
    double d;
};
struct leat_json_value {
    enum leat_json_type type;
    const uint8_t *text;         /* where it stands; of a string, behind its quote, ... */
    size_t length;               /* ... and how many bytes that is, without quotes */
    bool escaped;                /* a string with escapes: leat_json_unescape */
    union leat_json_bits number; /* BOOL, INT, UINT, FLOAT */
    double rounded;              /* INT, UINT, FLOAT; -0 has its sign */
};

struct leat_json {
    const uint8_t *begin, *p, *end;         /* the bytes that are there, and the next one */
    uint64_t offset;                        /* of `begin`, in the file */
    uint8_t objects[LEAT_JSON_DEEPEST / 8]; /* of each bracket that is open, a bit: it is a brace */
    unsigned depth, deepest;                /* brackets that are open, and that may be */
    bool first;                             /* nothing was read yet behind the last bracket that opened */
    bool is_utf8;                           /* the bytes are known to be UTF-8; set by the caller */
    bool no_nan;                            /* NaN and Infinity are a fault; set by the caller */
    bool any_value; /* halves of surrogate pairs and numbers of any size are none; set by the caller */
    enum leat_json_fault fault;
    uint64_t at; /* of the fault; from the beginning of file or span */
    /* of a file */
    struct leat_io_file *file; /* NULL: a span */
    uint8_t *buffer;           /* where the bytes that are there lie */
    size_t room;
    uint64_t lines;         /* that end before ... */
    const uint8_t *counted; /* ... this byte */
    char *text;             /* of the last string */
    size_t text_room;
    int code; /* of READ: what reading returned */
    struct leat_error *error;
};

/* ---- a file: the place is kept here ---- */

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
/* A string of UTF-8, NUL-terminated, valid until the next string or key is read; its length may be NULL. */
const char *leat_json_string(struct leat_json *json, size_t *length);
/* A copy of a string, freed with leat_free, in the place of the one that is there; of null: NULL. */
bool leat_json_text(struct leat_json *json, char **out);
/* A number, correctly rounded; `whole` (may be NULL): whether it is an integer that int64_t holds, and which. */
bool leat_json_read_number(struct leat_json *json, double *number, bool *is_whole, int64_t *whole);
bool leat_json_skip(struct leat_json *json);
/* Line, from 1, and offset of the next character. */
uint64_t leat_json_line(struct leat_json *json);
uint64_t leat_json_offset(const struct leat_json *json);

/* ---- bytes in memory: json_pass.h ---- */

/* The bytes stay where they are until the walk is over, and nothing is to be released. */
void leat_json_span(struct leat_json *json, const uint8_t *bytes, size_t n);
/* A fault at a byte that is there. Returns false. */
bool leat_json_fail(struct leat_json *json, enum leat_json_fault fault, const uint8_t *at);
/* The next byte that is no white space, behind those that are there; the end: there is none. */
const uint8_t *leat_json_look_further(struct leat_json *json);
/* Whether what begins at *from, and ends at *p or has a fault (NULL), may be cut by the end of the buffer, and more of
 * it is there now, at *from. */
bool leat_json_is_cut(struct leat_json *json, const uint8_t **from, const uint8_t **p);

/* How many bytes of a text are UTF-8 (no surrogates, no overlong forms) before the first that is not. Any thread. */
size_t leat_utf8_check(const void *text, size_t length);
/* Decodes the escapes of a string that was read, to `to` with room for as many bytes. Returns how many. */
size_t leat_json_unescape(const uint8_t *text, size_t length, char *to);

#endif
